"""The estimate's direction where everybody agrees on it; its size is nobody's promise."""

from dataclasses import replace

import pytest

from im2wingen.cost_model import estimate_us, resident_ctas
from im2wingen.families.base import Launch, Plan
from im2wingen.families.support import problem_values
from im2wingen.nvrtc import Cubin
from im2wingen.problem import ConvProblem
from im2wingen.target import preset

TARGET = preset("sm_90a")
PROBLEM = ConvProblem.parse("n32c64h56w56k64r3s3")
LAUNCH = Launch(
    template="mma",
    values={**problem_values(PROBLEM), "WARP_M": 64, "WARP_N": 32, "NUM_STAGES": 3},
    grid=(132 * 6, 1, 1),
    block=128,
    smem_bytes=48 * 1024,
    arguments=("x", "w", "bias", "y", "x", "w"),
    pipe="mma",
    flops=PROBLEM.flops,
    l2_bytes=200_000_000,
)


def estimate(launch: Launch, **workspace: int) -> float:
    return estimate_us(Plan(launches=(launch,), workspace=workspace), TARGET)


def cubin(*, num_regs: int = 32, smem_bytes: int = 0) -> Cubin:
    return Cubin(
        kernel="mma", arch="sm_90a", image=b"", log="", num_regs=num_regs, spill_bytes=0, stack_bytes=0,
        smem_bytes=smem_bytes, compile_s=0.1, nvrtc_version="13.0",
    )  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"flops": 2 * LAUNCH.flops},  # the waste of partial tiles
        {"l2_bytes": 5 * LAUNCH.l2_bytes},
        {"grid": (132 * 6 + 1, 1, 1), "flops": LAUNCH.flops * (132 * 6 + 1) // (132 * 6)},  # one CTA into a new wave
        {"smem_bytes": 120 * 1024},  # one CTA an SM
        {"ctas_per_sm_by_threads": 1},
        {"values": {**LAUNCH.values, "WARP_N": 8}},  # more reads of shared memory a product
        {"values": {**LAUNCH.values, "NUM_STAGES": 1}},  # nothing is copied ahead
        {"pipe": "ffma"},
        {"values": {**LAUNCH.values, "ELEMENT": "float"}},  # tf32 has half the rate, and twice the bytes
        {"grid": (16, 1, 1)},  # most SMs idle
    ],
    ids=lambda change: "-".join(change),
)
def test_waste_is_slower(change: dict[str, object]) -> None:
    assert estimate(replace(LAUNCH, **change)) > estimate(LAUNCH)  # type: ignore[arg-type]


def test_it_is_above_the_ceilings_and_deterministic() -> None:
    ceiling_us = (
        max(LAUNCH.flops / TARGET.peak_tflops("fp16"), PROBLEM.compulsory_bytes / TARGET.dram_gbps * 1e3) * 1e-6
    )
    assert estimate(LAUNCH) > ceiling_us
    assert estimate(LAUNCH) == estimate(LAUNCH)


def test_launches_add_up_and_a_large_workspace_crosses_dram() -> None:
    transform = Launch(
        template="window_transform", values=problem_values(PROBLEM), grid=(5000, 1, 1), block=256, smem_bytes=0,
        arguments=("x", "window"), l2_bytes=50_000_000,
    )  # fmt: skip
    alone = estimate_us(Plan(launches=(transform,), workspace={"window": 10_000_000}), TARGET)
    both = estimate_us(Plan(launches=(transform, LAUNCH), workspace={"window": 10_000_000}), TARGET)
    assert both == pytest.approx(alone + estimate(LAUNCH, window=10_000_000))
    large = estimate_us(Plan(launches=(transform,), workspace={"window": 2_000_000_000}), TARGET)
    assert large > 2_000_000_000 / TARGET.dram_gbps / 1e3


def test_originals_do_not_count_where_a_workspace_stands_for_them() -> None:
    bound = replace(LAUNCH, flops=0, l2_bytes=0)
    from_window = replace(bound, arguments=("window", "packed", "bias", "y", "x", "w"))
    assert estimate(from_window, window=1000, packed=1000) < estimate(bound)


def test_resident_ctas_follow_the_scarcest_resource() -> None:
    assert resident_ctas(LAUNCH, TARGET) == 4  # 228 KiB / (48 + 1)
    assert resident_ctas(LAUNCH, TARGET, cubin(smem_bytes=30 * 1024)) == 2
    assert resident_ctas(LAUNCH, TARGET, cubin(num_regs=255)) == 2  # 65536 / (4 warps * 8192)
    assert resident_ctas(replace(LAUNCH, ctas_per_sm_by_threads=3), TARGET) == 3
    assert resident_ctas(replace(LAUNCH, ctas_per_sm_by_threads=3), TARGET, cubin()) == 4  # a cubin knows better
    assert resident_ctas(replace(LAUNCH, smem_bytes=228 * 1024), TARGET) == 0
    assert resident_ctas(replace(LAUNCH, block=1024), TARGET, cubin(num_regs=72)) == 0
    small = replace(LAUNCH, block=32, smem_bytes=0)
    assert resident_ctas(small, TARGET) == TARGET.max_blocks_per_sm


def test_registers_of_a_cubin_slow_a_plan() -> None:
    plan = Plan(launches=(LAUNCH,))
    assert estimate_us(plan, TARGET, (cubin(num_regs=255),)) > estimate_us(plan, TARGET, (cubin(num_regs=64),))
