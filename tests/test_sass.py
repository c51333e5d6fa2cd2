import dataclasses

import pytest
from cuda import pathfinder

from im2wingen.errors import Im2wingenError
from im2wingen.nvrtc import Cubin, compile_cubin
from im2wingen.render import Source
from im2wingen.sass import disassemble, instruction_counts, usage_summary

# One mma.sync, one predicated global store, nothing else that reads or writes global memory twice.
MMA = Source(
    "one_mma",
    """
    extern "C" __global__ void one_mma(const unsigned* x, float* y) {
      float d[4] = {0.f, 0.f, 0.f, 0.f};
      unsigned a = x[threadIdx.x];
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                   "{%0,%1,%2,%3}, {%4,%4,%4,%4}, {%4,%4}, {%0,%1,%2,%3};"
                   : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a));
      if (d[0] > 1.f) y[threadIdx.x] = d[0];
    }
    """,
)


@pytest.fixture(scope="module", params=["sm_80", "sm_90a", "sm_120a"])
def cubin(request: pytest.FixtureRequest) -> Cubin:
    return compile_cubin(MMA, request.param)


def test_counts_by_name_without_suffixes(cubin: Cubin) -> None:
    counts = instruction_counts(cubin)
    assert counts["HMMA"] == 1
    assert counts["LDG"] == 1
    assert counts["STG"] == 1  # may stand behind a predicate
    assert counts["EXIT"] >= 1
    assert "STL" not in counts
    assert "LDL" not in counts


def test_listing_shows_the_full_names(cubin: Cubin) -> None:
    assert "HMMA.16816.F32" in disassemble(cubin)


def test_spills_show_as_local_memory() -> None:
    text = """
    extern "C" __global__ void __launch_bounds__(1024, 2) spilling(const float* x, float* y) {
      float live[200];
    #pragma unroll
      for (int i = 0; i < 200; ++i) live[i] = x[i * 1024 + threadIdx.x];
      __syncthreads();
    #pragma unroll
      for (int i = 0; i < 200; ++i) y[i * 1024 + threadIdx.x] = live[i] * live[199 - i];
    }
    """
    counts = instruction_counts(compile_cubin(Source("spilling", text), "sm_90a"))
    assert counts["STL"] > 0
    assert counts["LDL"] > 0


def test_broken_image_is_one_error(cubin: Cubin) -> None:
    with pytest.raises(Im2wingenError, match="nvdisasm can't read one_mma"):
        disassemble(dataclasses.replace(cubin, image=b"not an ELF file"))


def test_missing_nvdisasm_names_the_package(cubin: Cubin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pathfinder, "find_nvidia_binary_utility", lambda _: None)
    with pytest.raises(Im2wingenError, match="pip install nvidia-cuda-nvdisasm"):
        instruction_counts(cubin)


def test_usage_summary_names_every_resource(cubin: Cubin) -> None:
    line = usage_summary(cubin)
    assert line.startswith(f"one_mma ({cubin.arch}): {cubin.num_regs} registers, 0 bytes spilled, 0 bytes stack")
    assert "\n" not in line
