"""What a kernel must not do is told as an EmulatorError that says who did what; the test process lives on."""

import numpy as np
import pytest
from emulated import one_kernel

from im2wingen.emulator import EmulatedKernel
from im2wingen.errors import CompileError, EmulatorError
from im2wingen.render import Source

ONE = (1, 1, 1)
CP_ASYNC = ("ptx/cp_async.cuh",)
LDMATRIX_MMA = ("ptx/ldmatrix.cuh", "ptx/mma.cuh", "ptx/stmatrix.cuh")


def launch(source: Source, threads: int, elements: int = 4, *, smem_bytes: int = 0, sanitize: bool = False) -> None:
    """Run a kernel of one float array of `elements` zeros as one CTA."""
    y = np.zeros(elements, np.float32)
    EmulatedKernel(source, sanitize=sanitize).launch(ONE, threads, smem_bytes, [y], timeout_s=60)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("y[4] = 1.0f;", "0 bytes past the end of argument 0"),
        ("y[1 << 17] = 1.0f;", "524272 bytes past the end of argument 0"),
        ("y[-1] = 1.0f;", "1 bytes before the start of argument 0 were written"),
        ("y[-2000] = 1.0f;", "8000 bytes before the start of argument 0"),
        ("*reinterpret_cast<volatile int*>(8) = 1;", "access to address 0x8"),
        ("y[0] = float(7 / int(y[1]));", "integer division by zero"),
        ("volatile float a[100000]; a[0] = y[0]; y[1] = a[0] + a[99999];", "the end of the thread's stack"),
        ("__trap();", "__trap"),
    ],
)
def test_fault_of_a_thread(body: str, sentence: str) -> None:
    with pytest.raises(EmulatorError, match=sentence):
        launch(one_kernel("float* y", body), 1)


def test_a_write_below_16_bytes_past_an_array_is_found_by_its_guard() -> None:
    with pytest.raises(EmulatorError, match="0 bytes past the end of argument 0 were written"):
        launch(one_kernel("float* y", "y[3] = 1.0f;"), 1, elements=3)


def test_the_message_says_which_thread_of_which_block() -> None:
    source = one_kernel("float* y", "if (blockIdx.x == 2 && threadIdx.y == 1 && threadIdx.x == 3) __trap();")
    with pytest.raises(EmulatorError, match=r"test_kernel: block \(2,0,0\) thread \(3,1,0\): __trap"):
        EmulatedKernel(source).launch((4, 1, 1), (8, 2, 1), 0, [np.zeros(1, np.float32)])


def test_read_only_array() -> None:
    y = np.zeros(4, np.float32)
    y.flags.writeable = False
    with pytest.raises(EmulatorError, match="argument 0, which is read-only"):
        EmulatedKernel(one_kernel("float* y", "y[1] = 1.0f;")).launch(ONE, 1, 0, [y])


def test_arrays_keep_their_values_when_a_launch_fails() -> None:
    y = np.ones(4, np.float32)
    with pytest.raises(EmulatorError):
        EmulatedKernel(one_kernel("float* y", "y[0] = 2.0f; __trap();")).launch(ONE, 1, 0, [y])
    assert (y == 1).all()


