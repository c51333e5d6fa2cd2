"""Same kernels, kernels that must not run, and records."""

from dataclasses import replace

import pytest
from tuning_fakes import FACTS, ONE, PROBLEM, TARGET, TWO, FakeConfig, fake_cubins

from im2wingen.families.base import Family
from im2wingen.outcome import Evaluation, Outcome
from im2wingen.tuning.attempt import Compiled, RecordMaker, forbidden, rendered
from im2wingen.tuning.study import Pick

MAKER = RecordMaker(problem=PROBLEM, target=TARGET, driver_version="1.2", protocol_version=7, study="test")


def compiled(family: Family, config: FakeConfig, **facts: int) -> Compiled:
    attempt = rendered(PROBLEM, TARGET, 3, Pick(family=family, config=config, trial=None))
    return Compiled(attempt=attempt, cubins=fake_cubins(attempt.sources, **facts))


def test_kernels_are_the_same_whatever_the_config_says() -> None:
    one = compiled(ONE, FakeConfig(threads=64, depth=2))
    assert one.kernels == compiled(ONE, FakeConfig(threads=64, depth=2, word="beta")).kernels
    assert one.kernels != compiled(ONE, FakeConfig(threads=96, depth=2)).kernels  # another text
    assert one.kernels != compiled(ONE, FakeConfig(threads=64, depth=3)).kernels  # another launch of the same text
    assert one.kernels != compiled(TWO, FakeConfig(threads=64, depth=2)).kernels


@pytest.mark.parametrize(
    ("facts", "outcome", "words"),
    [
        ({}, None, ""),
        ({"spill_bytes": 8}, Outcome.SPILLS, "pack_filter spills 8 bytes"),
        ({"smem_bytes": 226 * 1024}, Outcome.ILLEGAL, "233472 bytes of shared memory; a CTA has 232448"),
        ({"num_regs": 264}, Outcome.ILLEGAL, "67584 registers a CTA; an SM has 65536"),
    ],
)
def test_kernels_that_must_not_run(facts: dict[str, int], outcome: Outcome | None, words: str) -> None:
    found = forbidden(compiled(ONE, FakeConfig(threads=256, depth=2), **facts), TARGET)
    assert (found.outcome if found else None) == outcome
    assert words in (found.reason if found else "")


def test_a_record_of_a_config_that_did_not_compile() -> None:
    attempt = compiled(ONE, FakeConfig(threads=64, depth=2)).attempt
    record = MAKER.record(attempt, Evaluation(outcome=Outcome.COMPILE_ERROR, reason="x" * 10_000))
    assert (record.outcome, record.trial, record.median_us, record.cubin_sha256) == ("compile_error", 3, None, ())
    assert (record.num_regs, record.smem_bytes) == (None, None)
    assert len(record.reason) == 2000
    assert record.config == {"threads": 64, "depth": 2, "word": "alpha"}


def test_a_record_counts_static_and_dynamic_shared_memory() -> None:
    one = compiled(ONE, FakeConfig(threads=64, depth=2), smem_bytes=100)
    record = MAKER.record(one.attempt, Evaluation(outcome=Outcome.SLOWER, reason="slow"), one.cubins)
    assert record.smem_bytes == 2148


def test_only_comparable_records_fit() -> None:
    one = compiled(ONE, FakeConfig(threads=64, depth=2))
    record = MAKER.record(one.attempt, Evaluation(outcome=Outcome.SPILLS, reason="spills"), one.cubins)
    families = {"one": ONE}
    assert FACTS.target == TARGET
    assert MAKER.fits(record, families)
    assert not MAKER.fits(record, {"two": TWO})
    for change in ({"device_name": "Other"}, {"arch": "sm_80"}, {"predicted": True}, {"protocol_version": 1},
                   {"nvrtc_version": "1"}, {"template_digest": "1"}):  # fmt: skip
        assert not MAKER.fits(replace(record, **change), families)  # type: ignore[arg-type]
