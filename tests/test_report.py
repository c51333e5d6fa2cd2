"""Numbers for people."""

import pytest

from im2wingen import ConvProblem
from im2wingen.cpu_target import CPU_PRESETS
from im2wingen.report import Roofline, format_bytes, format_us, speed_sentence, tflops
from im2wingen.target import preset

TARGET = preset("sm_90a")
CV5 = ConvProblem.parse("cv5")


def test_roofline_takes_the_larger_floor():
    deep, thin = Roofline.of(CV5, TARGET), Roofline.of(ConvProblem.parse("n128c8h56w56k8r1s1"), TARGET)
    assert (deep.bound, thin.bound) == ("arithmetic", "memory")
    assert deep.floor_us == pytest.approx(CV5.flops / 989e6)
    assert deep.share(2 * deep.floor_us) == 0.5


def test_speed_sentence():
    sentence = speed_sentence(CV5, TARGET, 200.0, predicted=True)
    assert sentence.startswith(f"200.0 us (predicted), {tflops(CV5, 200.0):.1f} TFLOPS, ")
    assert sentence.endswith(" % of the arithmetic roofline")


def test_formats():
    assert [format_us(value) for value in (None, 1.234, 1234.5)] == ["-", "1.23", "1234.5"]
    assert [format_bytes(value) for value in (None, 0, 1023, 1536, 3 << 20, 5 << 30)] == [
        "-", "0 B", "1023 B", "1.5 KiB", "3.0 MiB", "5.0 GiB"
    ]  # fmt: skip


def test_a_cpus_speed_is_told_in_gflops_and_against_its_fmas():
    cpu, problem = CPU_PRESETS["x86-64-avx2"], ConvProblem.parse("cv9", precision="fp32", batch=1)
    floor_us = problem.flops / cpu.fp32_gflops * 1e-3
    sentence = speed_sentence(problem, cpu, 2 * floor_us, predicted=False)
    assert sentence.endswith(f" us, {cpu.fp32_gflops / 2:.1f} GFLOPS, 50 % of the FMA (at 2450 MHz) roofline")
