import dataclasses
import re

import pytest

from im2wingen.errors import UsageError
from im2wingen.target import DEFAULT_ARCH, PRESETS, Target, preset


@pytest.mark.parametrize("arch", PRESETS)
def test_a_preset_is_predicted_and_named_by_its_arch(arch: str) -> None:
    target = PRESETS[arch]
    assert target.arch == arch
    assert target.predicted
    assert target.compute_capability == int(re.sub(r"\D", "", arch))


@pytest.mark.parametrize("arch", PRESETS)
def test_a_preset_is_plausible(arch: str) -> None:
    target = PRESETS[arch]
    assert 48 * 1024 < target.smem_per_block_bytes < target.smem_per_sm_bytes <= 228 * 1024
    assert target.max_threads_per_sm in (1536, 2048)
    assert 16 <= target.max_blocks_per_sm <= 32
    assert 500 < target.dram_gbps < 10_000
    assert 1_000_000 <= target.l2_bytes <= 256 * 1024 * 1024


@pytest.mark.parametrize(
    ("arch", "tflops"), [("sm_80", 19.5), ("sm_86", 35.6), ("sm_89", 82.6), ("sm_90a", 66.9), ("sm_120a", 104.8)]
)
def test_fp32_ceilings_are_those_of_the_data_sheets(arch: str, tflops: float) -> None:
    assert PRESETS[arch].fp32_tflops == pytest.approx(tflops, rel=0.02)


def test_peaks_by_precision() -> None:
    target = preset("sm_80")
    assert target.peak_tflops("fp32") == 104  # three products of tensor cores
    assert target.peak_tflops("fp16") == target.peak_tflops("bf16") == 312
    assert target.peak_tflops("tf32") == 312  # of fp16 numbers
    assert target.mma_sync_tflops("tf32") == 156
    assert preset("sm_90a").peak_tflops("int8") == preset("sm_90a").peak_tflops("e4m3") == 2 * 989


@pytest.mark.parametrize(
    ("arch", "cuda", "tensor"), [("sm_80", 9.7, 19.5), ("sm_89", 1.29, 1.29), ("sm_90a", 33.5, 66.9)]
)
def test_fp64_ceilings_are_those_of_the_data_sheets(arch: str, cuda: float, tensor: float) -> None:
    target = PRESETS[arch]
    assert target.fp64_tflops == pytest.approx(cuda, rel=0.02)
    assert target.mma_sync_tflops("fp64") == pytest.approx(tensor, rel=0.02)
    assert target.peak_tflops("fp64") == target.mma_sync_tflops("fp64")


@pytest.mark.parametrize(("name", "arch"), [("sm_90", "sm_90a"), ("SM_90A", "sm_90a"), ("sm_120", "sm_120a")])
def test_a_short_name_means_the_arch_with_its_features(name: str, arch: str) -> None:
    assert preset(name).arch == arch


@pytest.mark.parametrize("name", ["", "sm_70", "90a", "hopper", "sm_80a"])
def test_an_unknown_arch_lists_the_known(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        preset(name)
    assert str(caught.value) == f"arch is {name!r}; allowed are sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_120a"


def test_the_default_has_a_preset() -> None:
    assert preset(DEFAULT_ARCH).arch == DEFAULT_ARCH


def test_a_target_is_measured_unless_it_says_otherwise() -> None:
    facts = {f.name: getattr(PRESETS["sm_90a"], f.name) for f in dataclasses.fields(Target) if f.name != "predicted"}
    assert not Target(**facts).predicted
