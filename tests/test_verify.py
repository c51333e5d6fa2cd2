"""The support kernels: compiled for every arch, their arithmetic in the emulator; the bound; verdicts on y."""

import numpy as np
import pytest

from im2wingen.device_data import ELEMENT_CODE, FILL_JOB, FILL_LAUNCH, KIND_CODE, input_sizes, output_bytes, set_count
from im2wingen.dtypes import STORAGE_DTYPE, ElementType, from_storage, to_storage
from im2wingen.emulator import EmulatedKernel
from im2wingen.families import FAMILIES
from im2wingen.families.base import Launch
from im2wingen.nvrtc import compile_cubin
from im2wingen.problem import ConvProblem, Precision
from im2wingen.reference import conv_magnitude, conv_reference
from im2wingen.render import render
from im2wingen.target import PRESETS, preset
from im2wingen.verify import COMPARE_JOB, COMPARE_LAUNCH, COMPARE_PARTIAL, reference_launch
from im2wingen.verify_data import Kind, WrongResultError, error_bound, y_coordinates
from im2wingen.verify_emulated import compare_arrays, emulated_inputs, verify_emulated

PRECISIONS: tuple[Precision, ...] = ("fp32", "tf32", "fp16", "bf16", "fp64")
EIGHT_BITS: tuple[Precision, ...] = ("int8", "e4m3", "e5m2")


@pytest.mark.parametrize("arch", PRESETS)
@pytest.mark.parametrize(
    "launch",
    [
        FILL_LAUNCH,
        COMPARE_LAUNCH,
        *(reference_launch(ConvProblem.parse("cv5", precision=p)) for p in (*PRECISIONS, "int8", "e4m3")),
    ],
    ids=lambda launch: launch.template,
)
def test_support_kernels_compile_everywhere(launch: Launch, arch: str) -> None:
    cubin = compile_cubin(render(launch), arch)
    assert cubin.spill_bytes <= 64  # newer NVRTC spills 8 bytes of `reference` on sm_100a and sm_120a
    assert cubin.smem_bytes <= 48 * 1024


@pytest.mark.parametrize("shape", ["cv4", "cv1", "n4c512h7w7k512r3s3g512", "n1c64h8w8k64r3s3g8", "n1c1h4w4k9r1s1"])
def test_reference_tile_fits_static_shared_memory(shape: str) -> None:
    values = reference_launch(ConvProblem.parse(shape)).values
    block_m, block_k, block_c = (int(values[f"BLOCK_{d}"]) for d in "MKC")
    assert 8 * block_c * (block_m + block_k) + 12 * block_m <= 48 * 1024
    assert block_m * block_k == 256 * 16


def splitmix64(z: np.ndarray) -> np.ndarray:
    z = z + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def filled(precision: ElementType, kind: Kind, count: int, *, scale: float = 1.0, grid: int = 2) -> np.ndarray:
    job = np.array([(count, 7, KIND_CODE[kind], ELEMENT_CODE[precision], scale)], FILL_JOB)
    out = np.zeros(count + 3, STORAGE_DTYPE[precision])
    EmulatedKernel(render(FILL_LAUNCH)).launch((grid, 1, 1), FILL_LAUNCH.block, 0, [job, out])
    assert not out[count:].any()  # nothing past the count
    return from_storage(out[:count], precision)


@pytest.mark.parametrize("precision", [*PRECISIONS, *EIGHT_BITS, "int32"])
def test_fill_integers_are_the_hash(precision: ElementType) -> None:
    with np.errstate(over="ignore"):
        bits = splitmix64(splitmix64(np.array([7], np.uint64)) ^ np.arange(1000, dtype=np.uint64))
    expected = (bits >> np.uint64(32)).astype(np.int64) % 5 - 2
    np.testing.assert_array_equal(filled(precision, "integer", 1000, scale=2.0), expected)


