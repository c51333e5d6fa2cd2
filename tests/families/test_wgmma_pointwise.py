"""wgmma_pointwise: arithmetic in the emulator, mutants, machine code, search space. On two SMs a CTA has many tiles."""

import re
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from arithmetic import run_integers
from mutants import mutate

from im2wingen.cost_model import estimate_us
from im2wingen.errors import EmulatorError
from im2wingen.families import families_for
from im2wingen.families.wgmma_pointwise import WGMMA_POINTWISE
from im2wingen.families.wgmma_pointwise_config import WgmmaPointwiseConfig
from im2wingen.nvrtc import Cubin, compile_cubin
from im2wingen.problem import ConvProblem, FilterLayout
from im2wingen.render import render
from im2wingen.sass import disassemble, instruction_counts
from im2wingen.target import preset
from im2wingen.verify_data import WrongResultError
from im2wingen.verify_emulated import verify_emulated

TARGET = preset("sm_90a")
TWO_SMS = replace(TARGET, sm_count=2)
RESIDENT: dict[str, Any] = {"filter_resident": True}


@dataclass(frozen=True)
class Case:
    shape: str
    config: dict[str, Any] = field(default_factory=dict)
    precision: str = "tf32"
    epilogue: str = "none"
    layout: str = "nchw"
    w_layout: FilterLayout = "kcrs"


CASES = {
    # ---- pixels: an image is one row; its last line is in part beyond it ----
    "one line": Case("n1c4h1w4k8r1s1"),
    "one line, fp16": Case("n1c8h1w8k8r1s1", precision="fp16"),
    "lines of several images in a tile": Case("n5c40h6w10k24r1s1"),
    "several tiles": Case("n3c40h12w20k24r1s1", {"subtiles": 2}),
    "several tiles, fp16": Case("n3c72h12w30k24r1s1", {"subtiles": 2}, "fp16"),
    "whole lines": Case("n2c32h16w16k16r1s1", {"num_consumer_warpgroups": 3}),
    # ---- channels: a chunk is 32 of 4 bytes, 64 of 2 ----
    "chunks in a ring that turns": Case("n2c164h8w12k16r1s1", {"stages": 3}),
    "part of a chunk, bf16": Case("n2c136h8w12k16r1s1", {"stages": 4}, "bf16"),
    # ---- output channels ----
    "K in blocks": Case("n2c36h8w12k70r1s1", {"block_n": 32}, epilogue="bias"),
    "K in blocks, bf16": Case("n2c72h8w12k70r1s1", {"block_n": 32}, "bf16", epilogue="bias_relu"),
    "K = 1": Case("n2c36h8w12k1r1s1", epilogue="bias_relu"),
    "K = 1, fp16": Case("n2c40h8w12k1r1s1", RESIDENT, "fp16"),
    "resident filters": Case("n3c68h12w20k70r1s1", RESIDENT | {"block_n": 72, "num_consumer_warpgroups": 3}),
    "resident filters in blocks": Case("n3c68h12w20k70r1s1", RESIDENT | {"block_n": 32, "stages": 4}, epilogue="bias"),
    "resident filters in blocks, fp16": Case("n3c72h10w20k50r1s1", RESIDENT | {"block_n": 24}, "fp16"),
    # ---- strides: output rows, of which the last line is in part beyond ----
    "stride 2": Case("n2c36h13w20k30r1s1st2", epilogue="bias"),
    "stride 2, fp16": Case("n2c72h12w40k30r1s1st2", {"subtiles": 2}, "fp16"),
    "stride 2, long rows": Case("n1c36h6w84k30r1s1st2", {"subtiles": 2}),
    "stride 2 x 1": Case("n2c36h13w20k30r1s1st2x1", {"subtiles": 2}),
    "stride 2 x 1, fp16, odd rows": Case("n2c72h12w18k30r1s1st4x1", precision="fp16"),
    "stride 3 x 2": Case("n2c36h13w20k30r1s1st3x2"),
    "two rows merged": Case("n2c72h14w14k24r1s1st2", {"stages": 3}),
    "two rows merged, bf16": Case("n2c72h28w28k24r1s1st2", {"stages": 3}, "bf16"),
    # ---- layouts ----
    "NHWC y": Case("n3c40h6w10k22r1s1", epilogue="bias_relu", layout="nchw-nhwc"),
    "NHWC y, bf16": Case("n3c40h12w20k22r1s1", {}, "bf16", epilogue="bias_relu", layout="nchw-nhwc"),
    "NHWC y, stride": Case("n2c36h12w20k30r1s1st3x2", layout="nchw-nhwc"),
    "KRSC": Case("n2c36h8w12k24r1s1", w_layout="krsc"),
}  # fmt: skip


