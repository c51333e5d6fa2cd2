"""Serving: which kernel a problem gets, its loading and launching on arrays of any library."""

from im2wingen.runtime.choice import Choice, Level, choose
from im2wingen.runtime.convolution import Convolution, PackedFilter
from im2wingen.runtime.loading import load, look_up, opened_records
from im2wingen.runtime.provenance import Provenance

__all__ = [
    "Choice",
    "Convolution",
    "Level",
    "PackedFilter",
    "Provenance",
    "choose",
    "load",
    "look_up",
    "opened_records",
]
