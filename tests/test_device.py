"""Device facts as a Target, without a device."""

import pytest

from im2wingen.device import target_from_facts
from im2wingen.errors import UnsupportedError

H200 = {
    "major": 9, "minor": 0, "sm_count": 132, "smem_per_block_bytes": 232448, "smem_per_sm_bytes": 233472,
    "clock_khz": 1_980_000, "memory_clock_khz": 3_201_000, "memory_bus_bits": 6144, "l2_bytes": 62914560,
    "max_threads_per_sm": 2048, "max_blocks_per_sm": 32, "regs_per_sm": 65536,
}  # fmt: skip


def test_a_known_device_is_its_own_facts() -> None:
    target = target_from_facts("NVIDIA H200", H200)
    assert (target.arch, target.sm_count, target.clock_mhz, target.l2_bytes) == ("sm_90a", 132, 1980, 62914560)
    assert target.dram_gbps == pytest.approx(4916.7, abs=0.1)
    assert target.mma_fp16_tflops == 620
    assert not target.predicted


def test_the_tensor_rate_scales_with_multiprocessors_and_clock() -> None:
    half = target_from_facts("half", H200 | {"sm_count": 66, "clock_khz": 990_000})
    assert half.mma_fp16_tflops == pytest.approx(155)


@pytest.mark.parametrize(
    ("major", "minor", "arch"),
    [(8, 0, "sm_80"), (8, 6, "sm_86"), (8, 9, "sm_89"), (10, 0, "sm_100a"), (12, 0, "sm_120a")],
)
def test_archs_are_as_nvrtc_takes_them(major: int, minor: int, arch: str) -> None:
    assert target_from_facts("any", H200 | {"major": major, "minor": minor}).arch == arch


def test_what_the_driver_does_not_know_comes_from_the_preset() -> None:
    target = target_from_facts("virtual", H200 | {"clock_khz": 0, "memory_clock_khz": 0, "l2_bytes": 0})
    assert (target.clock_mhz, target.dram_gbps, target.l2_bytes) == (1980, 4800, 60 * 2**20)


def test_an_unknown_arch_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnsupportedError, match=r"Tesla T4 .* capability is 7\.5; allowed are 8\.0, 8\.6, 8\.9, 9\.0, "):
        target_from_facts("Tesla T4", H200 | {"major": 7, "minor": 5})