def problem_of(case: Case) -> ConvProblem:
    problem = ConvProblem.parse(case.shape, precision=case.precision, layout=case.layout, epilogue=case.epilogue)
    return replace(problem, w_layout=case.w_layout)


def config_of(problem: ConvProblem, changes: dict[str, Any]) -> WgmmaPointwiseConfig:
    """A legal config of two consumers, changed."""
    wanted: dict[str, Any] = {
        "num_consumer_warpgroups": 2, "subtiles": 1, "block_n": min(-(-problem.k // 8) * 8, 64), "stages": 2,
        "filter_resident": False, "programmatic_launch": False,
    } | changes  # fmt: skip
    config = WgmmaPointwiseConfig(**wanted)
    assert WGMMA_POINTWISE.unsupported(problem, TARGET) is None
    assert WGMMA_POINTWISE.broken_rules(problem, TARGET, config) == []
    return config


def check(case: Case, *, seeds: tuple[int, ...] = (0, 2)) -> None:
    problem = problem_of(case)
    plan = WGMMA_POINTWISE.plan(problem, TWO_SMS, config_of(problem, case.config))
    for seed in seeds:
        verify_emulated(problem, plan, seed=seed)


@pytest.mark.parametrize("name", CASES)
def test_it_is_right(name: str) -> None:
    check(CASES[name])


@pytest.mark.parametrize("precision", ["tf32", "fp16", "bf16"])
def test_what_is_not_finite_stays_with_its_pixel(precision: str) -> None:
    """Of x an Inf and a NaN, in the last lines; of w an Inf. Lines end beyond the image, chunks beyond C."""
    problem = ConvProblem.parse("n2c40h6w12k20r1s1", precision=precision, layout="nchw", epilogue="bias_relu")
    plan = WGMMA_POINTWISE.plan(problem, TWO_SMS, config_of(problem, {}))
    changes = {"x": {(0, 39, 5, 11): np.nan, (1, 3, 5, 10): np.inf}, "w": {(7, 2, 0, 0): -np.inf}}
    y, wanted = run_integers(problem, plan, changes)
    np.testing.assert_array_equal(y, wanted)
    assert np.isnan(y[0, :, 5, 11]).all()
    assert np.isfinite(y[0, 8:, :5]).all()


def test_random_configs_are_right() -> None:
    rng = np.random.default_rng(7)
    for seed in range(12):
        precision = ("tf32", "fp16", "bf16")[seed % 3]
        unit = 4 if precision == "tf32" else 8
        sizes = [int(rng.integers(1, most)) for most in (4, 40, 6, 6, 12)]
        shape = f"n{sizes[0]}c{unit * sizes[1]}h{2 * sizes[2]}w{unit * sizes[3]}k{8 * sizes[4] + seed}r1s1"
        problem = ConvProblem.parse(shape + ("st2" if seed % 2 else ""), precision=precision, layout="nchw")
        assert WGMMA_POINTWISE.unsupported(problem, TARGET) is None, problem.key
        config = next(
            config
            for config in WGMMA_POINTWISE.random_configs(problem, TARGET, seed)
            if not WGMMA_POINTWISE.broken_rules(problem, TARGET, config)
        )
        verify_emulated(problem, WGMMA_POINTWISE.plan(problem, TWO_SMS, config), seed=seed)


# ---- kernels broken on purpose ----

MANY = Case("n3c164h12w20k70r1s1", {"block_n": 40, "stages": 3}, epilogue="bias")
MANY_HALVES = Case("n3c200h12w30k70r1s1", {"block_n": 40, "stages": 3}, "fp16")
BLOCKS = Case("n9c68h12w20k70r1s1", RESIDENT | {"block_n": 32, "stages": 4})
STRIDES = Case("n2c72h14w14k24r1s1st2", {"stages": 3})
LONG_ROWS = Case("n1c36h6w84k30r1s1st2")
HALVED_STRIDES = Case("n2c72h12w40k30r1s1st2", {"subtiles": 2}, "fp16")
CHANNELS_LAST = Case("n3c40h12w20k22r1s1", {}, "fp16", layout="nchw-nhwc")

MUTANTS: dict[str, tuple[Case, str, str]] = {
    # ---- barriers ----
    "stages are overwritten while they are read": (MANY, "wait(smem.empty + ring.stage, ring.parity ^ 1);", ""),
    "stages are read before they land": (MANY, "wait(smem.full + ring.stage, ring.parity);", ""),
    "filters are read before they land": (BLOCKS, "if constexpr (kFilterResident) wait(smem.filters_full, 0);", ""),
    "the other parity": (MANY, "full + ring.stage, ring.parity);", "full + ring.stage, ring.parity ^ 1);"),
    "filters of a stage are given back early": (MANY, "    await_products(sums);\n    if (!k", "    if (!k"),
    "a stage is not given back": (MANY, "chunk > 0 && lane == 0", "chunk > 1 && lane == 0"),
    "lines are given back with the first block": (BLOCKS, "block == TILE_BLOCKS - 1", "block == 0"),
    "sums are stored before they are done": (MANY, "  await_products(sums);\n  if (!k", "  if (!k"),
    "bytes of the filters are not expected": (MANY, "expect_tx(full, STAGE_BYTES)", "expect_tx(full, INPUT_BYTES)"),
    # ---- what is loaded ----
    "a line too far": (MANY, "TILES_K * TILE_LINES + lane);", "TILES_K * TILE_LINES + lane + 1);"),
    "filters of the first block": (MANY, "const int k = tile % TILES_K * BLOCK_N;", "const int k = 0;"),
    "resident filters of the first block": (BLOCKS, "i / CHUNKS * BLOCK_N);", "0);"),
    "rows are not merged": (STRIDES, "line.row * (STRIDE_H / kRowsMerged)", "line.row * STRIDE_H"),
    "pixels that a stride leaves out": (LONG_ROWS, "line.pixel * STRIDE_W,", "line.pixel,"),
    # ---- what is multiplied ----
    "not swizzled": (MANY, "(byte / 16 ^ channel % 8) * 16", "byte / 16 * 16"),
    "not swizzled, fp16": (MANY_HALVES, "(byte / 16 ^ channel % 8) * 16", "byte / 16 * 16"),
    "channels of the first step": (MANY, "step * STEP_K * ROW_BYTES + place", "place"),
    "filters of the first step": (MANY, "descriptor(first_filter + step * 32,", "descriptor(first_filter,"),
    "the second subtile is the first": (HALVED_STRIDES, "lines + subtile * SUBTILE_LINES * BOX_BYTES", "lines"),
    "sums are not begun anew": (MANY, "chunk > 0 || step > 0);", "true);"),
    "sums are begun anew": (MANY, "chunk > 0 || step > 0);", "step > 0);"),
    "the next channel is the same": (HALVED_STRIDES, "next = place(warp, channel + 1, pixel(i));", "next = own;"),
    "the pixel that is skipped": (HALVED_STRIDES, "0x5410", "0x7632"),
    # ---- what is stored ----
    "lanes do not exchange": (
        MANY, "__shfl_xor_sync(0xffffffffu, low ? v.far[e] : v.near[e], 16)", "(low ? v.far[e] : v.near[e])",
    ),
    "a warp does not turn": (MANY_HALVES, "near = ptx::movmatrix_trans(near);", ""),
    "the far pixels are near": (MANY, "y[int64_t(e) * (P * Q) + FAR]", "y[int64_t(e) * (P * Q) + 4]"),
    "beyond K": (MANY, "if (K % BLOCK_N != 0 && k + e >= K) continue;\n    if (near) y[", "if (near) y["),
    "beyond the row": (MANY, "own + FAR < left);", "true);"),
    "beyond the batch": (Case("n1c36h4w8k64r1s1"), "if (line.n >= N) return;", ""),
    "an odd row in whole words": (
        Case("n2c72h12w18k30r1s1st4x1", {}, "fp16"), "P * Q % 4 == 0 && Q % (kFlat ? 1 : 4) == 0", "true",
    ),
    "NHWC: rows in another order": (
        CHANNELS_LAST, "row / 4 % 2 * FAR + row / 8 * APART", "row / 4 % 2 * 16 + row / 8 * 4",
    ),
    "the bias of the next channel": (MANY, "epilogue_bias(bias, k + e)", "epilogue_bias(bias, k + e + 1)"),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case, old, new = MUTANTS[name]
    mutate(monkeypatch, "wgmma_pointwise", [(old, new)])
    with pytest.raises((WrongResultError, EmulatorError)):
        check(case, seeds=(0, 1, 2))


@pytest.mark.parametrize("case", [MANY, MANY_HALVES, BLOCKS, STRIDES, LONG_ROWS, HALVED_STRIDES, CHANNELS_LAST])
def test_the_unbroken_kernel_passes_where_mutants_fail(case: Case) -> None:
    check(case, seeds=(0, 1, 2))


# ---- machine code ----


def cubin_of(problem: ConvProblem, config: WgmmaPointwiseConfig) -> Cubin:
    return compile_cubin(render(WGMMA_POINTWISE.plan(problem, TARGET, config).launches[0]), "sm_90a")


@pytest.mark.parametrize("shape", ["n32c256h56w56k64r1s1", "n32c512h28w28k256r1s1", "n32c512h28w28k1024r1s1st2"])
@pytest.mark.parametrize("precision", ["tf32", "fp16"])
def test_pixels_are_read_between_products(shape: str, precision: str) -> None:
    """A wgmma reads its A's registers as it goes, and the compiler does not know: nothing is read before it is done."""
    problem = ConvProblem.parse(shape, precision=precision, layout="nchw")
    cubin = cubin_of(problem, WGMMA_POINTWISE.default(problem, TARGET))
    counts = instruction_counts(cubin)
    assert counts["UTMALDG"] >= 2
    assert not {"LDL", "STL"} & set(counts)
    assert cubin.spill_bytes == 0
    reads = r"LDSM|LDS(?!M)"
    order = re.findall(rf"WARPGROUP\.DEPBAR|HGMMA|{reads}", disassemble(cubin))
    loop = order[order.index("HGMMA") :: -1]  # back to what the first product waits for
    before = loop.index("WARPGROUP.DEPBAR")
    assert set(loop[1:before]) == {"LDSM"} if precision == "fp16" and "st2" not in shape else {"LDS"}
    assert not set(loop[before + 1 :]) & {"LDS", "LDSM"}
    after = order[len(order) - order[::-1].index("HGMMA") :]
    assert after[0] == "WARPGROUP.DEPBAR"
    assert not set(after) & {"LDS", "LDSM"}


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_what_the_rules_allow_compiles_without_spills(precision: str) -> None:
    """Of each number of consumers and subtiles the widest tile, which wants the most registers."""
    problem = ConvProblem.parse("n32c512h28w28k256r1s1", precision=precision, layout="nchw")
    for consumers, subtiles in ((2, 1), (2, 2), (3, 1), (3, 2)):
        changes = {"num_consumer_warpgroups": consumers, "subtiles": subtiles, "block_n": 8}
        widest = max(
            (config_of(problem, changes) for changes["block_n"] in range(8, 257, 8)
             if not WGMMA_POINTWISE.broken_rules(problem, TARGET, replace(config_of(problem, {}), **changes))),
            key=lambda config: config.block_n,
        )  # fmt: skip
        assert cubin_of(problem, widest).spill_bytes == 0, widest


# ---- which problems, and the search space ----


@pytest.mark.parametrize(
    ("shape", "precision", "layout", "sentence"),
    [
        ("n1c8h8w8k8r3s3", "tf32", "nchw", "needs a 1x1 filter without padding and groups"),
        ("n1c8h8w8k8r1s1pad1", "tf32", "nchw", "needs a 1x1 filter without padding and groups"),
        ("n1c8h8w8k8r1s1g2", "tf32", "nchw", "needs a 1x1 filter without padding and groups"),
        ("n1c8h8w8k8r1s1", "tf32", "nhwc", "needs an NCHW x"),
        ("n1c8h8w8k8r1s1", "fp32", "nchw", "precision fp32 is not one of fp16, bf16, tf32"),
        ("n1c6h8w8k8r1s1", "tf32", "nchw", "C must be a multiple of 4 (16 bytes, the step of TMA's strides)"),
        ("n1c12h8w8k8r1s1", "fp16", "nchw", "C must be a multiple of 8 (16 bytes, the step of TMA's strides)"),
        ("n1c8h7w7k8r1s1", "tf32", "nchw", "H * W must be a multiple of 4 (16 bytes, the step of TMA's strides)"),
        ("n1c8h14w14k8r1s1", "fp16", "nchw", "H * W must be a multiple of 8 (16 bytes, the step of TMA's strides)"),
        ("n1c8h8w8k8r1s1st3", "tf32", "nchw", "stride_w must be 1 or 2"),
        ("n1c8h9w14k8r1s1st2", "tf32", "nchw",
         "H and stride_h must be multiples of 2 (16 bytes of rows, the step of TMA's strides)"),
    ],
)  # fmt: skip
def test_what_it_does_not_take(shape: str, precision: str, layout: str, sentence: str) -> None:
    problem = ConvProblem.parse(shape, precision=precision, layout=layout)
    assert WGMMA_POINTWISE.unsupported(problem, TARGET) == sentence


def test_other_targets() -> None:
    problem = ConvProblem.parse("n1c8h8w8k8r1s1", precision="tf32", layout="nchw")
    assert WGMMA_POINTWISE.unsupported(problem, preset("sm_80")) == "needs sm_90a, the target is sm_80"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"num_consumer_warpgroups": 4}, "num_consumer_warpgroups must be 2 or 3"),
        ({"block_n": 264}, "block_n a multiple of 8 up to 256"),
        ({"block_n": 256, "subtiles": 2}, "must fit a consumer's registers"),
        ({"block_n": 208, "num_consumer_warpgroups": 3}, "must fit the registers at the launch"),
        ({"subtiles": 9, "block_n": 8}, "must load the tile's lines"),
        ({"stages": 1}, "two stages or more"),
        ({"stages": 40}, "fit shared memory"),
        ({"filter_resident": True, "block_n": 32}, "must hold a tile's channels of x"),
    ],
)
def test_a_broken_rule_says_what_must_hold(changes: dict[str, Any], sentence: str) -> None:
    problem = ConvProblem.parse("n8c128h28w28k512r1s1", precision="tf32", layout="nchw")
    config = replace(config_of(problem, {}), **changes)
    assert any(sentence in broken for broken in WGMMA_POINTWISE.broken_rules(problem, TARGET, config))


