"""wgmma on int8 and fp8: which problems, maps, arithmetic in the emulator, NaN and Inf, mutants, machine code."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from mutants import mutate
from wgmma_cases import TARGET, TWO_SMS, config_of, run_changed, verify

from im2wingen.errors import CompileError, EmulatorError
from im2wingen.families.wgmma import WGMMA
from im2wingen.families.wgmma_config import WgmmaConfig
from im2wingen.families.wgmma_geometry import WgmmaGeometry
from im2wingen.nvrtc import compile_cubin, compile_ptx
from im2wingen.problem import ConvProblem, FilterLayout
from im2wingen.render import render
from im2wingen.sass import instruction_counts
from im2wingen.verify_data import WrongResultError
from im2wingen.verify_emulated import verify_emulated

BLOCK: dict[str, Any] = {"mapping": "block"}
FILTERS: dict[str, Any] = {"split": "filters", "num_consumer_warpgroups": 2}
TILES: dict[str, Any] = {"split": "tiles", "num_consumer_warpgroups": 2, "filter_resident": True, "ordered": True}


@dataclass(frozen=True)
class Case:
    shape: str
    precision: str
    config: dict[str, Any] = field(default_factory=dict)
    epilogue: str = "none"
    w_layout: FilterLayout = "krsc"
    layout: str = "nhwc"

    @property
    def problem(self) -> ConvProblem:
        problem = ConvProblem.parse(
            self.shape, precision=self.precision, epilogue=self.epilogue, layout=self.layout
        )  # fmt: skip
        return replace(problem, w_layout=self.w_layout)


CASES = {
    # N, P, Q and K end inside tiles of 2 x 2 x 5 and 64; C = 144: 16 channels in a second chunk
    "int8": Case("n3c144h9w11k68r3s3pad1", "int8", {"tile": (2, 2, 5)}, "bias"),
    # (1 * 9 + 7) * 3 = 48 pixels; 40 = (1 * 9 + 7) * 2 + ... are rounded to 48 as well
    "int8, joined rows": Case("n3c16h8w9k16r3s3", "int8", {"tile": (2, 4, 7), "joined_rows": 2}),
    # 5 columns x 8 images = 40 pixels in 48: the last group of 8 lies beyond the patch
    "int8, N in steps of 16": Case("n9c16h5w7k20r3s3", "int8", {"tile": (8, 1, 5)}, "bias_relu"),
    "int8, block of 6 rows, stride 2": Case("n1c48h15w19k16r3s3st2pad1", "int8", BLOCK | {"tile": (1, 6, 8)}),
    "int8, filters, 64-byte rows": Case("n1c80h6w9k104r3s3", "int8", FILTERS | {"row_bytes": 64}, "bias_relu"),
    "int8, in turn": Case("n7c32h4w7k40r3s3", "int8", TILES, w_layout="kcrs"),
    "int8, NCHW out": Case("n3c16h6w14k9r3s3", "int8", {"tile": (2, 2, 4)}, "bias", layout="nhwc-nchw"),
    "e4m3": Case("n3c144h9w11k72r3s3pad1", "e4m3", {"tile": (2, 2, 5)}, "bias"),
    # 40 pixels stay 40
    "e4m3, N in steps of 8": Case("n9c16h5w7k24r3s3", "e4m3", {"tile": (8, 1, 5)}, "bias_relu"),
    "e4m3, promoted": Case("n1c272h6w9k16r2s2", "e4m3", {"promotion": True}),
    "e5m2": Case("n2c48h15w19k16r3s3st2pad1", "e5m2", BLOCK | {"tile": (1, 3, 8), "row_bytes": 64}, "bias_relu"),
    "e5m2, in turn, promoted": Case("n7c32h4w7k40r3s3", "e5m2", TILES | {"promotion": True}, w_layout="kcrs"),
    "e5m2, NCHW out": Case("n3c16h6w14k9r3s3", "e5m2", {"tile": (2, 2, 4)}, layout="nhwc-nchw"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_arithmetic(name: str) -> None:
    case = CASES[name]
    verify(case.problem, config_of(case.problem, **case.config), seeds=(1,))


@pytest.mark.parametrize("precision", ["int8", "e4m3"])
def test_the_default_is_right(precision: str) -> None:
    problem = ConvProblem.parse("n2c48h9w9k72r3s3pad1", precision=precision, epilogue="bias")
    verify(problem, WGMMA.default(problem, TWO_SMS))


def test_promotion_takes_most_of_the_error_away() -> None:
    problem = ConvProblem.parse("n1c256h5w7k16r3s3", precision="e4m3")
    rough, promoted = (
        verify_emulated(problem, WGMMA.plan(problem, TWO_SMS, config_of(problem, promotion=promotion)))
        for promotion in (False, True)
    )
    assert promoted.norm_error < 0.5 * rough.norm_error  # of 18 sums of 128; fp16 rounds what is left


# ---- which problems ----


@pytest.mark.parametrize(
    ("shape", "precision", "layout", "sentence"),
    [
        ("n1c24h8w8k16r3s3", "int8", "nhwc", "in NHWC, C must be a multiple of 16, K of 4"),
        ("n1c32h8w8k6r3s3", "int8", "nhwc", "in NHWC, C must be a multiple of 16, K of 4"),
        ("n1c32h8w8k12r3s3", "e4m3", "nhwc", "in NHWC, C must be a multiple of 16, K of 8"),
        ("n1c32h8w8k16r3s3", "e5m2", "nchw", "precision e5m2 needs an NHWC x"),
        ("n1c131072h1w1k4r1s1", "int8", "nhwc", "R*S*C is 131072; int32 holds any sum of 131071 products"),
        ("n1c131056h1w1k4r1s1", "int8", "nhwc", None),
        ("n1c131072h1w1k8r1s1", "e4m3", "nhwc", None),
    ],
)
def test_which_problems_are_taken(shape: str, precision: str, layout: str, sentence: str | None) -> None:
    reason = WGMMA.unsupported(ConvProblem.parse(shape, precision=precision, layout=layout), TARGET)
    assert (reason is None) == (sentence is None)
    assert sentence is None or (reason is not None and reason.startswith(sentence))


# ---- plans ----


@pytest.mark.parametrize(("precision", "y_element", "y_box"), [("int8", "int32", 32), ("e4m3", "fp16", 64)])
def test_maps(precision: str, y_element: str, y_box: int) -> None:
    problem = ConvProblem.parse("n3c48h9w11k40r3s3", precision=precision)
    plan = WGMMA.plan(problem, TARGET, config_of(problem, tile=(2, 3, 5)))
    (x,), (w,), (y,) = (maps for maps in plan.launches[-1].arguments if not isinstance(maps, str))
    assert (x.element, x.dims, x.box) == (precision, (48, 3, 11, 9), (128, 2, 7, 5))
    assert (w.element, w.strides_bytes, w.box) == (precision, (48, 9 * 48), (128, 1, 64))
    pixel = 40 * y.element_bytes
    assert (y.element, y.strides_bytes) == (y_element, (7 * 9 * pixel, pixel, 9 * pixel))
    assert y.box == (y_box, 2, 5, 1)


@pytest.mark.parametrize(("tile_q", "columns"), [(24, 24), (25, 32), (32, 32), (33, 48), (40, 48), (48, 48)])
def test_the_n_of_integers(tile_q: int, columns: int) -> None:
    problem = ConvProblem.parse("n1c16h3w50k16r1s1", precision="int8")
    config = config_of(problem, tile=(1, 1, tile_q))
    geometry = WgmmaGeometry(problem=problem, config=config)
    assert geometry.wgmma_n == columns
    assert geometry.exact == (tile_q % 8 == 0 and columns == tile_q)


def test_rules_and_asserts() -> None:
    problem = ConvProblem.parse("n1c16h20w21k16r3s3", precision="int8")
    odd = replace(config_of(problem, **BLOCK, tile=(1, 4, 8)), tile_p=5, store_groups=5)
    assert [sentence[:13] for sentence in WGMMA.broken_rules(problem, TARGET, odd)] == ["block mapping"]
    with pytest.raises(CompileError, match="the N of wgmma"):
        compile_ptx(render(WGMMA.plan(problem, TARGET, odd).launches[-1]), "sm_90a")


def test_random_configs_are_legal() -> None:
    for precision in ("int8", "e4m3"):
        problem = ConvProblem.parse("cv9", precision=precision)
        configs = WGMMA.random_configs(problem, TARGET, 3)
        for config in [next(configs) for _ in range(20)]:
            assert WGMMA.broken_rules(problem, TARGET, config) == []
            assert WGMMA.choices_of(problem, TARGET, config) is not None


# ---- NaN and Inf ----


@pytest.mark.parametrize(("precision", "value"), [("e4m3", np.nan), ("e5m2", np.inf)])
def test_padding_does_not_meet_nan_and_inf(precision: str, value: float) -> None:
    problem = ConvProblem.parse("n1c16h5w6k48r3s3pad1", precision=precision)
    # a channel of each half of a warp's 16; taps that meet the padding on two sides each
    for index in [(3, 0, 0, 0), (41, 2, 2, 7)]:
        found, wanted = run_changed(problem, config_of(problem), {"w": {index: value}})
        assert not np.isfinite(wanted).all()
        np.testing.assert_array_equal(found, wanted)


def test_sums_beyond_fp16_are_inf() -> None:
    problem = ConvProblem.parse("n1c16h3w3k8r1s1", precision="e4m3")
    changes = {"x": {(0, 1, 1, c): 448.0 for c in range(16)}, "w": {(2, 0, 0, c): 448.0 for c in range(16)}}
    found, wanted = run_changed(problem, config_of(problem), changes)
    assert found[0, 1, 1, 2] == wanted[0, 1, 1, 2] == np.inf
    np.testing.assert_array_equal(found, wanted)


# ---- mutants ----

MUTANTS = {
    "int8: half a step along K": ("int8", ("STEP_BYTES = 32,", "STEP_BYTES = 16,")),
    "int8: units of x in y": ("int8", ("k % OUTPUT_UNIT * 4;", "k % UNIT * 4;")),
    "int8: parts of x in y": ("int8", ("STORE_PARTS = sizeof(Output) / 2,", "STORE_PARTS = 1,")),
    "int8: bias of 8 bits": ("int8", ("? to_number(bias[k]) :", "? to_number(int32_t(int8_t(bias[k]))) :")),
    "int8: bias without its sign": ("int8", ("? to_number(bias[k]) :", "? to_number(bias[k] & 0x7fffffff) :")),
    "int8: no ReLU": ("int8", ("kHasRelu && y < 0 ? 0 : y; }\ntemplate", "y; }\ntemplate")),
    "e4m3: multiplied as e5m2": ("e4m3", ("ptx::wgmma_m64k32_f32_e4m3(acc", "ptx::wgmma_m64k32_f32_e5m2(acc")),
    "e5m2: multiplied as e4m3": ("e5m2", ("ptx::wgmma_m64k32_f32_e5m2(acc", "ptx::wgmma_m64k32_f32_e4m3(acc")),
    "promoted: the last sums alone": ("promoted", ("accumulate ? acc[i][j] + part[i][j] :", "false ? acc[i][j] :")),
    "promoted: the bias is lost": ("promoted", ("if constexpr (!kHasBias) return;", "return;")),
    "promoted: sums under way": ("promoted", ("ptx::wgmma_wait_group<0>();  // part", "// part")),
    "promoted: sums go on": ("promoted", ("!kPromoted && accumulate);", "accumulate);")),
}  # fmt: skip


def check(kind: str) -> None:
    """What must fail for a mutant and pass without."""
    precision = "e4m3" if kind == "promoted" else kind
    problem = ConvProblem.parse("n1c144h5w7k68r2s2", precision=precision, epilogue="bias_relu")
    if precision != "int8":
        problem = replace(problem, k=72)
    verify(problem, config_of(problem, promotion=kind == "promoted"))


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, edit = MUTANTS[name]
    mutate(monkeypatch, "wgmma", [edit])
    with pytest.raises((WrongResultError, EmulatorError, CompileError)):
        check(kind)


@pytest.mark.parametrize("kind", ["int8", "e4m3", "e5m2", "promoted"])
def test_the_unbroken_kernel_passes_where_mutants_fail(kind: str) -> None:
    check(kind)


# ---- machine code ----

LAYERS = ["cv4", "cv5", "cv6", "cv8", "cv9", "cv10", "cv11", "cv12"]


@pytest.mark.parametrize(
    ("layer", "precision"), [(layer, "int8") for layer in LAYERS] + [("cv4", "e4m3"), ("cv5", "e4m3"), ("cv9", "e5m2")]
)
def test_the_default_compiles_to_tensor_core_code_without_spills(layer: str, precision: str) -> None:
    problem = ConvProblem.parse(layer, precision=precision)
    config = WGMMA.default(problem, TARGET)
    assert isinstance(config, WgmmaConfig)
    cubin = compile_cubin(render(WGMMA.plan(problem, TARGET, config).launches[-1]), "sm_90a")
    counts = instruction_counts(cubin)
    assert counts["IGMMA" if precision == "int8" else "QGMMA"] >= config.own_subtiles
    assert {"UTMALDG", "UTMASTG"} <= counts.keys()
    assert not {"LDL", "STL", "IMMA", "HMMA"} & counts.keys()
    assert cubin.spill_bytes == 0
    assert cubin.num_regs <= TARGET.regs_per_sm // config.threads