@pytest.mark.parametrize("precision", EIGHT_BITS)
def test_fill_rounds_to_8_bits(precision: Precision) -> None:
    scale = 90.0 if precision == "int8" else 0.1  # some beyond 127; some that are subnormal
    numbers = filled("fp32", "normal", 3000, scale=scale)
    expected = from_storage(to_storage(numbers, precision), precision)
    np.testing.assert_array_equal(filled(precision, "normal", 3000, scale=scale), expected)


def test_fill_integers_are_all_of_int8() -> None:
    assert set(filled("int8", "integer", 20_000, scale=128.0)) == set(range(-128, 128))


def test_fill_does_not_depend_on_the_grid() -> None:
    np.testing.assert_array_equal(filled("fp16", "normal", 700, grid=1), filled("fp16", "normal", 700, grid=3))


def test_fill_normals_have_the_scale_asked_for() -> None:
    values = filled("fp32", "normal", 20_000, scale=0.25)
    assert abs(values.mean()) < 0.01
    assert abs(values.std() - 0.25) < 0.01
    assert abs(np.mean(np.abs(values) < 0.25) - 0.683) < 0.02  # within one standard deviation


def test_fp64_normals_have_all_their_bits() -> None:
    values = filled("fp64", "normal", 2000)
    rest = values - values.astype(np.float32)
    assert np.count_nonzero(rest) == values.size
    assert np.abs(rest / values).max() < 1e-3  # the rest matters least where it's measured against a sum
    assert len(set(np.abs(np.frexp(rest)[0]))) > 1900


