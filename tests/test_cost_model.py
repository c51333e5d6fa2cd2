"""The estimate's direction where everybody agrees on it, its order where it was measured; its size is no promise."""

import itertools
from dataclasses import replace
from typing import Any, cast

import pytest

from im2wingen.cost_model import estimate_us, resident_ctas
from im2wingen.cpu_target import CPU_PRESETS
from im2wingen.families.base import Family, Launch, Plan
from im2wingen.families.mma import MMA
from im2wingen.families.mma_config import MmaConfig
from im2wingen.families.occupancy import SUSTAINED_CLOCK
from im2wingen.families.simt import SIMT
from im2wingen.families.support import problem_values
from im2wingen.families.wgmma_rows import WGMMA_ROWS
from im2wingen.nvrtc import Cubin
from im2wingen.problem import ConvProblem
from im2wingen.target import preset

TARGET = preset("sm_90a")
PROBLEM = ConvProblem.parse("n32c64h56w56k64r3s3")
LAUNCH = Launch(
    template="any",
    values=problem_values(PROBLEM),
    grid=(132 * 6, 1, 1),
    block=128,
    smem_bytes=48 * 1024,
    arguments=("x", "w", "bias", "y", "x", "w"),
    pipe="mma",
    flops=PROBLEM.flops,
    l2_bytes=200_000_000,
)
PRICED = replace(LAUNCH, busy_cycles=20_000.0, idle_cycles=8_000.0)


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
        {"pipe": "ffma"},
        {"values": {**LAUNCH.values, "ELEMENT": "float"}},  # tf32 has half the rate, and twice the bytes
        {"grid": (16, 1, 1)},  # most SMs idle
    ],
    ids=lambda change: "-".join(change),
)
def test_waste_is_slower(change: dict[str, object]) -> None:
    assert estimate(replace(LAUNCH, **change)) > estimate(LAUNCH)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [
        {"busy_cycles": 25_000.0},
        {"idle_cycles": 12_000.0},
        {"grid": (132 * 6 + 1, 1, 1)},
        {"smem_bytes": 120 * 1024},
        {"ctas_per_sm_by_threads": 1},
    ],
    ids=lambda change: "-".join(change),
)
def test_what_a_family_says_of_a_cta_counts(change: dict[str, object]) -> None:
    assert estimate(replace(PRICED, **change)) > estimate(PRICED)  # type: ignore[arg-type]


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
    workspace = {"window": 10_000_000}
    both = estimate_us(Plan(launches=(transform, LAUNCH), workspace=workspace), TARGET)
    beside = estimate_us(Plan(launches=(transform, replace(LAUNCH, beside=True)), workspace=workspace), TARGET)
    gap = estimate_us(Plan(launches=()), TARGET)  # before a plan
    assert beside == pytest.approx(alone + estimate(LAUNCH, window=10_000_000) - gap)
    assert beside < both < beside + gap
    large = estimate_us(Plan(launches=(transform,), workspace={"window": 2_000_000_000}), TARGET)
    assert large > 2_000_000_000 / TARGET.dram_gbps / 1e3


def test_what_is_hidden_passes_in_the_gap() -> None:
    hidden = replace(PRICED, hidden_cycles=3000.0)
    assert estimate(PRICED) - estimate(hidden) == pytest.approx(3000 / (SUSTAINED_CLOCK * TARGET.clock_mhz), rel=0.15)
    gap = estimate_us(Plan(launches=()), TARGET)
    brief = replace(PRICED, busy_cycles=1.0, idle_cycles=1.0, hidden_cycles=1e6, values={})
    assert estimate(brief) == pytest.approx(gap)


@pytest.mark.parametrize(
    ("shape", "sooner"),
    [
        ("n1c8h64w64k64r1s16", MMA),  # 2.8 us, 3.8 of wgmma_rows
        ("n8c8h64w64k64r3s3", WGMMA_ROWS),  # 4.7 us, 6.7 of mma
    ],
)
def test_measured_small_layers_are_served_by_the_sooner_family(shape: str, sooner: Family) -> None:
    problem = ConvProblem.parse(shape)
    estimates = {
        family.name: estimate_us(family.plan(problem, TARGET, family.default(problem, TARGET)), TARGET)
        for family in (MMA, WGMMA_ROWS)
    }
    assert min(estimates, key=estimates.__getitem__) == sooner.name


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
    plan = Plan(launches=(PRICED,))
    assert estimate_us(plan, TARGET, (cubin(num_regs=255),)) > estimate_us(plan, TARGET, (cubin(num_regs=64),))