@pytest.mark.parametrize(("index", "where"), [(10, "0 bytes past"), (256, "984 bytes past")])
def test_write_past_dynamic_shared_memory(index: int, where: str) -> None:
    body = f"IM2WINGEN_DYNAMIC_SMEM(smem); reinterpret_cast<float*>(smem)[{index}] = 1.0f;"
    with pytest.raises(EmulatorError, match=f"{where} the end of dynamic shared memory"):
        launch(one_kernel("float* y", body), 1, smem_bytes=40)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("ptx::cp_async_cg_16(smem + 8, y, true);", "cp.async.cg 16: the destination is not aligned to 16 bytes"),
        ("ptx::cp_async_cg_16(smem, y + 1, true);", "cp.async.cg 16: the source is not aligned to 16 bytes"),
        ("ptx::cp_async_ca_8(smem, y + 1, true);", "cp.async.ca 8: the source is not aligned to 8 bytes"),
        ("ptx::cp_async_ca_4(smem + 64, y, true);", "outside shared memory: 0 bytes past the end of dynamic shared"),
        ("ptx::cp_async_ca_4(y, y, true);", "outside shared memory: byte 0 of argument 0"),
        ("ptx::cp_async_ca_4(smem, y, true); ptx::cp_async_commit_group();", "ended with cp.async copies in flight"),
        ("ptx::cp_async_ca_4(smem, y, true); ptx::cp_async_wait_group<0>();", "ended with cp.async copies in flight"),
    ],
)
def test_cp_async(body: str, sentence: str) -> None:
    source = one_kernel("float* y", "IM2WINGEN_DYNAMIC_SMEM(smem);" + body, includes=CP_ASYNC)
    with pytest.raises(EmulatorError, match=sentence):
        launch(source, 1, smem_bytes=64)


def test_a_copy_lands_at_its_wait_and_not_before() -> None:
    body = """
  IM2WINGEN_DYNAMIC_SMEM(smem);
  const float* copied = reinterpret_cast<const float*>(smem);
  ptx::cp_async_ca_4(smem, y, true);
  ptx::cp_async_commit_group();
  ptx::cp_async_ca_4(smem + 4, y, false);  // zero fill; the source is not read
  ptx::cp_async_commit_group();
  y[1] = copied[0];
  ptx::cp_async_wait_group<1>();
  y[2] = copied[0];
  y[3] = copied[1];
  ptx::cp_async_wait_group<0>();
  y[4] = copied[1];"""
    y = np.full(5, 7, np.float32)
    EmulatedKernel(one_kernel("float* y", body, includes=CP_ASYNC)).launch(ONE, 1, 64, [y])
    np.testing.assert_array_equal(y, np.array([7, np.nan, 7, np.nan, 0], np.float32))


MMA_OPERANDS = "float d[4] = {}; uint32_t a[4] = {}, b[2] = {}; IM2WINGEN_DYNAMIC_SMEM(smem);"


@pytest.mark.parametrize(
    ("body", "threads", "sentence"),
    [
        ("ptx::ldmatrix_x4(a, smem + 8);", 32, "ldmatrix.x4: the row is not aligned to 16 bytes"),
        ("ptx::ldmatrix_x4(a, smem + 1024);", 32, "ldmatrix.x4: the row is outside shared memory"),
        ("ptx::ldmatrix_x4(a, y);", 32, "ldmatrix.x4: the row is outside shared memory"),
        ("ptx::stmatrix_x2_trans(smem + 8, b);", 32, "stmatrix.x2.trans: the row is not aligned to 16 bytes"),
        ("ptx::stmatrix_x4(smem + 1024, a);", 32, "stmatrix.x4: the row is outside shared memory"),
        ("ptx::mma_m16n8k16_f32_f16(d, a, b);", 16, "needs all 32 lanes"),
        ("if (threadIdx.x < 9) return; ptx::mma_m16n8k16_f32_f16(d, a, b);", 32, "needs all 32 lanes"),
        ("if (threadIdx.x > 9) return; ptx::mma_m16n8k16_f32_f16(d, a, b);", 32, "ended while other lanes"),
        (
            "if (threadIdx.x < 9) ptx::ldmatrix_x4(a, smem); else ptx::mma_m16n8k16_f32_f16(d, a, b);",
            32,
            "mma.m16n8k16.f16 with mask ffffffff, while other lanes of the warp are in ldmatrix.x4",
        ),
    ],
)
def test_warp_instruction(body: str, threads: int, sentence: str) -> None:
    source = one_kernel("float* y", MMA_OPERANDS + body, includes=LDMATRIX_MMA)
    with pytest.raises(EmulatorError, match=sentence):
        launch(source, threads, smem_bytes=1024)


