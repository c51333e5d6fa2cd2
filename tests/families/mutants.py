"""Kernels broken on purpose, for the families' tests."""

from collections.abc import Callable, Iterable

import pytest

import im2wingen.emulator.plan
from im2wingen.families.base import Launch
from im2wingen.render import Source


def mutate(monkeypatch: pytest.MonkeyPatch, template: str, edits: Iterable[tuple[str, str]], *, times: int = 1) -> None:
    """Change the kernel in every emulated plan from now on: texts that it holds so many times are replaced."""
    original: Callable[[Launch], Source] = im2wingen.emulator.plan.render

    def changed(launch: Launch) -> Source:
        source = original(launch)
        if launch.template != template:
            return source
        text = source.text
        for old, new in edits:
            if text.count(old) != times:
                pytest.fail(f"the template holds {old!r} {text.count(old)} times, not {times}")
            text = text.replace(old, new)
        return Source(source.kernel, text)

    monkeypatch.setattr(im2wingen.emulator.plan, "render", changed)
