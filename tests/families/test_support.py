"""The shared kernels in the emulator against numpy, and what the builders promise about them."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from im2wingen.dtypes import STORAGE_DTYPE, to_storage
from im2wingen.emulator import run_plan
from im2wingen.families.base import Launch, Plan
from im2wingen.families.support import (
    FilterOrder,
    ceil_div,
    channels_last,
    early,
    filter_channels_last,
    filter_taps,
    filters_last,
    pack_filter,
    problem_values,
    round_up,
    unit_elements,
    window_transform,
)
from im2wingen.nvrtc import compile_cubin
from im2wingen.problem import ConvProblem
from im2wingen.render import render
from im2wingen.sass import disassemble
from im2wingen.target import PRESETS


def run(problem: ConvProblem, launch: Launch, size: int, source: NDArray[Any]) -> NDArray[Any]:
    """The output array of a shared kernel, for `source` in storage dtype; the input is read-only."""
    source.flags.writeable = False
    out = np.empty(size // problem.element_bytes, STORAGE_DTYPE[problem.precision])
    given, written = launch.arguments
    run_plan(Plan(launches=(launch,)), {given: source, written: out})
    return out


def numbered(problem: ConvProblem, shape: tuple[int, ...]) -> NDArray[Any]:
    """Numbers that are exact in every precision and hardly repeat."""
    values = np.arange(math.prod(shape)) % 255 + 1.0
    return to_storage(values.reshape(shape), problem.precision)


def test_small_arithmetic() -> None:
    assert [ceil_div(a, 4) for a in (0, 1, 4, 5)] == [0, 1, 1, 2]
    assert [round_up(a, 4) for a in (0, 1, 4, 5)] == [0, 4, 4, 8]
    assert unit_elements(ConvProblem.parse("cv1")) == 8
    assert unit_elements(ConvProblem.parse("cv1", precision="tf32")) == 4


def test_problem_values_are_the_problems() -> None:
    problem = ConvProblem.parse("n2c3h8w9k4r3s2st2x1pad0,1,2,3dil1x2", layout="nchw-nhwc", epilogue="bias")
    assert problem_values(problem) == {
        "ELEMENT": "__half", "OUTPUT": "__half",
        "N": 2, "C": 3, "H": 8, "W": 9, "K": 4, "R": 3, "S": 2, "P": 4, "Q": 12,
        "STRIDE_H": 2, "STRIDE_W": 1, "PAD_TOP": 0, "PAD_LEFT": 2, "PADDED_W": 14, "HAS_PADDING": True, "GROUPS": 1,
        "DILATION_H": 1, "DILATION_W": 2, "INPUT_CHANNELS_LAST": False, "FILTER_CHANNELS_LAST": False,
        "OUTPUT_CHANNELS_LAST": True, "HAS_BIAS": True, "HAS_RELU": False,
    }  # fmt: skip
    relu = problem_values(replace(problem, epilogue="bias_relu", precision="bf16"))
    assert (relu["HAS_BIAS"], relu["HAS_RELU"], relu["ELEMENT"]) == (True, True, "__nv_bfloat16")


FILTERS = {
    "n1c8h9w9k8r3s2": "whole units in every order",
    "n1c5h9w9k3r3s2": "C, R*C, S*C and K end inside a unit",
    "n1c1h9w9k1r1s1": "one element",
    "n1c40h9w9k33r5s4": "more than one CTA",
}


@pytest.mark.parametrize("order", ["row", "column", "run"])
@pytest.mark.parametrize("shape", FILTERS)
@pytest.mark.parametrize(("precision", "w_layout"), [("fp16", "krsc"), ("bf16", "kcrs"), ("fp32", "kcrs")])
def test_packed_filter(precision: str, w_layout: Any, shape: str, order: FilterOrder) -> None:
    problem = replace(ConvProblem.parse(shape, precision=precision), w_layout=w_layout)
    w = numbered(problem, problem.w_shape)
    unit = 16 // problem.element_bytes
    krsc = w if w_layout == "krsc" else w.transpose(0, 2, 3, 1)
    taps = {
        "row": krsc.reshape(problem.k, problem.r * problem.s, problem.c),
        "column": krsc.transpose(0, 2, 1, 3).reshape(problem.k, problem.s, problem.r * problem.c),
        "run": krsc.reshape(problem.k, problem.r, problem.s * problem.c),
    }[order]
    assert filter_taps(problem, order) == taps.shape[1:]
    channels = round_up(taps.shape[2], 2 if order == "run" else unit)
    launch, size = pack_filter(problem, order=order, channels=channels)
    wanted = np.pad(taps, ((0, 0), (0, 0), (0, channels - taps.shape[2]))).reshape(problem.k, -1)
    wanted = np.pad(wanted, ((0, 0), (0, -wanted.shape[1] % unit)))
    assert size == wanted.nbytes
    assert size % 16 == 0
    np.testing.assert_array_equal(run(problem, launch, size, w), wanted.reshape(-1))


@pytest.mark.parametrize("shape", FILTERS)
@pytest.mark.parametrize(("precision", "w_layout"), [("fp32", "kcrs"), ("fp64", "krsc")])
def test_filters_last(precision: str, w_layout: Any, shape: str) -> None:
    problem = replace(ConvProblem.parse(shape, precision=precision), w_layout=w_layout)
    w = numbered(problem, problem.w_shape)
    krsc = w if w_layout == "krsc" else w.transpose(0, 2, 3, 1)
    wanted = np.pad(krsc.transpose(1, 2, 3, 0), ((0, 0), (0, 0), (0, 0), (0, -problem.k % unit_elements(problem))))
    launch, size = filters_last(problem)
    assert size == wanted.nbytes
    np.testing.assert_array_equal(run(problem, launch, size, w), wanted.reshape(-1))


def test_a_packed_tap_has_its_own_channels_by_default() -> None:
    problem = ConvProblem.parse("n1c5h9w9k3r3s2")
    launch, size = pack_filter(problem, order="row")
    assert launch.values["CHANNELS"] == 5
    assert size == 2 * 3 * round_up(3 * 2 * 5, 8)


WINDOWS = {
    "n2c8h7w6k1r3s3": "whole units",
    "n1c5h9w8k1r3s2st2x3pad1,0,2,1dil2x1": "every pad but one, stride and dilation, C in no unit",
    "n2c1h4w3k1r2s1pad2": "one channel; whole rows and columns of padding",
    "n1c16h30w20k1r3s3pad1": "more than one CTA",
}


@pytest.mark.parametrize("extra", [0, 3])
@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("shape", WINDOWS)
@pytest.mark.parametrize(("precision", "layout"), [("fp16", "nhwc"), ("bf16", "nchw"), ("fp32", "nhwc")])
def test_window_tensor(precision: str, layout: str, shape: str, channels_last: bool, extra: int) -> None:
    problem = ConvProblem.parse(shape, precision=precision, layout=layout)
    pitch = problem.r * (problem.c if channels_last else 1) + extra
    x = numbered(problem, problem.x_shape)
    launch, size = window_transform(problem, channels_last=channels_last, column_pitch=pitch)

    nchw = x if layout == "nchw" else x.transpose(0, 3, 1, 2)
    pads = ((problem.pad_top, problem.pad_bottom), (problem.pad_left, problem.pad_right))
    padded = np.pad(nchw, ((0, 0), (0, 0), *pads))
    rows = np.arange(problem.p)[:, None] * problem.stride_h + np.arange(problem.r) * problem.dilation_h
    window = padded[:, :, rows]  # N, C, P, R, W
    if channels_last:
        columns = window.transpose(0, 2, 4, 3, 1)  # N, P, W, R, C
        columns = columns.reshape(*columns.shape[:3], -1)
    else:
        columns = window.transpose(0, 1, 2, 4, 3)  # N, C, P, W, R
    wanted = np.pad(columns, (*[(0, 0)] * (columns.ndim - 1), (0, extra)))
    assert size == wanted.nbytes
    np.testing.assert_array_equal(run(problem, launch, size, x), wanted.reshape(-1))


@pytest.mark.parametrize("precision", ["fp16", "bf16", "tf32"])
@pytest.mark.parametrize(
    "shape",
    [
        "n2c3h1w1k8r1s1",  # a pixel; channels of a unit are missing
        "n3c72h7w7k8r1s1",  # an odd plane: its channels are a run; a second tile of 8 channels
        "n2c20h14w14k8r1s1",  # 196 pixels in two tiles of 98, rounded up; in fp16 rows are aligned to 8 bytes
        "n1c64h12w12k8r1s1",  # two tiles of 72, three of 48
        "n1c130h16w17k8r1s1",  # the last tile is shorter; three tiles of channels
        "n1c9h19w21k8r1s1",  # an odd plane too large for a run
    ],
)
def test_channels_last(shape: str, precision: str) -> None:
    problem = ConvProblem.parse(shape, precision=precision, layout="nchw")
    x, channels = numbered(problem, problem.x_shape), round_up(problem.c, unit_elements(problem))
    launch, size = channels_last(problem, channels=channels)
    wanted = np.pad(x.transpose(0, 2, 3, 1), ((0, 0), (0, 0), (0, 0), (0, channels - problem.c)))
    assert size == wanted.nbytes
    np.testing.assert_array_equal(run(problem, launch, size, x), wanted.reshape(-1))


@pytest.mark.parametrize("precision", ["fp16", "bf16", "tf32"])
@pytest.mark.parametrize(
    "shape",
    [
        "n1c3h8w8k5r1s1",  # 64 filters at once, 5 exist
        "n1c72h8w8k16r3s3",  # 7 filters at once; a second tile of 8 channels
        "n1c33h9w9k3r5s5",  # an odd run
        "n1c64h20w20k3r9s11",  # 99 taps: one filter at a time
    ],
)
def test_a_filter_with_its_channels_last(shape: str, precision: str) -> None:
    problem = ConvProblem.parse(shape, precision=precision, layout="nchw")
    w, channels = numbered(problem, problem.w_shape), round_up(problem.c, unit_elements(problem))
    made = filter_channels_last(problem, channels=channels)
    assert made is not None
    wanted = np.pad(w.transpose(0, 2, 3, 1), ((0, 0), (0, 0), (0, 0), (0, channels - problem.c)))
    assert made[1] == wanted.nbytes
    np.testing.assert_array_equal(run(problem, *made, w), wanted.reshape(-1))


def test_which_filters_get_their_channels_last() -> None:
    assert filter_channels_last(ConvProblem.parse("n1c8h9w9k8r3s3"), channels=8) is None  # they have
    large = ConvProblem.parse("n1c8h40w40k8r20s20", layout="nchw")  # 400 taps of 64 channels: 51200 bytes
    assert filter_channels_last(large, channels=8) is None


def test_an_early_kernel_waits_before_it_lets_others_begin() -> None:
    problem = ConvProblem.parse("n2c8h9w8k8r3s2", layout="nchw")
    turned = filter_channels_last(problem, channels=8)
    assert turned is not None
    for launch in (pack_filter(problem, order="row")[0], turned[0], channels_last(problem, channels=8)[0]):
        begun = early(launch)
        assert (begun.programmatic, launch.programmatic) == (True, False)
        before, trigger, _ = disassemble(compile_cubin(render(begun), "sm_90a")).partition("PREEXIT")
        assert trigger
        assert "ACQBULK" in before  # griddepcontrol.wait
        assert "LDG" not in before
        assert "ACQBULK" not in disassemble(compile_cubin(render(launch), "sm_90a")).partition("PREEXIT")[0]


@pytest.mark.parametrize("arch", PRESETS)
def test_shared_kernels_compile_without_spills(arch: str) -> None:
    problem = ConvProblem.parse("n2c5h9w8k3r3s2pad1", layout="nchw")
    launches = [
        pack_filter(problem, order="column")[0],
        window_transform(problem, channels_last=True, column_pitch=16)[0],
    ]
    if arch == "sm_90a":  # these know griddepcontrol
        packed = filter_channels_last(problem, channels=8)
        assert packed is not None
        launches += [packed[0], channels_last(problem, channels=8)[0]]
    for launch in launches:
        cubin = compile_cubin(render(launch), arch)
        assert cubin.spill_bytes == 0
        assert launch.grid[0] * launch.block >= 1
