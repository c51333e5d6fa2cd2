"""wgmma_rows by halves: whatever the magnitudes, y is as near to float64 as fp32 on CUDA cores, or tf32, would be."""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pytest
from magnitudes import SCALES, Make, Numbers, far_from_float64, scaled
from mutants import mutate
from numpy.typing import NDArray
from wgmma_rows_cases import TWO_SMS, config_of

from im2wingen.emulator import run_plan
from im2wingen.errors import EmulatorError
from im2wingen.families.wgmma_rows import WGMMA_ROWS
from im2wingen.problem import ConvProblem, Precision

SHAPE = "n2c3h15w17k24r7s7st2pad3"


def convolve(problem: ConvProblem, x: Numbers, w: Numbers, **config: Any) -> tuple[Numbers, NDArray[np.bool_]]:
    """y, and where it is farther from float64 than its precision may be."""
    arrays = {"x": x.astype(np.float32), "w": w.astype(np.float32), "bias": np.zeros(problem.k, np.float32)}
    y = np.full(problem.y_shape, np.nan, np.float32)
    config = {"scaled": problem.precision == "tf32"} | config
    run_plan(WGMMA_ROWS.plan(problem, TWO_SMS, config_of(problem, **config)), {**arrays, "y": y})
    return y.astype(np.float64), far_from_float64(problem, arrays, y)


def decades(rng: np.random.Generator, shape: tuple[int, ...], low: int, high: int) -> Numbers:
    """Magnitudes of all powers of ten between two."""
    return rng.standard_normal(shape) * 10.0 ** rng.uniform(low, high, shape)


def sparse(rng: np.random.Generator, shape: tuple[int, ...]) -> Numbers:
    """Zeros and tiny numbers, and a large one in each image: all but a few windows hold tiny ones alone."""
    numbers = 1e-12 * rng.standard_normal(shape) * (rng.random(shape) < 0.5)
    numbers[:, 3, 4, 1] = 1e6
    return numbers


def without_channel_1(rng: np.random.Generator, shape: tuple[int, ...]) -> Numbers:
    return rng.standard_normal(shape) * (np.arange(shape[-1]) != 1)


@dataclass(frozen=True)
class Case:
    x: Make
    w: Make = lambda rng, shape: rng.standard_normal(shape)
    shape: str = SHAPE
    layout: str = "nhwc"
    config: dict[str, Any] = field(default_factory=lambda: {"block_rows": 4})
    epilogue: Literal["none", "bias_relu"] = "none"


CASES = {
    "normal": Case(scaled(1.0)),
    "one set of accumulators": Case(  # consumers take turns and wait for room in staging, the ring turns
        scaled(1.0),
        layout="nhwc-nchw",
        shape="n4c3h18w19k16r3s3",
        config={"block_rows": 3, "num_consumer_warpgroups": 4, "multiplying_consumers": 1},
    ),
    "few items in staging": Case(
        scaled(1.0),
        layout="nhwc-nchw",
        shape="n4c3h37w39k16r7s7st2",
        config={"num_consumer_warpgroups": 4, "multiplying_consumers": 1},
    ),
    **{name: Case(scaled(x), scaled(w)) for name, (x, w) in SCALES.items()},
    "huge": Case(scaled(1e30), scaled(1e5), layout="nchw"),
    "y of few bits": Case(scaled(1e-20), scaled(1e-22)),
    # within a block and a filter; each window of x; each block
    "decades": Case(lambda rng, shape: decades(rng, shape, -18, 18), lambda rng, shape: decades(rng, shape, -18, 18)),
    "decades in teams": Case(  # 42 slots
        lambda rng, shape: decades(rng, shape, -18, 18),
        shape="n2c3h9w83k8r7s7st2pad3",
        config={"num_transformer_warps": 4, "team_warps": 4},
    ),
    "decades of w": Case(scaled(1.0), lambda rng, shape: decades(rng, shape, -30, 0), layout="nhwc-nchw"),
    "channels of other scales": Case(
        scaled(1.0), lambda rng, shape: scaled(1.0)(rng, shape) * 10.0 ** rng.uniform(-6, 6, (shape[0], 1, 1, 1))
    ),
    "large beside tiny": Case(sparse, config={"block_rows": 2}),
    "tiny weights alone": Case(without_channel_1, sparse),
    "blocks of other scales": Case(
        lambda rng, shape: scaled(1.0)(rng, shape) * 10.0 ** rng.uniform(-12, 12, (shape[0], shape[1], 1, 1)),
        shape="n2c3h31w17k24r7s7st2pad3",  # the ring turns
    ),
    "zeros": Case(scaled(0.0), config={"item_tiles": 2}),
    # times the filter's scale, sums are beyond fp32
    "large sums": Case(scaled(5e36)),
    # those of a block are beyond fp32 in part, and positive sums then -Inf
    "large sums of blocks": Case(scaled(4e33), epilogue="bias_relu"),
}  # fmt: skip


def convolve_case(case: Case, precision: Precision) -> tuple[Numbers, NDArray[np.bool_]]:
    rng = np.random.default_rng(1)
    problem = ConvProblem.parse(case.shape, precision=precision, layout=case.layout, epilogue=case.epilogue)
    return convolve(problem, case.x(rng, problem.x_shape), case.w(rng, problem.w_shape), **case.config)


