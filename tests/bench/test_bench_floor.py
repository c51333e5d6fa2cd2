import pytest

from im2wingen.bench.floor import floor_us
from im2wingen.bench.result import Ceilings
from im2wingen.problem import ConvProblem

# The floors of benchmarks on an H200 at batch 128, from rounded ceilings.
CEILINGS = Ceilings(gemm_tflops={"fp16": 790.0, "tf32": 416.0, "fp32": 60.0, "fp64": 60.0}, copy_tbps=4.3)


@pytest.mark.parametrize(
    ("layer", "precision", "expected_us"),
    [
        ("cv1", "fp16", 34.2),  # arithmetic
        ("cv3", "fp16", 56.2),  # bytes
        ("cv4", "fp16", 772.7),  # the largest
        ("cv7", "fp16", 197.0),  # bytes, three channels
        ("cv5", "tf32", 79.6),  # fp16 products are as exact
        ("cv3", "tf32", 112.3),
        ("cv5", "fp32", 238.9),  # three fp16 products beat the CUDA cores
        ("cv7", "fp32", 394.0),  # bytes again
        ("cv5", "fp64", 1048.6),
    ],
)
def test_floor_of_known_layers(layer: str, precision: str, expected_us: float) -> None:
    problem = ConvProblem.parse(layer, precision=precision)
    assert floor_us(problem, CEILINGS) == pytest.approx(expected_us, rel=2e-3)


@pytest.mark.parametrize("precision", ["int8", "e4m3"])
def test_floor_of_8_bits(precision: str) -> None:
    problem = ConvProblem.parse("cv5", precision=precision)
    measured = Ceilings(gemm_tflops={precision: 1400.0}, copy_tbps=4.3)
    assert floor_us(problem, measured) == pytest.approx(problem.flops / 1400e6)
    assert floor_us(problem, CEILINGS) == pytest.approx(problem.flops / 1580e6)  # assumed


def test_fp32_floor_takes_the_cuda_cores_where_they_are_faster() -> None:
    problem = ConvProblem.parse("cv5", precision="fp32")
    slow_tensor_cores = Ceilings(gemm_tflops={"fp32": 60.0, "fp16": 100.0}, copy_tbps=4.3)
    assert floor_us(problem, slow_tensor_cores) == pytest.approx(problem.flops / 60e6)