@pytest.mark.parametrize(
    ("shape", "precision", "layout", "epilogue"),
    [
        ("n2c3h5w7k4r3s2", "fp32", "nhwc", "none"),  # less than one tile in every direction
        ("n1c17h6w5k65r3s3st2x1pad1", "fp16", "nchw", "bias_relu"),  # one channel and one filter over a tile
        ("n3c2h7w9k3r3s3pad2,0,1,3dil2", "bf16", "nhwc-nchw", "bias"),  # four pads, dilation
        ("n1c6h9w9k9r2s2g3", "tf32", "nchw-nhwc", "none"),  # groups
        ("n2c5h8w8k5r3s3pad1g5", "fp32", "nhwc", "none"),  # depthwise
        ("n1c1h33w33k1r1s1", "fp16", "nhwc", "none"),  # more than one tile of pixels
        ("n1c17h6w5k65r3s3st2x1pad1", "int8", "nhwc", "bias_relu"),
        ("n3c2h7w9k3r3s3pad2,0,1,3dil2", "e4m3", "nhwc", "bias"),
        ("n1c6h9w9k9r2s2g3", "e5m2", "nchw-nhwc", "none"),
        ("n1c5h6w5k7r3s3pad1", "fp64", "nchw", "bias"),
    ],
)
def test_reference_kernel_equals_numpy(shape: str, precision: str, layout: str, epilogue: str) -> None:
    problem = ConvProblem.parse(shape, precision=precision, layout=layout, epilogue=epilogue)
    inputs = emulated_inputs(problem, "normal", 3)
    launch = reference_launch(problem)
    y, magnitude = np.full(problem.y_shape, np.nan), np.full(problem.y_shape, np.nan, np.float32)
    arguments = [inputs["x"], inputs["w"], inputs["bias"], y, magnitude]
    EmulatedKernel(render(launch)).launch(launch.grid, launch.block, 0, arguments, seed=2)
    bias = None if epilogue == "none" else inputs["bias"]
    np.testing.assert_allclose(y, conv_reference(problem, inputs["x"], inputs["w"], bias), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(magnitude, conv_magnitude(problem, inputs["x"], inputs["w"], bias), rtol=1e-6)


def test_reference_kernel_skips_padding() -> None:
    problem = ConvProblem.parse("n1c1h3w3k1r3s3pad1", precision="fp32")
    w = np.ones(problem.w_shape, np.float32)
    w[0, 0] = np.nan  # the top row of taps
    launch = reference_launch(problem)
    y, magnitude = np.zeros(problem.y_shape), np.zeros(problem.y_shape, np.float32)
    arguments = [np.ones(problem.x_shape, np.float32), w, np.zeros(1, np.float32), y, magnitude]
    EmulatedKernel(render(launch)).launch(launch.grid, launch.block, 0, arguments)
    np.testing.assert_array_equal(y[0, 0, :, 0], [4, 6, 4])
    assert np.isnan(y[0, 1:]).all()


def compared(precision: ElementType, y: np.ndarray, reference: np.ndarray, *, exact: bool) -> np.ndarray:
    """The compare kernel's partials for a bound of 1e-3 |ref| + 1e-4 sum + 1e-5 with sum = 10."""
    job = np.array([(y.size, 1e-3, 1e-4, 1e-5, ELEMENT_CODE[precision], exact)], COMPARE_JOB)
    partials = np.zeros(3, COMPARE_PARTIAL)
    arguments = [job, y, reference, np.full(y.size, 10.0, np.float32), partials]
    EmulatedKernel(render(COMPARE_LAUNCH)).launch((3, 1, 1), COMPARE_LAUNCH.block, 0, arguments)
    return partials


@pytest.mark.parametrize("precision", PRECISIONS)
def test_compare_measures_errors(precision: Precision) -> None:
    reference = np.random.default_rng(0).standard_normal(2001)  # no multiple of the block
    y = to_storage(reference * (1 + 4e-4), precision)
    partials = compared(precision, y, reference, exact=False)
    error = np.abs(from_storage(y, precision) - reference)
    bound = 1e-3 * np.abs(reference) + 1e-3 + 1e-5
    assert partials["violations"].sum() == np.count_nonzero(error > bound)
    assert partials["max_error"].max() == error.max()
    worst = partials[np.argmax(partials["worst"])]
    assert worst["worst_index"] == np.argmax(error / bound)
    assert worst["worst"] == pytest.approx((error / bound).max(), rel=1e-6)
    assert partials["error_squares"].sum() == pytest.approx((error**2).sum())
    assert partials["reference_squares"].sum() == pytest.approx((reference**2).sum())


def test_compare_of_integers_has_no_tolerance() -> None:
    reference = np.array([2.0**31 - 1, -(2.0**31), 2.0**24 + 1, 5.0])  # beyond what fp32 holds
    y = to_storage(reference, "int32")
    assert compared("int32", y, reference, exact=True)["violations"].sum() == 0
    y[2] -= 1
    partials = compared("int32", y, reference, exact=True)
    assert (partials["violations"].sum(), partials["max_error"].max()) == (1, 1.0)


def test_compare_counts_nan_and_infinity() -> None:
    reference = np.ones(600)
    y = np.ones(600, np.float16)
    y[[5, 300]], y[599] = np.nan, np.inf
    partials = compared("fp16", y, reference, exact=False)
    assert partials["violations"].sum() == 3
    assert partials["nans"].sum() == 2
    assert partials["worst_index"][np.argmax(partials["worst"])] == 599


@pytest.mark.parametrize("precision", PRECISIONS)
def test_compare_exact_demands_the_nearest_element(precision: Precision) -> None:
    reference = np.arange(-3000.0, 3001.0, 7.0)  # beyond what fp16 and bf16 hold exactly
    y = to_storage(reference, precision)
    assert compared(precision, y, reference, exact=True)["violations"].sum() == 0
    y[123] = to_storage(reference[100:101], precision)[0]
    partials = compared(precision, y, reference, exact=True)
    assert partials["violations"].sum() == 1
    assert partials["worst_index"][np.argmax(partials["worst"])] == 123


@pytest.mark.parametrize("precision", [*PRECISIONS, *EIGHT_BITS])
def test_bound_holds_a_sequential_sum_and_not_a_lost_term(precision: Precision) -> None:
    problem = ConvProblem.parse("n2c64h6w6k8r3s3", precision=precision)
    inputs = emulated_inputs(problem, "normal", 0)
    number = np.float64 if precision == "fp64" else np.float32
    x, w = (from_storage(inputs[name], precision).astype(number) for name in "xw")
    if precision == "tf32":
        x, w = ((a.view(np.uint32) + 0x1000 & 0xFFFFE000).view(np.float32) for a in (x, w))
    acc = np.zeros(problem.y_shape, number)
    for r in range(3):
        for s in range(3):
            for c in range(64):
                acc += x[:, r : r + problem.p, s : s + problem.q, c, None] * w[None, None, None, :, r, s, c]
    stats = compare_arrays(problem, "normal", inputs, to_storage(acc, problem.y_dtype))
    limits = {"fp64": 1e-14, "fp32": 1e-6, "tf32": 1e-3, "bf16": 1e-2}
    assert stats.norm_error == 0 if precision == "int8" else 0 < stats.norm_error < limits.get(precision, 1e-3)
    lost = acc - 2 * x[:, : problem.p, : problem.q, 0, None] * w[None, None, None, :, 0, 0, 0] * 8
    with pytest.raises(WrongResultError, match="on normal data"):
        compare_arrays(problem, "normal", inputs, to_storage(lost, problem.y_dtype))


def test_an_fp64_sum_in_fp32_is_beyond_the_norm_alone() -> None:
    problem = ConvProblem.parse("n2c64h6w6k8r3s3", precision="fp64")
    bound = error_bound(problem)
    assert bound.breach(1e-13) is not None
    assert bound.breach(1e-14) is None
    assert error_bound(ConvProblem.parse("n1c1h2w2k2r1s1", precision="fp64")).breach(1.0) is None  # too few elements
    assert error_bound(ConvProblem.parse("cv5", precision="fp32")).breach(1.0) is None


@pytest.mark.parametrize("lost", ["low half of x", "low half of w", "TF32", "fp16"])
def test_fp32_is_held_tighter_than_tensor_cores_formats(lost: str) -> None:
    problem = ConvProblem.parse("n8c512h3w3k16r3s3", precision="fp32")
    inputs = emulated_inputs(problem, "normal", 0)
    x, w = inputs["x"].reshape(8, -1), inputs["w"].reshape(16, -1)
    acc = np.zeros((8, 16), np.float32)
    for k in range(problem.gemm_k):
        acc += x[:, k, None] * w[None, :, k]
    compare_arrays(problem, "normal", inputs, acc.reshape(problem.y_shape))
    if lost == "TF32":
        x, w = ((a.view(np.uint32) + 0x1000 & 0xFFFFE000).view(np.float32) for a in (x, w))
    if lost in ("low half of x", "fp16"):
        x = x.astype(np.float16).astype(np.float32)
    if lost in ("low half of w", "fp16"):
        w = (64 * w).astype(np.float16).astype(np.float32) / 64
    y = x.astype(np.float64) @ w.T.astype(np.float64)
    with pytest.raises(WrongResultError, match="on normal data"):
        compare_arrays(problem, "normal", inputs, y.astype(np.float32).reshape(problem.y_shape))


def test_bound_grows_with_gemm_k() -> None:
    bounds = [error_bound(ConvProblem.parse(f"n1c{c}h4w4k1r1s1")).term_rounding for c in (1, 16, 256)]
    assert bounds == sorted(bounds)
    assert bounds[2] / bounds[0] == pytest.approx((257 / 2) ** 0.5)


def test_bound_of_fp8_does_not_grow_with_long_sums() -> None:
    # of the terms' magnitudes, and beside y's own rounding; it is as good as independent of gemm_k
    bounds = [error_bound(ConvProblem.parse(f"n1c{c}h4w4k1r1s1", precision="e4m3")).term_rounding for c in (64, 4096)]
    assert bounds == pytest.approx([4 * 4 / 0.64 * 2.0**-13] * 2, rel=1e-3)
    short = error_bound(ConvProblem.parse("n1c3h4w4k1r1s1", precision="e4m3")).term_rounding
    assert short == pytest.approx(4 * 2 * 2.0**-13, rel=1e-3)


def test_integer_data_stay_exact() -> None:
    for shape in ("cv4", "cv12"):
        problem = ConvProblem.parse(shape, batch=1, precision="fp16")
        assert 4 * problem.gemm_k + 8 < 2**24  # the largest sum is exact in fp32
        assert 6 * 2 * problem.gemm_k**0.5 < 2**13  # six standard deviations are exact in the 14 bits of fp8's sums


def test_wrong_integers_are_reported_with_their_place() -> None:
    problem = ConvProblem.parse("n2c3h4w5k2r2s2", precision="fp16", layout="nhwc-nchw")
    inputs = emulated_inputs(problem, "integer", 0)
    reference = conv_reference(problem, inputs["x"], inputs["w"])
    y = to_storage(reference, "fp16")
    y[1, 0, 2, 3] += 1
    with pytest.raises(WrongResultError, match=r"1 of 48 .* integer data; the worst, at n=1 k=0 p=2 q=3, is") as caught:
        compare_arrays(problem, "integer", inputs, y)
    assert str(caught.value).endswith(f"should be {reference[1, 0, 2, 3]:g}")
    y[0, 0, 0, 0] = np.nan
    with pytest.raises(WrongResultError, match=r"2 of 48 .*\(1 of them NaN\); the worst, at n=0 k=0 p=0 q=0, is nan"):
        compare_arrays(problem, "integer", inputs, y)


def test_coordinates_follow_the_layout() -> None:
    nhwc = ConvProblem.parse("n2c1h4w5k3r1s1")
    assert y_coordinates(nhwc, 1 + 3 * (2 + 5 * (3 + 4 * 1))) == "n=1 k=1 p=3 q=2"
    nchw = ConvProblem.parse("n2c1h4w5k3r1s1", layout="nchw")
    assert y_coordinates(nchw, 2 + 5 * (3 + 4 * (1 + 3 * 1))) == "n=1 k=1 p=3 q=2"


@pytest.mark.parametrize("name", [name for name, family in FAMILIES.items() if "sm_90a" in family.archs])
def test_emulated_plans_are_judged(name: str) -> None:
    family, target = FAMILIES[name], preset("sm_90a")
    precision = {"simt": "fp32"}.get(name, "fp16")
    shapes = ("n1c8h7w7k16r3s3pad2,0,1,1", "n1c8h7w7k16r3s3pad0,2,1,1")  # the same shapes, other rows
    layout = "nhwc"
    if name == "wgmma_pointwise":
        shapes, layout = ("n1c8h6w8k16r1s1st3x2", "n1c8h6w8k16r1s1st4x2"), "nchw"
    problem, shifted = (ConvProblem.parse(shape, precision=precision, layout=layout) for shape in shapes)
    stats = verify_emulated(problem, family.plan(problem, target, family.default(problem, target)))
    assert 0 < stats.max_error < 0.01
    plan = family.plan(shifted, target, family.default(shifted, target))
    with pytest.raises(WrongResultError, match="on integer data"):
        verify_emulated(problem, plan)


def test_sets_exceed_four_times_the_l2_cache() -> None:
    assert set_count(300_000_000, 60 * 2**20) == 1
    assert set_count(10_000_000, 60 * 2**20) == 26
    assert set_count(100, 60 * 2**20) == 4096


def test_input_sizes_hold_a_bias_where_there_is_one() -> None:
    assert input_sizes(ConvProblem.parse("n1c2h3w3k4r1s1")) == {"x": 36, "w": 16}
    assert input_sizes(ConvProblem.parse("n1c2h3w3k4r1s1", epilogue="bias"))["bias"] == 8
    assert input_sizes(ConvProblem.parse("n1c2h3w3k4r1s1", precision="int8", epilogue="bias")) == {
        "x": 18, "w": 8, "bias": 16
    }  # fmt: skip
    assert output_bytes(ConvProblem.parse("n1c2h3w3k4r1s1", precision="e4m3")) == 9 * 4 * 2
