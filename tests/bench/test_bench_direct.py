import pytest

from im2wingen.bench.direct import plan
from im2wingen.bench.optional import PeerUnavailableError
from im2wingen.nvrtc import compile_cubin
from im2wingen.problem import ConvProblem
from im2wingen.render import render
from im2wingen.target import PRESETS
from im2wingen.verify_emulated import verify_emulated


@pytest.mark.parametrize("arch", PRESETS)
def test_compiles_for_every_arch_without_spills(arch: str) -> None:
    for layout in ("nhwc", "nchw"):
        (launch,) = plan(ConvProblem.parse("cv4", layout=layout)).launches
        assert compile_cubin(render(launch), arch).spill_bytes == 0


@pytest.mark.parametrize(
    ("shape", "precision", "layout", "epilogue"),
    [
        ("n2c3h7w9k5r3s2st2x1pad1,0,2,1dil1x2", "fp16", "nhwc", "bias_relu"),  # every kind of edge
        ("n2c3h7w9k5r3s2st2x1pad1,0,2,1dil1x2", "bf16", "nchw", "bias"),
        ("n2c3h7w9k5r3s2st2x1pad1,0,2,1dil1x2", "fp32", "nchw-nhwc", "none"),
        ("n1c8h5w6k8r3s3", "fp32", "nhwc-nchw", "none"),  # outputs a multiple of the thread's
        ("n1c1h1w1k1r1s1", "fp16", "nhwc", "none"),  # one product
    ],
)
def test_emulated_result_is_right(shape: str, precision: str, layout: str, epilogue: str) -> None:
    problem = ConvProblem.parse(shape, precision=precision, layout=layout, epilogue=epilogue)
    verify_emulated(problem, plan(problem))


def test_groups_are_refused() -> None:
    with pytest.raises(PeerUnavailableError, match="no groups"):
        plan(ConvProblem.parse("n1c4h4w4k4r1s1g2"))
