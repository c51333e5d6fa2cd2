"""Target: what a kernel is generated for; presets for devices that are not here."""

import re
from dataclasses import dataclass

from im2wingen.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The facts about a GPU that rules, launch geometry and the cost model use."""

    name: str
    arch: str  # as NVRTC takes it: sm_80, sm_90a
    sm_count: int
    smem_per_block_bytes: int  # opt-in limit for dynamic shared memory
    smem_per_sm_bytes: int
    clock_mhz: int  # the clock that boosts reach
    l2_bytes: int
    dram_gbps: float  # 1e9 bytes a second, read plus write
    ffma_per_sm: int  # fp32 fused multiply-adds per clock and SM
    mma_fp16_tflops: float  # dense, through mma.sync, fp32 accumulation
    dfma_per_sm: int  # fp64 fused multiply-adds per clock and SM, of the CUDA cores
    dmma_per_sm: int  # likewise of the tensor cores
    wgmma_fp16_tflops: float = 0.0  # as mma_fp16_tflops, through wgmma, where there is such an instruction
    max_threads_per_sm: int = 2048
    max_blocks_per_sm: int = 32
    regs_per_sm: int = 65536
    predicted: bool = False  # a preset: nothing on it was measured

    @property
    def compute_capability(self) -> int:
        """80, 90, 120: the arch's number."""
        digits = re.sub(r"\D", "", self.arch)
        return int(digits)

    @property
    def fp32_tflops(self) -> float:
        """Ceiling of the CUDA cores."""
        return 2e-6 * self.ffma_per_sm * self.sm_count * self.clock_mhz

    @property
    def fp64_tflops(self) -> float:
        """Likewise in fp64."""
        return 2e-6 * self.dfma_per_sm * self.sm_count * self.clock_mhz

    def peak_tflops(self, precision: str) -> float:
        """The arithmetic ceiling for a precision, 1e12 flop a second, of the faster cores.

        Tensor cores make an fp32 product of three of 16-bit numbers, or of TF32 at half the rate; and a TF32 product of
        one of fp16, which has as many bits.
        """
        if precision == "tf32":
            return self.peak_tflops("fp16")
        if precision == "fp32":
            return max(self.fp32_tflops, self.peak_tflops("fp16") / _SPLIT_PRODUCTS)
        if precision == "fp64":
            return max(self.fp64_tflops, self.mma_sync_tflops("fp64"))
        return _RATE[precision] * max(self.mma_fp16_tflops, self.wgmma_fp16_tflops)

    def mma_sync_tflops(self, precision: str) -> float:
        """What mma.sync reaches of it."""
        if precision == "fp64":
            return 2e-6 * self.dmma_per_sm * self.sm_count * self.clock_mhz
        return _RATE[precision] * self.mma_fp16_tflops


_SPLIT_PRODUCTS = 3
_RATE = {"fp16": 1.0, "bf16": 1.0, "tf32": 0.5, "int8": 2.0, "e4m3": 2.0, "e5m2": 2.0}  # of tensor cores
_KIB = 1024
_MIB = 1024 * 1024


def _preset(
    arch: str, name: str, sms: int, smem: tuple[int, int], mhz: int, l2_mib: int, gbps: float, ffma: int,
    fp64: tuple[int, int], mma: float, threads: int = 2048, blocks: int = 32, wgmma: float = 0.0,
) -> Target:  # fmt: skip
    return Target(
        name=name, arch=arch, sm_count=sms, smem_per_block_bytes=smem[0] * _KIB, smem_per_sm_bytes=smem[1] * _KIB,
        clock_mhz=mhz, l2_bytes=l2_mib * _MIB, dram_gbps=gbps, ffma_per_sm=ffma, dfma_per_sm=fp64[0],
        dmma_per_sm=fp64[1], mma_fp16_tflops=mma, wgmma_fp16_tflops=wgmma, max_threads_per_sm=threads,
        max_blocks_per_sm=blocks, predicted=True,
    )  # fmt: skip


# Shared memory, threads and blocks per SM: CUDA programming guide, "Compute Capabilities". Clocks, SM counts, bandwidth
# and tensor rates: the vendor's data sheets; mma.sync on Hopper reaches about 5/8 of the wgmma rate.
PRESETS: dict[str, Target] = {
    t.arch: t
    for t in (
        _preset("sm_80", "NVIDIA A100", 108, (163, 164), 1410, 40, 2039, 64, (32, 64), 312),
        _preset("sm_86", "NVIDIA GeForce RTX 3090", 82, (99, 100), 1695, 6, 936, 128, (2, 2), 71, 1536, 16),
        _preset("sm_89", "NVIDIA GeForce RTX 4090", 128, (99, 100), 2520, 72, 1008, 128, (2, 2), 165, 1536, 24),
        _preset("sm_90a", "NVIDIA H200", 132, (227, 228), 1980, 60, 4800, 128, (64, 128), 620, wgmma=989),
        _preset("sm_100a", "NVIDIA B200", 148, (227, 228), 1965, 126, 8000, 128, (64, 64), 620),
        _preset("sm_120a", "NVIDIA GeForce RTX 5090", 170, (99, 100), 2407, 96, 1792, 128, (2, 2), 210, 1536, 24),
    )
}
DEFAULT_ARCH = "sm_90a"


def preset(arch: str) -> Target:
    """The stand-in for a device of `arch` (sm_90 means sm_90a); UsageError lists the known ones."""
    name = arch.lower()
    found = PRESETS.get(name) or PRESETS.get(name + "a")
    if found is None:
        raise UsageError(f"arch is {arch!r}; allowed are {', '.join(PRESETS)}")
    return found