# Measured on an NVIDIA H200, batch 32, us: this family, and what was served before.
@pytest.mark.parametrize(
    ("shape", "precision"),
    [
        ("n32c64h56w56k64r1s1", "tf32"),  # 14, 44 of mma
        ("n32c64h56w56k256r1s1", "tf32"),  # 33, 81 of wgmma
        ("n32c256h56w56k64r1s1", "tf32"),  # 33, 163 of mma
        ("n32c512h28w28k256r1s1", "tf32"),  # 31, 262 of mma
        ("n32c256h56w56k512r1s1st2", "tf32"),  # 51, 388 of mma
        ("n32c256h14w14k1024r1s1", "tf32"),  # 24, 38 of wgmma
        ("n32c1024h14w14k512r1s1", "tf32"),  # 28, 74 of wgmma
        ("n32c256h56w56k64r1s1", "fp16"),  # 18, 27 of wgmma
        ("n32c128h28w28k512r1s1", "fp16"),  # 13, 20 of wgmma
        ("n32c512h28w28k256r1s1", "bf16"),  # 16, 37 of wgmma
    ],
)
def test_measured_layers_are_served_by_it(shape: str, precision: str) -> None:
    problem = ConvProblem.parse(shape, precision=precision, layout="nchw")
    estimates = {
        family.name: estimate_us(family.plan(problem, TARGET, family.default(problem, TARGET)), TARGET)
        for family in families_for(problem, TARGET)
    }
    assert min(estimates, key=estimates.__getitem__) == "wgmma_pointwise"
