"""Kernels of mma broken on purpose: the emulator's checks must find every one of them."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from mma_cases import TARGET, config_of, verify
from mutants import mutate

from im2wingen.dtypes import STORAGE_DTYPE, from_storage, to_storage
from im2wingen.emulator import run_plan
from im2wingen.errors import EmulatorError
from im2wingen.families.mma import MMA
from im2wingen.families.mma_config import MmaConfig
from im2wingen.problem import ConvProblem
from im2wingen.reference import conv_reference
from im2wingen.verify_data import WrongResultError
from im2wingen.verify_emulated import emulated_inputs

SEEDS = (0, 1, 2)  # threads ascending, descending, shuffled


@dataclass(frozen=True)
class Mutant:
    """`old` stands `times` times in the kernel and becomes `new` each time; what it breaks is run by `way`."""

    old: str
    new: str
    way: str = "row"
    shape: str = "n2c24h6w9k40r3s3pad1"
    config: dict[str, Any] = field(default_factory=dict)
    layout: str = "nhwc"
    times: int = 1
    nan: bool = False  # its harm is a NaN that spreads to other windows


PIPELINE: dict[str, Any] = {"num_stages": 3, "steps": 2, "warps_n": 2}
TAP: dict[str, Any] = {"way": "tap", "config": PIPELINE}
CHUNKS: dict[str, Any] = {"shape": "n1c80h6w9k16r1s1", "config": {"patch_k": 16, "steps": 1, "num_stages": 3}}
SPREAD: dict[str, Any] = {
    "shape": "n1c64h6w9k16r3s3",
    "config": {"spread_copies": True, "patch_k": 16, "steps": 1, "num_stages": 3},
}
ONE_STAGE: dict[str, Any] = {"way": "tap", "config": {"num_stages": 1, "warps_n": 2}}
TWO_FRAGMENTS: dict[str, Any] = {"way": "tap", "config": PIPELINE | {"fragment_stages": 2}}
SHARED_TILE: dict[str, Any] = {"config": {"warps_k": 4, "steps": 4, "num_stages": 2}}
STRIDED: dict[str, Any] = {"shape": "n1c8h9w13k16r3s3st2pad1"}
RAGGED: dict[str, Any] = {"shape": "n2c5h9w9k20r3s3", "config": {"warps_n": 2}}
WAIT = "ptx::cp_async_wait_group<kNumStages - 2>();"
LAX = "ptx::cp_async_wait_group<kNumStages - 1>();"
UNIT_TAIL: dict[str, Any] = {"shape": "n1c8h9w9k16r3s3"}  # nine units of K in slices of four
BARRIER = "__syncthreads();  // "

MUTANTS = {
    # ---- asynchronous copies and barriers ----
    "waits that let one group too many fly": Mutant(WAIT, LAX, **TAP, times=2),
    "the first wait is too lax": Mutant(
        WAIT + "\n    __syncthreads();  // slice 0", LAX + "\n    __syncthreads();  // slice 0", **TAP
    ),
    "the wait of the loop is too lax": Mutant(
        WAIT + "\n          __sync", LAX + "\n          __sync", **TWO_FRAGMENTS
    ),
    "no wait with a single stage": Mutant("ptx::cp_async_wait_group<0>();", "", **ONE_STAGE),
    "a commit left out in the prologue": Mutant(
        "loaded.advance();\n      ptx::cp_async_commit_group();\n    }", "loaded.advance();\n    }", **TAP
    ),
    "no barrier before slice 0": Mutant(BARRIER + "slice 0 is complete", "// slice 0 is complete", **TAP),
    "no barrier after a slice": Mutant(BARRIER + "slice i + 1 is complete", "// slice i + 1 is complete", **TAP),
    "no barrier after a slice, two sets of fragments": Mutant(
        BARRIER + "slice i + 1 is complete", "// slice i + 1 is complete", **TWO_FRAGMENTS
    ),
    "no barrier before a single stage is read": Mutant(BARRIER + "the slice is complete", "//", **ONE_STAGE),
    "no barrier after a single stage was read": Mutant(BARRIER + "the slice has been read", "//", **ONE_STAGE),
    "no barrier before the output tile is stored": Mutant(BARRIER + "the output tile is complete", "//", **TAP),
    "no barrier before the sums are added": Mutant(BARRIER + "the sums of warps k are there", "//", **SHARED_TILE),
    "no barrier before the next sums": Mutant(BARRIER + "they have been read", "//", **SHARED_TILE),
    "no barrier after the tails are cleared": Mutant(
        BARRIER + "the tails are clear", "//", "column", "n1c3h9w9k16r3s3"
    ),
    # ---- rings ----
    "the filter slot that is read is off by one": Mutant(
        "*b = smem.b + slice.b_slot", "*b = smem.b + (slice.b_slot + 1) % kNumStages", **TAP
    ),
    "the pixel slot that is read is off by one": Mutant(
        "*a = smem.a + slice.a_slot", "*a = smem.a + (slice.a_slot + 1) % A_BUFFERS", **TAP
    ),
    "the ring of slices is one too short": Mutant("b_slot + 1 == kNumStages", "b_slot + 2 >= kNumStages", **TAP),
    "the ring of patches is one too short": Mutant("a_slot + 1 == A_BUFFERS", "a_slot + 2 >= A_BUFFERS", **CHUNKS),
    "a patch buffer too few": Mutant("kWantedPatches = 1 +", "kWantedPatches = 0 +", **CHUNKS),
    "the next chunk's patch is not loaded": Mutant("slice.index == 0 && slice.chunk > 0", "false", **CHUNKS),
    "a share of the next patch too early": Mutant(
        "slice.index - (kNumStages - 1),", "slice.index - (kNumStages - 2),", **SPREAD
    ),
    "a share copied to this chunk's buffer": Mutant(
        "slice.next_a_slot() * A_STAGE", "slice.a_slot * A_STAGE", **SPREAD
    ),
    "the last copy of a shared patch left out": Mutant("copy < COPIES &&", "copy + 1 < COPIES &&", **SPREAD),
    "a share of this chunk's channels": Mutant("chunk = slice.chunk + 1;", "chunk = slice.chunk;", **SPREAD),
    # ---- the K axis ----
    "the last slice left out": Mutant("ITERATIONS = CHUNKS * CHUNK_SLICES;", "ITERATIONS = CHUNKS * CHUNK_SLICES - 1;"),
    "the last slice left out, run": Mutant(
        "ITERATIONS = CHUNKS * CHUNK_SLICES;", "ITERATIONS = CHUNKS * CHUNK_SLICES - 1;", "run", "n1c4h9w9k16r3s3"
    ),
    "a step of a slice left out": Mutant(
        "for (int step = 0; step < WARP_STEPS; ++step) {\n        warp.load_step(f[0]",
        "for (int step = 1; step < WARP_STEPS; ++step) {\n        warp.load_step(f[0]",
        **ONE_STAGE,
    ),
    "a filter column skipped": Mutant("tap : tap % S, r = ", "tap : (tap + 1) % S, r = "),
    "a filter column skipped, column order": Mutant(
        "kColumnOrder ? tap : tap % S", "kColumnOrder ? (tap + 1) % S : tap % S", "column", "n1c3h9w9k16r3s3"
    ),
    "the filter row is off by one": Mutant("r = kColumnOrder ? 0 : tap / S;", "r = kColumnOrder ? 0 : (tap + 1) / S;"),
    "the filter row of a tap is off by one": Mutant("row = tap / S *", "row = (tap + 1) / S *", **TAP),
    "the row of a run is off by one": Mutant(
        "r * DILATION_H * RUN_ROW", "(r + 1) % R * DILATION_H * RUN_ROW", "run", "n1c4h9w9k16r3s3"
    ),
    "a set of fragments is used twice": Mutant("f[step % kFragmentStages]", "f[0]", **TWO_FRAGMENTS),
    # ---- the window in shared memory ----
    "columns are not sorted by phase": Mutant(
        "return w % STRIDE_W * PHASE_COLUMNS + w / STRIDE_W;", "return w;", **STRIDED
    ),
    "a tap looks for its column in the wrong phase": Mutant(
        "s * DILATION_W % STRIDE_W * PHASE_COLUMNS", "(s + 1) * DILATION_W % STRIDE_W * PHASE_COLUMNS", **STRIDED
    ),
    "the vertical stride is taken for 1": Mutant("ROW_STEP = kColumnOrder ? 1 : STRIDE_H", "ROW_STEP = 1", **STRIDED),
    "the last row of a window is not copied": Mutant(
        "r <= LAST_ROW && ", "r < LAST_ROW && ", "column", "n1c3h9w9k16r3s3"
    ),
    "a row goes to no window but its last": Mutant(
        "i < (MOST < TILE_P ? MOST : TILE_P)", "i < 1", "column", "n1c3h9w9k16r3s3"
    ),
    # ---- what lies outside ----
    "rows beside the image are read": Mutant("&& h >= 0 && h < H ? x +", "? x +"),
    "columns beside the image are read": Mutant("column >= 0 && column < W && channel_exists", "channel_exists"),
    "columns beside the image are read, run": Mutant(
        "if (from < 0 || from >= W * C) from = -1;", "", "run", "n1c4h9w9k16r3s3pad1"
    ),
    "taps beside the image are read": Mutant(
        "return h >= 0 && h < H && w >= 0 && w < W;", "return true;", **TAP
    ),
    "rows beside the image are read, channels first": Mutant(
        "h + row >= 0 && h + row < H && ", "", layout="nchw", shape="n2c8h6w9k16r3s3pad1"
    ),
    "images beyond the batch are read": Mutant(
        "origin.n + n < N && ", "", shape="n3c8h5w5k16r3s3", config={"tile": (2, 3, 3)}
    ),
    "the tail of a column keeps what was there": Mutant(
        "clear_tails(smem.a);", "", "column", "n1c3h9w9k16r3s3"
    ),
    "channels beyond C are the next pixel's": Mutant(
        "valid && c < C && ", "valid && ", layout="nchw", shape="n1c5h9w9k16r3s3"
    ),
    "channels beyond C are copied": Mutant("C % PATCH_K == 0 || c0 + c < C;", "true;", **RAGGED, nan=True),
    "channels beyond C are copied, tap": Mutant("(C % BLOCK_K == 0 || c < C)", "true", "tap", **RAGGED, nan=True),
    "units beyond the last tap are read": Mutant("exists = unit < CHUNK_UNITS;", "exists = true;", **UNIT_TAIL),
    "filters beyond the last tap are read": Mutant(
        "inside = offset + unit * UNIT < TAPS * CHANNELS;", "inside = true;", **UNIT_TAIL
    ),
    "filters beyond K are read": Mutant("(K % BLOCK_N == 0 || k + row < K)", "true", **RAGGED),
    "outputs beyond K are stored": Mutant("|| (K % BLOCK_N != 0 && origin.k + k >= K)", "", **RAGGED),
    "outputs beyond Q are stored": Mutant("(Q % TILE_Q != 0 && origin.q + q >= Q) ||", "", **RAGGED),
    "outputs beyond P are stored": Mutant("if (n >= N || p >= P) continue;", "", **RAGGED),
    "outputs beyond K are stored, channels first": Mutant(
        "k < BLOCK_N && origin.k + k < K;", "k < BLOCK_N;", **RAGGED, layout="nhwc-nchw"
    ),
    "the unit of zeros is not zero": Mutant("smem.zero[threadIdx.x] =", "smem.a[threadIdx.x] =", **UNIT_TAIL),
    # ---- epilogue ----
    "the last warp of a tile is dropped": Mutant(
        "for (int k = 1; k < WARPS_K; ++k)", "for (int k = 1; k < WARPS_K - 1; ++k)", **SHARED_TILE
    ),
    "the neighbour's bias": Mutant("epilogue_bias(bias, k0 + k + 1)", "epilogue_bias(bias, k0 + k)"),
    "the bias of another tile": Mutant("epilogue_bias(bias, k0 + k), ", "epilogue_bias(bias, k), "),
    "no ReLU": Mutant("kHasRelu ? ptx::max_nan(y, 0.0f) : y", "y"),
    "pixel and channel of a fragment are swapped": Mutant("half * 8 + warp.lane / 4", "half * 8 + warp.lane % 4 * 2"),
    "tiles are walked backwards on every place": Mutant(
        "kTileOrderZigzag && m % 2 == 1", "true", config={"warp_n": 16, "tile_order": "zigzag"}
    ),
}  # fmt: skip
# Harmless ones: the checks must not cry wolf, and a mutant that survives must be one of these.
HARMLESS = {"tiles are walked backwards on every place"}


def problem_of(mutant: Mutant) -> ConvProblem:
    return ConvProblem.parse(mutant.shape, layout=mutant.layout, epilogue="bias_relu")


def right_with(name: str, index: tuple[int, ...], value: float, problem: ConvProblem, config: MmaConfig) -> bool:
    """Whether y is exact for integers of which one, in array `name`, is `value`; EmulatorError as ever."""
    arrays = emulated_inputs(problem, "integer", 0)
    numbers = from_storage(arrays[name], problem.precision)
    numbers[index] = value
    arrays[name] = to_storage(numbers, problem.precision)
    y = np.zeros(problem.y_shape, STORAGE_DTYPE[problem.precision])
    run_plan(MMA.plan(problem, TARGET, config), {**arrays, "y": y}, poison="finite")
    bias = None if problem.epilogue == "none" else arrays["bias"]
    with np.errstate(invalid="ignore"):
        wanted = to_storage(conv_reference(problem, arrays["x"], arrays["w"], bias), problem.precision)
    found, rounded = from_storage(y, problem.precision), from_storage(wanted, problem.precision)
    return np.array_equal(found, rounded, equal_nan=True)


def check(mutant: Mutant, problem: ConvProblem) -> None:
    """What must fail for a mutant and pass without."""
    config = config_of(problem, mutant.way, **mutant.config)
    verify(problem, config, seeds=SEEDS)
    if mutant.nan and not right_with("x", (0, 4, 5, 0), np.nan, problem, config):
        raise WrongResultError("a NaN has spread")


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = MUTANTS[name]
    problem = problem_of(mutant)
    config_of(problem, mutant.way, **mutant.config)  # legal
    mutate(monkeypatch, "mma", [(mutant.old, mutant.new)], times=mutant.times)
    if name in HARMLESS:
        check(mutant, problem)
        return
    with pytest.raises((WrongResultError, EmulatorError)):
        check(mutant, problem)


SETTINGS = {(m.way, m.shape, m.layout, m.nan, tuple(m.config.items())): m for m in MUTANTS.values()}


@pytest.mark.parametrize("mutant", SETTINGS.values(), ids=[str(i) for i in range(len(SETTINGS))])
def test_the_unbroken_kernel_passes_where_mutants_fail(mutant: Mutant) -> None:
    check(mutant, problem_of(mutant))


@pytest.mark.parametrize(
    "mutant",
    [
        Mutant("if (__syncthreads_or(saw_nan))", "if (false)"),
        Mutant("probe += sum0 * sum1;", "probe += sum0 * sum0;"),
        Mutant("if (h < 0 || h >= H) continue;", "if (h >= H) continue;"),
        Mutant("if (col < 0 || col >= W) continue;", "if (col < 0) continue;"),
    ],
    ids=["no repair", "every second channel is not looked at", "repair above the image", "repair beside the image"],
)
def test_a_broken_repair_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = ConvProblem.parse("n1c8h5w6k9r3s3pad1", precision="bf16")
    config = config_of(problem, "row")
    # w (K, R, S, C): an odd output channel, taps of opposite corners
    weights = [(3, 0, 0, 0), (3, 2, 2, 7)]
    assert all(right_with("w", index, np.inf, problem, config) for index in weights)
    mutate(monkeypatch, "mma", [(mutant.old, mutant.new)], times=mutant.times)
    try:
        right = all(right_with("w", index, np.inf, problem, config) for index in weights)
    except EmulatorError:
        return
    assert not right