# ---- measured on an NVIDIA H200: fp16, NHWC, batch 128 ----
# layer -> (us, staging order tile warps_m x warps_n x warps_k, then warp_n patch_k block_k copy_bytes num_stages
# fragment_stages pad_rows ctas_per_sm)
MEASURED = {
    "cv1": [
        (157, "window run 1x28x8 2x2x1 48 376 32 2 3 1 0 1"),
        (196, "window run 2x5x19 2x1x1 48 376 32 2 1 1 0 1"),
        (330, "window column 2x5x11 4x2x1 64 40 32 2 2 2 1 1"),
        (534, "explicit column 2x11x8 1x2x1 16 40 16 16 5 1 0 2"),
    ],
    "cv4": [
        (1807, "window row 1x10x22 2x2x2 32 64 64 16 3 2 1 1"),
        (2243, "window row 1x16x11 4x2x1 32 32 32 16 4 2 1 1"),
        (2893, "window row 1x22x5 2x2x2 32 64 64 16 3 2 0 1"),
        (4689, "window row 1x10x11 2x1x1 64 64 32 16 3 2 0 1"),
    ],
    "cv7": [
        (425, "window column 1x16x16 2x2x1 32 16 64 2 1 1 0 2"),
        (685, "window column 1x8x16 1x4x2 16 16 64 2 2 2 0 2"),
        (1566, "explicit column 1x6x8 2x2x1 32 16 128 16 2 1 0 1"),
    ],
    "cv8": [
        (536, "window row 1x10x16 2x2x1 64 64 64 8 2 2 0 1"),
        (669, "window row 1x11x10 2x2x1 64 64 64 16 2 2 0 2"),
        (858, "window column 1x10x16 1x4x1 32 192 16 4 4 1 0 2"),
        (1122, "window row 1x22x5 2x1x2 32 64 32 8 5 1 0 1"),
        (1873, "explicit column 1x16x3 2x4x1 32 192 32 16 5 2 0 2"),
    ],
    "cv9": [
        (77, "window row 1x14x18 4x1x1 64 64 64 16 5 2 0 2"),
        (97, "window row 1x6x18 2x2x1 32 64 64 16 3 2 1 3"),
        (124, "window row 1x6x18 4x2x1 32 32 32 16 4 2 0 1"),
        (261, "tap row 1x7x9 1x2x1 32 64 16 8 3 1 0 3"),
    ],
    "cv12": [
        (49, "window row 5x5x5 2x2x2 64 128 64 16 3 2 0 1"),
        (60, "tap row 5x5x5 4x2x1 64 512 32 16 4 2 0 1"),
        (102, "tap row 5x5x5 4x1x1 64 512 64 16 5 2 0 1"),
        (170, "window row 5x5x5 4x2x1 64 32 32 16 1 1 0 1"),
    ],
}


def mma_config(text: str) -> MmaConfig:
    staging, order, tile, warps, *numbers = text.split()
    names = ("tile_n", "tile_p", "tile_q", "warps_m", "warps_n", "warps_k", "warp_n", "patch_k", "block_k",
             "copy_bytes", "num_stages", "fragment_stages", "pad_rows", "ctas_per_sm")  # fmt: skip
    fields: dict[str, Any] = dict(zip(names, map(int, [*tile.split("x"), *warps.split("x"), *numbers]), strict=True))
    fields["pad_rows"] = bool(fields["pad_rows"])
    return MmaConfig(
        staging=cast(Any, staging),
        window_order=cast(Any, order),
        mma_shape="m16n8k16",
        promote_k=1,
        spread_copies=False,
        programmatic_launch=False,
        tile_order="linear",
        fragment_order="linear",
        **fields,
    )


