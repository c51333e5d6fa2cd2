from dataclasses import dataclass, replace

import pytest
from db_records import ARCH, DIGEST, H200, PROBLEM, a_record

from im2wingen import ConvProblem
from im2wingen.db import LayeredRecords, TrialRecord, best_of_each, distance
from im2wingen.db.look_up import kind_of, rank
from im2wingen.outcome import Outcome


@dataclass
class Listed:
    """A RecordSource over a list of usable records."""

    records: list[TrialRecord]

    def candidates(self, problem_key, *, arch, template_digests):
        return [r for r in self.records if r.problem_key == problem_key and r.arch == arch]

    def problem_keys(self, kind, *, arch, template_digests):
        keys = {r.problem_key for r in self.records if r.arch == arch}
        return [key for key in keys if kind_of(ConvProblem.from_key(key)) == kind]


def order(*records: TrialRecord) -> list[int]:
    return [record.config["block_m"] for record in rank([records], device_name=H200)]


def test_the_fastest_comes_first():
    assert order(a_record(1, median_us=3.0), a_record(2, median_us=1.0), a_record(3, median_us=2.0)) == [2, 3, 1]


def test_measured_outranks_predicted_even_on_another_device():
    slow_elsewhere = a_record(1, median_us=900.0, device_name="NVIDIA H100")
    assert order(a_record(2, median_us=1.0, predicted=True), slow_elsewhere) == [1, 2]


def test_this_device_outranks_others_of_its_arch():
    assert order(a_record(1, median_us=1.0, device_name="NVIDIA H100"), a_record(2, median_us=9.0)) == [2, 1]


def test_as_many_threads_come_first_whatever_was_faster_with_another_number():
    two, one = a_record(1, median_us=1.0, sm_count=2), a_record(1, median_us=9.0, sm_count=1)
    assert [r.sm_count for r in rank([[two, one]], device_name=H200, cores=1)] == [1]
    assert {r.sm_count for r in best_of_each([two, one], keep=1)} == {1, 2}


def test_without_a_device_name_every_device_of_the_arch_is_equal():
    records = [a_record(1, median_us=1.0, device_name="NVIDIA H100"), a_record(2, median_us=9.0)]
    assert [r.config["block_m"] for r in rank([records], device_name=None)] == [1, 2]


def test_a_newer_protocol_outranks_since_medians_of_two_protocols_do_not_compare():
    assert order(a_record(1, median_us=1.0), a_record(2, median_us=9.0, protocol_version=2)) == [2, 1]


def test_within_a_study_the_play_off_decides():
    lucky, steady = a_record(1, median_us=1.0, trial=1), a_record(2, median_us=1.1, trial=2)
    outside = a_record(3, median_us=0.9, trial=3)
    play_off = [replace(lucky, median_us=1.3, play_off=True), replace(steady, median_us=1.2, play_off=True)]
    assert order(lucky, steady, outside, *play_off) == [2, 1, 3]


def test_studies_compare_by_their_heads():
    with_play_off = [a_record(1, median_us=1.0), a_record(2, median_us=5.0, play_off=True)]
    fast_study = [a_record(3, median_us=2.0, study="study-b"), a_record(4, median_us=7.0, study="study-b")]
    assert order(*with_play_off, *fast_study) == [3, 2, 1, 4]  # 1 is held back by its study's play-off, 4 is not


def test_a_config_appears_once():
    records = [a_record(1, median_us=5.0), a_record(1, median_us=4.0, trial=1), a_record(1, family="simt")]
    assert [(r.family, r.median_us) for r in rank([records], device_name=H200)] == [("mma", 4.0), ("simt", 100.0)]


def test_ties_break_by_config_digest_whatever_the_order_read():
    records = [a_record(size, study=study) for size, study in ((1, "a"), (2, "b"), (3, "a"), (4, "c"))]
    digests = [r.config_digest for r in rank([records], device_name=H200)]
    assert digests == sorted(digests)
    assert [r.config_digest for r in rank([records[::-1]], device_name=H200)] == digests


def ask(*layers: list[TrialRecord], **changes: object) -> list[int]:
    question = {"arch": ARCH, "device_name": H200, "template_digests": DIGEST, "limit": 9, **changes}
    return [r.config["block_m"] for r in LayeredRecords(tuple(map(Listed, layers))).best(PROBLEM.key, **question)]


def test_on_equal_footing_the_first_layer_wins():
    assert ask([a_record(1, median_us=9.0)], [a_record(2, median_us=1.0)]) == [1, 2]


