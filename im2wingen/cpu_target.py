"""CpuTarget: the CPU that a kernel is generated for; presets for CPUs that are not here."""

import ctypes
import os
import platform
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from im2wingen.errors import UsageError

_CPUINFO = Path("/proc/cpuinfo")
_CPUS = Path("/sys/devices/system/cpu")
_QUOTA = Path("/sys/fs/cgroup/cpu.max")  # of the container, in microseconds of so many
_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18
_KIB = 1024
_MIB = 1024 * 1024
_AVX512 = frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"})
_AVX2 = frozenset({"avx2", "bmi2", "f16c", "fma", "movbe"})
_FEATURES = {  # beyond what every CPU of the arch has
    "x86-64-avx512": ("amx_bf16", "amx_int8", "avx512_bf16", "avx512_vnni"), "x86-64-avx2": ("avx_vnni",)
}  # fmt: skip
_VECTORS = {"x86-64-avx512": (64, 32), "x86-64-avx2": (32, 16), "aarch64-neon": (16, 32), "generic": (16, 16)}


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTarget:
    """The facts about a CPU that rules, space and default of a CPU family use."""

    name: str  # the model's, as the CPU tells it
    arch: str  # x86-64-avx512, x86-64-avx2, aarch64-neon or generic: what the compiler may use
    cores: int  # that this process may use, a hyper-thread not counted as one
    l1_bytes: int  # data cache of one core
    l2_bytes: int  # of one core, or its share
    l3_bytes: int  # of all together; 0: none
    vector_bytes: int
    num_vector_registers: int
    fma_per_cycle: int  # vector instructions of one core
    clock_mhz: int
    features: tuple[str, ...] = ()  # that multiply bf16 and int8, by their names in /proc/cpuinfo
    predicted: bool = False  # a preset: nothing on it was measured

    @property
    def lanes(self) -> int:
        """fp32 numbers of a vector."""
        return self.vector_bytes // 4

    @property
    def fp32_gflops(self) -> float:
        """Ceiling of all cores at `clock_mhz`."""
        return self.gflops(4)

    def gflops(self, element_bytes: int) -> float:
        """The same for elements of so many bytes."""
        return 2e-3 * (self.vector_bytes // element_bytes) * self.fma_per_cycle * self.cores * self.clock_mhz


def _preset(
    arch: str, name: str, cores: int, l1_kib: int, l2_kib: int, l3_mib: int, fma_per_cycle: int, mhz: int,
    features: tuple[str, ...] = (),
) -> CpuTarget:  # fmt: skip
    vector_bytes, registers = _VECTORS[arch]
    return CpuTarget(
        name=name, arch=arch, cores=cores, l1_bytes=l1_kib * _KIB, l2_bytes=l2_kib * _KIB, l3_bytes=l3_mib * _MIB,
        vector_bytes=vector_bytes, num_vector_registers=registers, fma_per_cycle=fma_per_cycle, clock_mhz=mhz,
        features=features, predicted=True,
    )  # fmt: skip


# Caches and clocks under vector load: the vendors' data sheets.
CPU_PRESETS: dict[str, CpuTarget] = {
    target.arch: target
    for target in (
        _preset("x86-64-avx512", "Intel Xeon Platinum 8480+", 56, 48, 2048, 105, 2, 2600, _FEATURES["x86-64-avx512"]),
        _preset("x86-64-avx2", "AMD EPYC 7763", 64, 32, 512, 256, 2, 2450),
        _preset("aarch64-neon", "AWS Graviton3", 64, 64, 1024, 32, 4, 2600),
        _preset("generic", "generic", 1, 32, 256, 0, 1, 1000),
    )
}


def cpu_preset(arch: str) -> CpuTarget:
    """The stand-in for a CPU of `arch`; UsageError lists the known ones."""
    found = CPU_PRESETS.get(arch.lower())
    if found is None:
        raise UsageError(f"arch is {arch!r}; allowed are {', '.join(CPU_PRESETS)}")
    return found


@cache
def cpu_target() -> CpuTarget:
    """This machine's CPU; what it doesn't tell is the preset's of its arch."""
    text = _CPUINFO.read_text() if _CPUINFO.exists() else ""
    arch = _arch(platform.machine(), _field(text, "flags"))
    like, caches = CPU_PRESETS[arch], _caches()
    vector_bytes, registers = _VECTORS[arch]
    mhz = re.match(r"\d+", _field(text, "cpu MHz"))
    return CpuTarget(
        name=_field(text, "model name") or platform.processor() or platform.machine(),
        arch=arch, cores=_cores(),
        l1_bytes=caches.get(1, like.l1_bytes), l2_bytes=caches.get(2, like.l2_bytes),
        l3_bytes=caches.get(3, 0 if caches else like.l3_bytes),
        vector_bytes=vector_bytes, num_vector_registers=registers, fma_per_cycle=like.fma_per_cycle,
        clock_mhz=int(mhz[0]) if mhz else like.clock_mhz, features=_features(arch, _field(text, "flags")),
    )  # fmt: skip


def _arch(machine: str, flags: str) -> str:
    has = frozenset(flags.split())
    if machine in ("x86_64", "AMD64"):
        return "x86-64-avx512" if has >= _AVX512 | _AVX2 else "x86-64-avx2" if has >= _AVX2 else "generic"
    return "aarch64-neon" if machine in ("aarch64", "arm64") else "generic"


def _features(arch: str, flags: str) -> tuple[str, ...]:
    """Those that the CPU has, AMX only where the kernel lets this process use it."""
    has = set(flags.split())
    if "amx_tile" in has and not _tiles_permitted():
        has -= {"amx_bf16", "amx_int8"}
    return tuple(name for name in _FEATURES.get(arch, ()) if name in has)


def _tiles_permitted() -> bool:
    """Ask Linux for AMX's registers, which a process has to do once (Documentation/arch/x86/xstate.rst)."""
    syscall = ctypes.CDLL(None).syscall
    return bool(syscall(_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA) == 0)


def _cores() -> int:
    """Cores that this process may run on, and as many as its container's share of time pays for."""
    siblings = set()
    for cpu in os.sched_getaffinity(0):
        listed = _CPUS / f"cpu{cpu}" / "topology" / "thread_siblings_list"
        siblings.add(listed.read_text() if listed.exists() else str(cpu))
    quota, _, period = (_QUOTA.read_text().strip() if _QUOTA.exists() else "max").partition(" ")
    paid = -(-int(quota) // int(period)) if quota.isdigit() and period.isdigit() else len(siblings)
    return max(1, min(len(siblings), paid))


def _field(cpuinfo: str, name: str) -> str:
    """The first value of that name."""
    match = re.search(rf"^{re.escape(name)}\s*:\s*(.*)$", cpuinfo, re.MULTILINE)
    return match[1].strip() if match else ""


def _caches() -> dict[int, int]:
    """Bytes by level, of the caches that hold data and that the first core sees."""
    found = {}
    for folder in sorted(_CPUS.glob("cpu0/cache/index*")):
        kind, level, size = ((folder / name).read_text().strip() for name in ("type", "level", "size"))
        number = re.fullmatch(r"(\d+)([KMG]?)", size)
        if kind != "Instruction" and number:
            found[int(level)] = int(number[1]) * _KIB ** " KMG".index(number[2] or " ")
    return found
