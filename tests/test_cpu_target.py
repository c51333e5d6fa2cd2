"""The CPU as a target: what it tells of itself, and the presets."""

import os
from pathlib import Path

import pytest

from im2wingen import cpu_target as module
from im2wingen.cpu_target import CPU_PRESETS, _arch, _cores, _features, _field, cpu_preset, cpu_target
from im2wingen.errors import UsageError


def test_this_machine_is_described() -> None:
    target = cpu_target()
    assert target.arch in CPU_PRESETS
    assert target.name
    assert not target.predicted
    assert target.cores >= 1
    assert 8 * 1024 <= target.l1_bytes <= target.l2_bytes
    assert target.vector_bytes == CPU_PRESETS[target.arch].vector_bytes


@pytest.mark.parametrize(
    ("machine", "flags", "arch"),
    [
        ("x86_64", "fpu sse2", "generic"),
        ("x86_64", "avx2 bmi2 f16c fma movbe", "x86-64-avx2"),
        ("x86_64", "avx2 bmi2 f16c fma movbe avx512f avx512bw avx512cd avx512dq avx512vl", "x86-64-avx512"),
        ("x86_64", "avx2 bmi2 f16c fma movbe avx512f avx512cd", "x86-64-avx2"),  # part of AVX-512 is not x86-64-v4
        ("aarch64", "", "aarch64-neon"),
        ("riscv64", "", "generic"),
    ],
)
def test_the_arch_follows_from_the_features(machine: str, flags: str, arch: str) -> None:
    assert _arch(machine, flags) == arch


@pytest.mark.parametrize(
    ("arch", "flags", "features"),
    [
        ("x86-64-avx512", "avx512_vnni avx512_bf16 avx_vnni", ("avx512_bf16", "avx512_vnni")),
        ("x86-64-avx512", "amx_tile amx_int8 amx_bf16", ("amx_bf16", "amx_int8")),
        ("x86-64-avx2", "avx_vnni avx512_vnni amx_tile amx_int8", ("avx_vnni",)),
        ("generic", "avx_vnni", ()),
    ],
)
@pytest.mark.parametrize("permitted", [True, False])
def test_features_count_that_the_arch_and_linux_let_kernels_use(
    arch: str, flags: str, features: tuple[str, ...], permitted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_tiles_permitted", lambda: permitted)
    wanted = tuple(name for name in features if permitted or not name.startswith("amx"))
    assert _features(arch, flags) == wanted


@pytest.mark.parametrize(
    ("siblings", "quota", "cores"),
    [
        ({0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"}, None, 2),  # hyper-threads
        ({0: "0", 1: "1", 2: "2"}, "max 100000", 3),
        ({0: "0", 1: "1", 2: "2"}, "150000 100000", 2),  # a container that gets one and a half
        ({0: "0", 1: "1"}, "50000 100000", 1),
        ({4: None, 5: None}, "not a quota", 2),  # a machine that doesn't tell
    ],
)
def test_cores_are_neither_hyper_threads_nor_more_than_the_container_gets(
    siblings: dict[int, str | None], quota: str | None, cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(siblings))
    monkeypatch.setattr(module, "_CPUS", tmp_path)
    monkeypatch.setattr(module, "_QUOTA", tmp_path / "cpu.max")
    for cpu, listed in siblings.items():
        if listed is not None:
            (tmp_path / f"cpu{cpu}" / "topology").mkdir(parents=True)
            (tmp_path / f"cpu{cpu}" / "topology" / "thread_siblings_list").write_text(listed + "\n")
    if quota is not None:
        (tmp_path / "cpu.max").write_text(quota + "\n")
    assert _cores() == cores


def test_fields_of_cpuinfo() -> None:
    text = "processor\t: 0\nmodel\t\t: 167\nmodel name\t: A CPU @ 2 GHz\nmodel name\t: another\n"
    assert _field(text, "model name") == "A CPU @ 2 GHz"
    assert _field(text, "flags") == ""


def test_presets_by_arch() -> None:
    assert all(target.predicted and target.arch == arch for arch, target in CPU_PRESETS.items())
    assert cpu_preset("X86-64-AVX2") is CPU_PRESETS["x86-64-avx2"]
    assert cpu_preset("x86-64-avx512").lanes == 16
    with pytest.raises(UsageError, match="allowed are x86-64-avx512"):
        cpu_preset("sse4")


def test_the_ceiling_counts_cores_lanes_and_pipes() -> None:
    assert CPU_PRESETS["generic"].fp32_gflops == 8.0  # 1 core, 4 lanes, 1 FMA a cycle, 1 GHz