@pytest.mark.parametrize("layer", MEASURED)
def test_measured_mma_configs_are_in_order(layer: str) -> None:
    problem = ConvProblem.parse(layer, precision="fp16")
    rows = [(us, estimate_us(MMA.plan(problem, TARGET, mma_config(text)), TARGET)) for us, text in MEASURED[layer]]
    for (fast, low), (slow, high) in itertools.combinations(rows, 2):
        assert low < high or slow < 1.4 * fast, (fast, slow)
    for us, estimated in rows:
        assert us / 2 < estimated < us * 2


@pytest.mark.parametrize("layer", MEASURED)
def test_the_default_is_estimated_as_fast_as_the_best_measured(layer: str) -> None:
    problem = ConvProblem.parse(layer, precision="fp16")
    default, best = MMA.default(problem, TARGET), mma_config(MEASURED[layer][0][1])
    estimates = [estimate_us(MMA.plan(problem, TARGET, config), TARGET) for config in (default, best)]
    assert estimates[0] < 1.2 * estimates[1]


@pytest.mark.parametrize(
    ("layer", "us", "changes"),
    [
        ("cv8", 5014, {}),
        ("cv7", 1049, {}),
        ("cv8", 6046, {"tile_n": 2, "tile_p": 5, "tile_q": 30, "block_n": 128, "block_r": 1, "thread_n": 8,
                       "lanes_m": 2, "num_stages": 3, "ctas_per_sm": 1, "x_vector": 1}),
        ("cv7", 5250, {"tile_n": 32, "tile_p": 1, "tile_q": 22, "block_n": 64, "block_c": 1, "block_r": 1,
                       "thread_p": 1, "thread_q": 11, "thread_n": 16, "lanes_m": 8, "num_stages": 2,
                       "ctas_per_sm": 1, "x_vector": 2, "store": "registers"}),
    ],
)  # fmt: skip
def test_measured_simt_configs_are_not_before_the_default(layer: str, us: float, changes: dict[str, Any]) -> None:
    problem = ConvProblem.parse(layer, precision="fp32", layout="nchw")
    default = SIMT.default(problem, TARGET)
    estimates = [
        estimate_us(SIMT.plan(problem, TARGET, config), TARGET) for config in (default, replace(default, **changes))
    ]
    assert estimates[0] <= estimates[1]
    assert estimates[1] < 2.5 * us


@pytest.mark.parametrize(("ctas_per_sm", "block_n", "resident"), [(1, 64, 2), (2, 64, 2), (1, 128, 1), (1, 32, 3)])
def test_small_simt_ctas_share_an_sm(ctas_per_sm: int, block_n: int, resident: int) -> None:
    """128 threads of 255 registers leave room for a second CTA, 256 don't, 64 for as many as shared memory holds."""
    problem = ConvProblem.parse("cv12", precision="fp32", layout="nhwc")
    config = replace(SIMT.default(problem, TARGET), tile_n=4, tile_p=5, tile_q=5, block_n=block_n, block_c=16,
                     block_r=3, thread_p=5, thread_q=5, thread_n=4, slices=2, lanes_m=4, num_stages=2,
                     ctas_per_sm=ctas_per_sm)  # fmt: skip
    assert SIMT.plan(problem, TARGET, config).launches[-1].ctas_per_sm_by_threads == resident


def test_a_cpu_is_estimated_by_its_busiest_core_or_by_its_flops() -> None:
    cpu = CPU_PRESETS["x86-64-avx2"]

    def plan(**facts: Any) -> Plan:
        launch = Launch(template="k", values={}, grid=(1, 1, 1), block=1, smem_bytes=0, arguments=(), **facts)
        return Plan(launches=(launch,))

    nothing = estimate_us(plan(), cpu)
    by_flops = estimate_us(plan(flops=10**9), cpu) - nothing
    assert by_flops == pytest.approx(1e6 / cpu.fp32_gflops)
    assert estimate_us(plan(flops=10**9, busy_cycles=1e6), cpu) - nothing == pytest.approx(1e6 / cpu.clock_mhz)
    assert estimate_us(plan(flops=10**9, l2_bytes=10**9), cpu) > by_flops
