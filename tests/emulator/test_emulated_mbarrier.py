"""mbarriers, named barriers and setmaxnreg: who waits for whom, and what a wrong count is told as."""

import numpy as np
import pytest
from emulated import nvrtc_log, one_kernel

from im2wingen.emulator import EmulatedKernel
from im2wingen.errors import CompileError, EmulatorError

ONE = (1, 1, 1)
INCLUDES = ("ptx/mbarrier.cuh", "ptx/named_barrier.cuh", "ptx/setmaxnreg.cuh")
SEEDS = (0, 1, 2, 3, 4)
START = """
  __shared__ uint64_t barrier[2];
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&barrier[0], ARRIVALS);
    ptx::mbarrier_init(&barrier[1], ARRIVALS);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
"""
WAIT = "while (!ptx::mbarrier_try_wait_parity(&barrier[0], {})) {{}}"


def run(body: str, threads: int, elements: int = 1, *, seed: int = 0, arrivals: int = 32) -> np.ndarray:
    source = one_kernel("int* y", body, includes=INCLUDES, ARRIVALS=arrivals)
    nvrtc_log(source, "sm_90a")
    y = np.zeros(elements, np.int32)
    EmulatedKernel(source).launch(ONE, threads, 0, [y], seed, timeout_s=60)
    return y


@pytest.mark.parametrize("seed", SEEDS)
def test_a_ring_of_one(seed: int) -> None:
    """Producer warp and consumer warp hand a value over ten times; parity 1 of a fresh barrier is over at once."""
    body = (
        START
        + """
  uint64_t *full = &barrier[0], *empty = &barrier[1];
  volatile __shared__ int slot[32];
  for (uint32_t i = 0; i < 10; ++i) {
    if (threadIdx.x < 32) {
      while (!ptx::mbarrier_try_wait_parity(empty, i % 2 ^ 1)) {}
      slot[threadIdx.x] = i * 100 + threadIdx.x;
      ptx::mbarrier_arrive(full);
    } else {
      while (!ptx::mbarrier_try_wait_parity(full, i % 2)) {}
      y[i * 32 + threadIdx.x - 32] = slot[63 - threadIdx.x];
      ptx::mbarrier_arrive(empty);
    }
  }"""
    )
    y = run(body, 64, 320, seed=seed)
    np.testing.assert_array_equal(y.reshape(10, 32), np.arange(10)[:, None] * 100 + np.arange(31, -1, -1))


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (
            START + "if (threadIdx.x) ptx::mbarrier_arrive(&barrier[0]);" + WAIT.format(0),
            r"threads 0-31 wait in mbarrier.try_wait.parity \(parity 0, 31 of 32 arrivals, 0 bytes to come, "
            r"mbarrier at byte \d+ of static shared",
        ),
        (
            START + "ptx::mbarrier_arrive_expect_tx(&barrier[0], threadIdx.x ? 0 : 16);" + WAIT.format(0),
            "deadlock.*32 of 32 arrivals, 16 bytes to come",
        ),
        (
            START + "for (int i = 0; i < 2; ++i) ptx::mbarrier_arrive_expect_tx(&barrier[0], 16);",
            "mbarrier.arrive.expect_tx: more arrivals than the phase has",
        ),
        (START + "ptx::mbarrier_init(&barrier[0], 1);", "mbarrier.init of a barrier in use"),
        (START + WAIT.format(2), "a parity of 2"),
        (
            "__shared__ uint64_t barrier; ptx::mbarrier_arrive(&barrier);",
            "mbarrier.arrive: no mbarrier was initialised",
        ),
        ("ptx::mbarrier_init(reinterpret_cast<uint64_t*>(y), 1);", "the barrier is outside shared memory"),
        (START.replace("ptx::fence_mbarrier_init();", "") + WAIT.format(1), "no fence.mbarrier_init followed the init"),
        (
            START.replace("__syncthreads();", "__syncwarp();") + WAIT.format(1),
            "no barrier of the CTA followed the init",
        ),
        (
            START + "if (threadIdx.x == 0) barrier[0] = 5; __syncwarp();" + WAIT.format(1),
            "the mbarrier was overwritten at byte .* of static shared memory",
        ),
    ],
)
def test_misuse(body: str, sentence: str) -> None:
    with pytest.raises(EmulatorError, match=sentence):
        run(body, 32)


@pytest.mark.parametrize("seed", SEEDS)
def test_named_barriers_of_a_producer_and_two_consumers(seed: int) -> None:
    """Warp 0 writes and arrives, warps 1 and 2 wait; they arrive in turn when the slot is free."""
    body = """
  volatile __shared__ int slot[32];
  for (int i = 0; i < 6; ++i) {
    if (threadIdx.x < 32) {
      if (i > 0) ptx::barrier_sync(2, 96);
      slot[threadIdx.x] = i * 100 + threadIdx.x;
      ptx::barrier_arrive(1, 96);
    } else {
      ptx::barrier_sync(1, 96);
      y[i * 64 + threadIdx.x - 32] = slot[31 - threadIdx.x % 32];
      if (i < 5) ptx::barrier_arrive(2, 96);
    }
  }"""
    y = run(body, 96, 6 * 64, seed=seed).reshape(6, 2, 32)
    np.testing.assert_array_equal(y, np.arange(6)[:, None, None] * 100 + np.arange(31, -1, -1)[None, None].repeat(2, 1))


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("ptx::barrier_sync(1, 96);", "deadlock: threads 0-63 wait in bar 1"),
        (
            "if (threadIdx.x < 32) ptx::barrier_arrive(3, 64); else ptx::barrier_sync(3, 32);",
            "bar 3 of 32 threads, while",
        ),
        ("ptx::barrier_arrive(1, 96); ptx::barrier_sync(1, 96);", "comes to bar 1 a second time"),
        ("ptx::barrier_sync(16, 64);", "there are 0 to 15"),
        ("ptx::barrier_sync(1, 40);", "bar 1 of 40 threads; it takes whole warps"),
        ("if (threadIdx.x < 32) ptx::barrier_arrive(0, 96); __syncthreads();", "bar 0, which is the same barrier"),
        ("if (threadIdx.x >= 32) ptx::barrier_sync(0, 64); else __syncthreads();", "bar 0 is that of __syncthreads"),
    ],
)
def test_misuse_of_named_barriers(body: str, sentence: str) -> None:
    with pytest.raises(EmulatorError, match=sentence):
        run(body, 64)


def test_a_named_barrier_makes_an_mbarrier_known() -> None:
    body = START.replace("__syncthreads();", "ptx::barrier_sync(1, 64);") + WAIT.format(1) + "y[0] = 1;"
    assert run(body, 64)[0] == 1


def test_setmaxnreg() -> None:
    body = "if (threadIdx.x < 128) ptx::setmaxnreg_dec<24>(); else ptx::setmaxnreg_inc<240>(); y[threadIdx.x] = 1;"
    source = one_kernel("int* y", body, includes=INCLUDES)
    y = np.zeros(256, np.int32)
    EmulatedKernel(source).launch(ONE, 256, 0, [y])
    assert (y == 1).all()
    for registers in (16, 260, 100):
        with pytest.raises(CompileError, match="setmaxnreg takes 24 to 256 registers"):
            EmulatedKernel(one_kernel("int* y", f"ptx::setmaxnreg_inc<{registers}>();", includes=INCLUDES))