def test_a_better_footing_wins_from_any_layer():
    users = [a_record(1, predicted=True, median_us=1.0), a_record(2, device_name="NVIDIA H100", median_us=1.0)]
    assert ask(users, [a_record(3, median_us=9.0)]) == [3, 2, 1]


def test_limit_and_nothing():
    assert ask([a_record(1), a_record(2, median_us=1.0)], limit=1) == [2]
    assert ask([], []) == []
    assert ask([a_record(1)], arch="sm_80") == []


def near(problem: ConvProblem, records: list[TrialRecord], **changes: object):
    question = {"arch": ARCH, "device_name": H200, "template_digests": DIGEST, **changes}
    return LayeredRecords((Listed(records),)).near(problem, **question)


def of(shape: str, block_m: int = 128, **problem: str) -> TrialRecord:
    return a_record(block_m, problem_key=ConvProblem.parse(shape, **problem).key)


def test_another_batch_comes_before_another_shape_and_the_nearer_before_the_farther():
    records = [
        of("n128c64h56w56k64r3s3"),  # the problem itself is no neighbour
        of("n128c64h56w57k64r3s3"),  # a shape that is nearer than any batch
        of("n1c64h56w56k64r3s3"),
        of("n256c64h56w56k64r3s3"),
        of("n128c64h56w56k128r3s3"),
        of("n128c64h56w56k64r3s3", precision="bf16"),  # another precision
        of("n128c64h56w56k64r3s3", layout="nchw"),  # another layout
    ]
    found = near(ConvProblem.parse("n128c64h56w56k64r3s3"), records)
    assert [(n.level, n.record.problem_key.split("/")[0]) for n in found] == [
        ("batch", "n256c64h56w56k64r3s3"),
        ("batch", "n1c64h56w56k64r3s3"),
        ("shape", "n128c64h56w57k64r3s3"),
        ("shape", "n128c64h56w56k128r3s3"),
    ]
    assert [n.distance for n in found[:2]] == [1.0, 7.0]
    assert len(near(PROBLEM, records, limit=2)) == 2


def test_the_same_layer_with_another_epilogue_is_the_nearest_of_all():
    found = near(PROBLEM, [of("n64c64h56w56k64r3s3"), of("cv9", epilogue="bias_relu")])
    assert [(n.level, n.distance) for n in found] == [("batch", 0.5), ("batch", 1.0)]


def test_each_neighbour_brings_its_best_record():
    other = ConvProblem.parse("cv9", batch=1).key
    records = [a_record(1, problem_key=other, median_us=2.0), a_record(2, problem_key=other, median_us=1.0)]
    assert [n.record.config["block_m"] for n in near(PROBLEM, records)] == [2]


@pytest.mark.parametrize(
    "shape",
    ["n64c64h56w56k64r3s3", "n128c32h56w56k64r3s3", "n128c64h56w56k64r5s3", "n128c64h56w56k64r3s3st2",
     "n128c64h56w56k64r3s3dil2", "n128c64h56w56k64r3s3g2"],
)  # fmt: skip
def test_distance_is_symmetric_and_grows_with_each_difference(shape):
    other = ConvProblem.parse(shape)
    assert distance(PROBLEM, other) == distance(other, PROBLEM) > 0
    assert distance(other, other) == 0


def test_best_of_each_place():
    records = [
        a_record(1, median_us=2.0),
        a_record(2, median_us=1.0),
        a_record(3, device_name="NVIDIA H100"),
        a_record(4, outcome=Outcome.SPILLS, median_us=None),
        of("cv1", 5),
    ]
    assert [r.config["block_m"] for r in best_of_each(records, 1)] == [5, 3, 2]


def test_what_a_play_off_refuted_is_not_ranked():
    estimate = {"predicted": True, "driver_version": "", "protocol_version": 0}
    verdict = a_record(1, **estimate, study="b", play_off=True, outcome=Outcome.WRONG_RESULT, median_us=None)
    fast = a_record(1, **estimate, study="a", median_us=1.0)
    other = a_record(2, **estimate, cubin_sha256=("d1" * 32,))
    assert order(fast, other, verdict) == [2]
    assert order(replace(fast, cubin_sha256=()), other, verdict) == [2]  # imported
    assert order(a_record(3, **estimate, median_us=1.0), other, verdict) == [2]  # the same machine code
    # the config under other templates, and a device's own measurement, are another matter
    assert order(replace(fast, template_digest="0" * 64, cubin_sha256=("d2" * 32,)), verdict) == [1]
    assert order(a_record(1, median_us=9.0), fast, verdict) == [1]
    assert [r.config["block_m"] for r in best_of_each([fast, verdict, other], 5)] == [2]
