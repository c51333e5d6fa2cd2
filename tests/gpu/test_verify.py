"""The device's test data and reference against numpy, and verdicts on every family's default plan."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from im2wingen.device import Device, open_device
from im2wingen.device_data import BufferSets, Filler, input_sizes, output_bytes, support_kernel
from im2wingen.dtypes import STORAGE_DTYPE, from_storage, to_storage
from im2wingen.families import FAMILIES
from im2wingen.families.base import Plan
from im2wingen.kernel import LoadedPlan
from im2wingen.nvrtc import compile_cubin
from im2wingen.problem import ConvProblem
from im2wingen.reference import conv_magnitude, conv_reference
from im2wingen.render import render
from im2wingen.verify import Verifier, reference_launch
from im2wingen.verify_data import WrongResultError

pytestmark = pytest.mark.gpu

SHAPES = [
    ("n2c3h5w7k4r3s2", "fp32", "nhwc", "none"),  # less than one tile in every direction
    ("n3c17h20w21k65r3s3st2x1pad1", "fp16", "nchw", "bias_relu"),  # one channel and one filter over a tile
    ("n3c2h7w9k3r3s3pad2,0,1,3dil2", "bf16", "nhwc-nchw", "bias"),  # four pads, dilation
    ("n2c6h9w9k9r2s2g3", "tf32", "nchw-nhwc", "none"),  # groups
    ("n2c64h28w28k64r3s3pad1g64", "fp16", "nhwc", "none"),  # depthwise
    ("n2c16h9w9k9r3s3pad1", "int8", "nhwc", "bias_relu"),
    ("n2c16h9w9k9r3s3pad1", "e4m3", "nhwc", "bias"),
    ("n2c16h9w9k9r3s3pad1", "e5m2", "nhwc-nchw", "none"),
]


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    opened = open_device()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def filler(device: Device) -> Iterator[Filler]:
    made = Filler(device)
    yield made
    made.close()


@pytest.mark.parametrize(("shape", "precision", "layout", "epilogue"), SHAPES)
def test_reference_equals_numpy(
    device: Device, filler: Filler, shape: str, precision: str, layout: str, epilogue: str
) -> None:
    problem = ConvProblem.parse(shape, precision=precision, layout=layout, epilogue=epilogue)
    shapes = {"x": problem.x_shape, "w": problem.w_shape, "bias": (problem.k,)}
    arrays, pointers = {}, {"bias": 0}
    for name, size in input_sizes(problem).items():
        pointers[name] = device.alloc(size)
        filler.fill_input(problem, name, "normal", pointers[name], size, 5)
        arrays[name] = np.empty(shapes[name], STORAGE_DTYPE[problem.y_dtype if name == "bias" else problem.precision])
        device.copy_to_host(arrays[name], pointers[name])
    elements = problem.gemm_m * problem.k
    pointers |= {"y_ref": device.alloc(8 * elements), "y_abs": device.alloc(4 * elements)}
    kernel = support_kernel(reference_launch(problem), device.target.arch)
    kernel.launch(pointers, device.stream)
    y, magnitude = np.empty(problem.y_shape), np.empty(problem.y_shape, np.float32)
    device.copy_to_host(y, pointers["y_ref"])
    device.copy_to_host(magnitude, pointers["y_abs"])
    bias = arrays.get("bias")
    np.testing.assert_allclose(y, conv_reference(problem, arrays["x"], arrays["w"], bias), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(magnitude, conv_magnitude(problem, arrays["x"], arrays["w"], bias), rtol=1e-6)
    if len(arrays["x"].ravel()) > 10_000:
        x = from_storage(arrays["x"], problem.precision)
        assert abs(x.mean()) < 0.05
        assert abs(x.std() - 1) < 0.05
    kernel.unload()
    for pointer in pointers.values():
        device.free(pointer)


class PlayBack:
    """In place of a loaded plan: hands y over that numpy made from the data that it is given."""

    def __init__(self, device: Device, problem: ConvProblem, spoil: bool) -> None:
        self.device, self.problem, self.spoil = device, problem, spoil
        self.plan = Plan(launches=(), workspace={"scratch": 1000})

    def launch(self, pointers: dict[str, int], stream: int) -> None:
        problem = self.problem
        x, w = (
            np.empty(shape, STORAGE_DTYPE[problem.precision]) for shape in (problem.x_shape, problem.w_shape)
        )  # fmt: skip
        self.device.copy_to_host(x, pointers["x"])
        self.device.copy_to_host(w, pointers["w"])
        y = to_storage(conv_reference(problem, x, w), problem.precision)
        if self.spoil:
            y.flat[-1] = np.nan
        self.device.copy_to_device(pointers["y"], y)


def test_verdicts_on_numpys_result(device: Device, filler: Filler) -> None:
    problem = ConvProblem.parse("n2c16h14w14k24r3s3pad1", precision="fp16")
    verifier = Verifier(problem, device, filler)
    stats = verifier.check(PlayBack(device, problem, False))  # type: ignore[arg-type]
    assert 0 < stats.norm_error < 2.0**-11
    with pytest.raises(WrongResultError, match=r"1 of 9408 .*1 of them NaN.* at n=1 k=23 p=13 q=13, is nan"):
        verifier.check(PlayBack(device, problem, True))  # type: ignore[arg-type]
    assert verifier.check(PlayBack(device, problem, False)) == stats  # type: ignore[arg-type]
    verifier.close()


@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
@pytest.mark.parametrize("precision", ["fp64", "fp32", "tf32", "fp16", "bf16"])
@pytest.mark.parametrize("name", FAMILIES)
def test_default_plans_are_right(device: Device, filler: Filler, name: str, precision: str, layout: str) -> None:
    family = FAMILIES[name]
    shape = "n40c264h12w20k72r1s1" if name == "wgmma_pointwise" else "n5c40h17w19k72r3s3st2pad1"
    problem = ConvProblem.parse(shape, precision=precision, layout=layout, epilogue="bias_relu")
    if (reason := family.unsupported(problem, device.target)) is not None:
        pytest.skip(reason)
    plan = family.plan(problem, device.target, family.default(problem, device.target))
    loaded = LoadedPlan(plan, [compile_cubin(render(launch), device.target.arch) for launch in plan.launches])
    verifier = Verifier(problem, device, filler)
    assert verifier.check(loaded).norm_error < 1e-2
    verifier.close()
    loaded.unload()


@pytest.mark.parametrize("promotion", [False, True])
@pytest.mark.parametrize("precision", ["int8", "e4m3", "e5m2"])
def test_plans_of_8_bit_elements_are_right(device: Device, filler: Filler, precision: str, promotion: bool) -> None:
    problem = ConvProblem.parse("n5c144h17w19k72r3s3st2pad1", precision=precision, epilogue="bias_relu")
    family = FAMILIES["wgmma"]
    configs = itertools.islice(family.random_configs(problem, device.target, 1), 200)
    wanted = (family.config_from_dict(one.to_dict() | {"promotion": promotion}) for one in configs)
    config = next((one for one in wanted if not family.broken_rules(problem, device.target, one)), None)
    if config is None:
        pytest.skip("promotion is for fp8")
    plan = family.plan(problem, device.target, config)
    loaded = LoadedPlan(plan, [compile_cubin(render(launch), device.target.arch) for launch in plan.launches])
    verifier = Verifier(problem, device, filler)
    assert verifier.check(loaded).norm_error <= (0 if precision == "int8" else 5e-3)
    verifier.close()
    loaded.unload()


def test_buffer_sets_do_not_overlap(device: Device, filler: Filler) -> None:
    problem = ConvProblem.parse("n8c64h56w56k64r3s3", precision="fp16", epilogue="bias")
    sets = BufferSets(device, filler, problem, seed=1)
    sizes = {**input_sizes(problem), "y": output_bytes(problem)}
    assert sets.count * sum(sizes.values()) > 4 * device.target.l2_bytes
    spans = sorted((each[name], each[name] + size) for each in sets.pointers for name, size in sizes.items())
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
    x = np.empty(problem.x_shape, np.float16)
    device.copy_to_host(x, sets.pointers[-1]["x"])
    assert abs(float(x.astype(np.float64).std()) - 1) < 0.01
    sets.close()


def test_the_largest_layer_is_prepared_and_freed(device: Device, filler: Filler) -> None:
    free = device.free_bytes()
    verifier = Verifier(ConvProblem.parse("cv4"), device, filler)  # 610 GFLOP, twice
    verifier.close()
    assert device.free_bytes() >= free - 64 * 2**20