@pytest.mark.parametrize("precision", ["fp32", "tf32"])
@pytest.mark.parametrize("name", CASES)
def test_any_magnitudes(name: str, precision: Precision) -> None:
    y, far = convolve_case(CASES[name], precision)
    assert np.isfinite(y).all()
    assert not far.any()


# ---- broken on purpose ----


@dataclass(frozen=True)
class Mutant:
    """A text that stands once in the kernel, and what it becomes; the case that must not come out right."""

    old: str
    new: str
    case: str = "normal"
    template: str = "wgmma_rows"
    precision: Precision = "fp32"


OTHER_SCALES, BESIDE_TINY, ONE_SET = "blocks of other scales", "large beside tiny", "one set of accumulators"
STORED = "magnitude >= least && magnitude <= LARGEST_OUTPUT ?"
MUTANTS = {
    "low parts of x are left out": Mutant("descriptor(x + PART_PLANES)", "descriptor(x)"),
    "low parts of w are left out": Mutant("descriptor(w + FILTER_CHUNKS)", "descriptor(w)"),
    "low parts count as much": Mutant("1.0f : 1.0f / LOW_UNITS", "1.0f : 1.0f"),
    "blocks are given back early": Mutant(
        "Probe probe;\n", "Probe probe; blocks.release_below(first_block + unneeded);\n", ONE_SET
    ),
    "items lie where others do": Mutant("number - STAGED_ITEMS - i", "number - kConsumers - i", "few items in staging"),
    "of one set of accumulators sums are added twice": Mutant("!kOneSet && PARTIAL > 0", "PARTIAL > 0", ONE_SET),
    "a partial sum is forgotten": Mutant("PARTIAL == 0 ?", "true ?"),
    "a block has the scale of the window's first": Mutant("[partial.block]->down", "[0]->down", OTHER_SCALES),
    "a slot has the scale of the item's first": Mutant("+ (row - first_row) +", "+", OTHER_SCALES),
    "scales lie elsewhere the second time": Mutant(
        "[place + kRingBlocks] = scale", "[(place + 1) % MIRRORED_BLOCKS + kRingBlocks] = scale", OTHER_SCALES
    ),
    "a team's first warp looks alone": Mutant("i < kTeamWarps; ++i) range", "i < 0; ++i) range", "decades in teams"),
    "scales have no end": Mutant(", 253u)", ", 1000u)", "x of few bits"),
    "tiny elements of x are not noticed": Mutant(
        "scaling.inexact ? LIMIT_UNITS *", "false ? LIMIT_UNITS *", BESIDE_TINY
    ),
    "tiny elements of w are not noticed": Mutant(
        "scaling.inexact ? LIMIT_UNITS :", "false ? LIMIT_UNITS :", "tiny weights alone", "pack_rows_split"
    ),
    "fewer elements are tiny": Mutant("EXACT * down", "1e-12f * EXACT * down", BESIDE_TINY),
    "what may not be right is stored": Mutant(STORED, "true ?", BESIDE_TINY),
    "sums beyond fp32 are stored": Mutant(STORED, "magnitude >= least ?", "large sums of blocks"),
    "channels have the first one's scale": Mutant("filter_scales[column];", "filter_scales[0];", "decades of w"),
    "channels of usual numbers have the first one's scale": Mutant(
        "down = filter_scales[column].down", "down = filter_scales[0].down", "channels of other scales"
    ),
    "blocks' tiny elements are forgotten": Mutant(
        "fmaxf(fmaxf(bounds.limit[0], bounds.limit[1]), filter_limit)", "filter_limit", BESIDE_TINY
    ),
    "filters' tiny elements are forgotten": Mutant(
        "[column_of(lane, i)].limit)", "[0].limit * 0.0f)", "tiny weights alone"
    ),
    "sums beyond fp32 are taken for usual ones": Mutant(
        "zeros[2] + zeros[3] == 0.0f", "0.0f == 0.0f", "large sums of blocks"
    ),
    "what is Inf is no longer asked for": Mutant("kSplit && fabsf(stored) >", "false && fabsf(stored) >", "large sums"),
    # of tf32
    "low parts of x are written, too": Mutant("PARTS == 2) write_chunk(low", "true) write_chunk(low", precision="tf32"),
    "low parts of w are written, too": Mutant(
        "if (PARTS == 2) reinterpret", "if (true) reinterpret", template="pack_rows_split", precision="tf32"
    ),
    "scales are sought behind low parts": Mutant("smem.filters + PARTS *", "smem.filters + 2 *", precision="tf32"),
    "a block's sum is forgotten": Mutant("PARTIAL == 0 ?", "true ?", precision="tf32"),
    "a block of tf32 has the scale of the first": Mutant(
        "[partial.block]->down", "[0]->down", OTHER_SCALES, precision="tf32"
    ),
    "tiny elements of a tf32 x are not noticed": Mutant(
        "scaling.inexact ? LIMIT_UNITS *", "false ? LIMIT_UNITS *", BESIDE_TINY, precision="tf32"
    ),
    "tiny elements of a tf32 w are not noticed": Mutant(
        "scaling.inexact ? LIMIT_UNITS :", "false ? LIMIT_UNITS :", "tiny weights alone", "pack_rows_split", "tf32"
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = MUTANTS[name]
    mutate(monkeypatch, mutant.template, [(mutant.old, mutant.new)])
    try:
        _, far = convolve_case(CASES[mutant.case], mutant.precision)
    except EmulatorError:
        return
    assert far.any()
