import json
import math
from dataclasses import dataclass, replace

import pytest
from db_records import a_record

from im2wingen.db.records import config_text, stronger, utc_now
from im2wingen.families.base import Config
from im2wingen.outcome import Outcome


def test_text_is_json_in_the_order_of_the_fields_with_a_sorted_config():
    values = json.loads(a_record(64).text)
    assert list(values)[:3] == ["problem_key", "family", "config"]
    assert list(values["config"]) == sorted(values["config"])
    assert "id" not in values


def test_identity_leaves_out_the_cubins_and_nothing_else():
    record = a_record()
    assert replace(record, cubin_sha256=()).identity == record.identity
    others = {
        "family": "simt", "config": {"block_m": 1}, "outcome": Outcome.SLOWER, "device_name": "x", "median_us": 101.0,
        "study": "b", "trial": 1, "play_off": True, "predicted": True, "template_digest": "00", "driver_version": "1",
        "nvrtc_version": "12.9", "protocol_version": 2, "created_at": utc_now(),
    }  # fmt: skip
    assert len({replace(record, **{name: value}).identity for name, value in others.items()}) == len(others)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None])
def test_a_float_that_is_no_number_is_none(value):
    assert a_record(max_error=value).max_error is None


def test_negative_zero_is_zero_as_in_sqlite():
    assert math.copysign(1, a_record(max_error=-0.0).max_error) == 1


def test_a_reason_holds_what_every_database_takes():
    assert a_record(reason="log\0with \ud800").reason == "log?with ?"


def test_the_config_digest_is_the_families_one():
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Example(Config):
        staging: str = "window"
        block_m: int = 128
        swizzled: bool = True

    assert a_record(128).config_digest == Example().digest()
    assert config_text(Example().to_dict()) == config_text(a_record(128).config)


def test_stronger_prefers_cubins_then_the_smaller_text():
    bare, one, two = (a_record(cubin_sha256=hashes) for hashes in ((), ("11" * 32,), ("22" * 32,)))
    assert stronger(bare, two) is stronger(two, bare) is two
    assert stronger(one, two) is stronger(two, one) is one
