"""Which backend serves who asks for none."""

import pytest

from im2wingen import backends
from im2wingen.backends import check_backend, cpu_refusal, pick_backend
from im2wingen.errors import UsageError
from im2wingen.problem import ConvProblem

FP32 = ConvProblem.parse("n1c8h8w8k8r3s3", precision="fp32")
FP16 = ConvProblem.parse("n1c8h8w8k8r3s3", precision="fp16")


@pytest.mark.parametrize(
    ("devices", "problems", "families", "picked"),
    [
        (1, [FP32], None, "cuda"),
        (0, [FP32], None, "cpu"),
        (0, [FP32], ["simd", "simt"], "cpu"),
        (0, [FP32], ["simt"], "cuda"),
        (0, [FP32, FP16], None, "cuda"),
    ],
)
def test_a_gpu_comes_first_then_a_cpu_that_can(monkeypatch, devices, problems, families, picked) -> None:
    monkeypatch.setattr(backends, "device_count", lambda: devices)
    assert pick_backend(problems, families) == picked


def test_the_refusal_is_a_sentence() -> None:
    assert cpu_refusal([FP32]) is None
    refusal = cpu_refusal([FP32, FP16])
    assert refusal is not None
    assert "simd computes fp32, fp64, bf16, int8; the problem is fp16" in refusal
    with pytest.raises(UsageError, match="family is 'none'"):
        cpu_refusal([FP32], ["none"])


def test_names() -> None:
    assert [check_backend(name) for name in ("cuda", "cpu", None)] == ["cuda", "cpu", None]
    with pytest.raises(UsageError, match="backend is 'gpu'; allowed are cuda, cpu"):
        check_backend("gpu")