@pytest.mark.parametrize(
    ("body", "threads", "sentence"),
    [
        (
            "if (threadIdx.x >= 64) return; if (threadIdx.x % 32 < 8) __syncthreads(); else __syncwarp();",
            96,
            r"block \(0,0,0\): deadlock: threads 0-7, 32-39 wait in __syncthreads; threads 8-31, 40-63 wait in "
            r"__syncwarp; threads 64-95 ended",
        ),
        ("if (threadIdx.x == 5) __syncthreads(); else __syncwarp();", 32, "thread 5 wait in __syncthreads"),
        ("if (threadIdx.x < 5) __syncwarp(); else __shfl_sync(~0u, 1, 0);", 32, "while other lanes of the warp are in"),
        (
            "if (threadIdx.x < 5) __syncthreads(); else __syncthreads_or(1);",
            32,
            "while other threads of the CTA",
        ),
        ("__shfl_sync(0xffu, 1, 9);", 8, "__shfl_sync reads lane 9, which takes no part in it"),
        ("__syncwarp(0xf0u);", 8, "lane 0 is not in its own mask 000000f0"),
    ],
)
def test_divergence(body: str, threads: int, sentence: str) -> None:
    with pytest.raises(EmulatorError, match=sentence):
        launch(one_kernel("float* y", body), threads)


def test_threads_that_ended_are_not_waited_for() -> None:
    body = """
  if (threadIdx.x == 3 || threadIdx.x >= 40) return;
  __syncwarp();
  __syncthreads();
  y[threadIdx.x] = 1.0f;"""
    y = np.zeros(64, np.float32)
    EmulatedKernel(one_kernel("float* y", body)).launch(ONE, 64, 0, [y])
    np.testing.assert_array_equal(np.flatnonzero(y == 0), [3, *range(40, 64)])


def test_endless_loop_ends_at_the_time_limit() -> None:
    source = one_kernel("volatile float* y", "while (y[0] == 0.0f) {}")
    with pytest.raises(EmulatorError, match=r"no end within 0\.2 s"):
        EmulatedKernel(source).launch(ONE, 1, 0, [np.zeros(1, np.float32)], timeout_s=0.2)


def test_launch_that_does_not_fit_the_kernel() -> None:
    kernel = EmulatedKernel(one_kernel("float* y, int n", "y[0] = n;"))
    y = np.zeros(1, np.float32)
    with pytest.raises(EmulatorError, match="takes 2 arguments, the launch gives 1"):
        kernel.launch(ONE, 1, 0, [y])
    with pytest.raises(EmulatorError, match="argument 1 of the kernel has 4 bytes, the launch gives 8"):
        kernel.launch(ONE, 1, 0, [y, np.int64(3)])
    with pytest.raises(EmulatorError, match="a block of 1056 threads"):
        kernel.launch(ONE, 1056, 0, [y, np.int32(3)])


def test_text_that_does_not_compile() -> None:
    with pytest.raises(CompileError, match="undeclared_name") as caught:
        EmulatedKernel(one_kernel("float* y", "y[0] = undeclared_name;"))
    assert ">" in caught.value.excerpt
    assert "y[0] = undeclared_name;" in caught.value.excerpt


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("y[0] = y[3];", "0 bytes past the end of argument 0"),  # below a float, so only a sanitizer sees the read
        ("*reinterpret_cast<float2*>(y + 1) = make_float2(0, 0);", "misaligned address"),
        ("IM2WINGEN_DYNAMIC_SMEM(smem); y[0] = smem[40];", "0 bytes past the end of dynamic shared memory"),
        ("__shared__ float s[4]; s[threadIdx.x] = y[0]; y[1] = (s + 4)[threadIdx.x];", "insufficient space"),
        ("y[0] = float(int(y[1]) + 0x7fffffff + int(y[2] + 1));", "signed integer overflow"),
    ],
)
def test_sanitizers(body: str, sentence: str) -> None:
    with pytest.raises(EmulatorError, match=sentence):
        launch(one_kernel("float* y", body), 1, elements=3, smem_bytes=40, sanitize=True)
