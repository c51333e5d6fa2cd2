"""cp.async.bulk and cache policies in the emulator: what is copied, when, and what goes wrong in between."""

import numpy as np
import pytest
from emulated import load, nvrtc_log, one_kernel

from im2wingen.emulator import EmulatedKernel
from im2wingen.errors import EmulatorError

ONE = (1, 1, 1)
X = np.arange(1, 129, dtype=np.uint32) * 0x01020304


def run(mutant: int = 0, *, seed: int = 0, sanitize: bool = False) -> np.ndarray:
    source = load("bulk_copy", MUTANT=mutant)
    nvrtc_log(source, "sm_90a")
    y = np.zeros_like(X)
    EmulatedKernel(source, sanitize=sanitize).launch(ONE, 32, 2048, [X, y], seed)
    return y


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_bytes_arrive(seed: int) -> None:
    wanted = X.copy()
    wanted[::8] = ~X[::8]
    np.testing.assert_array_equal(run(seed=seed, sanitize=seed == 0), wanted)


def test_bytes_are_poison_until_they_have_landed() -> None:
    words = run(1).reshape(-1, 4)
    assert (words[:, 1:] == 0xFFFFFFFF).all()


@pytest.mark.parametrize(
    ("mutant", "sentence"),
    [
        (2, "16 bytes more landed than were expected"),
        (3, "deadlock: .*1 of 1 arrivals, 16 bytes to come"),
        (4, "threads have written where it goes and no fence.proxy.async followed"),
        (5, "another load is under way to where it goes"),
    ],
)
def test_mutant_that_is_told(mutant: int, sentence: str) -> None:
    with pytest.raises(EmulatorError, match=sentence):
        run(mutant)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("ptx::cp_async_bulk_load(smem, x + 8, 32, barrier);", "must be multiples of 16"),
        ("ptx::cp_async_bulk_load(smem, x, 24, barrier);", "must be multiples of 16"),
        ("ptx::cp_async_bulk_load(smem, x, 0, barrier);", "the size not 0"),
        ("ptx::cp_async_bulk_load(smem + 8, x, 32, barrier);", "shared memory is not aligned to 16 bytes"),
        ("ptx::cp_async_bulk_load(smem, x + 496, 32, barrier);", "of 32 bytes leaves its array"),
        ("ptx::cp_async_bulk_load(smem + 1008, x, 32, barrier);", "outside shared memory"),
        ("ptx::cp_async_bulk_load(smem, x, 32, barrier + 1);", "no mbarrier was initialised"),
        ("ptx::cp_async_bulk_load(smem, x, 32, barrier);", "ended with bulk loads in flight"),
        ("ptx::cp_async_bulk_load_hint(smem, x, 32, barrier, 1);", "1 is no cache policy"),
        ("ptx::cp_async_bulk_prefetch_l2_hint(x + 496, 32, ptx::createpolicy_evict_last());", "leaves its array"),
        ("ptx::cp_async_bulk_prefetch_l2_hint(x, 32, 0);", "0 is no cache policy"),
        ("ptx::cp_async_bulk_store(y + 8, smem, 32);", "must be multiples of 16"),
        ("ptx::cp_async_bulk_store(y, smem + 8, 32);", "shared memory is not aligned to 16 bytes"),
        ("ptx::cp_async_bulk_store(y + 496, smem, 32);", "of 32 bytes leaves its array"),
        ("ptx::cp_async_bulk_store(y, smem, 32);", "ended before its TMA stores had read shared memory"),
        ("ptx::cp_async_bulk_store_hint(y, smem, 32, 7);", "7 is no cache policy"),
        ("ptx::cp_async_bulk_store_hint(y + 8, smem, 32, ptx::createpolicy_evict_first());", "must be multiples of 16"),
        ("ptx::st_global_hint(y + 2, 1, ptx::createpolicy_evict_first());", "a misaligned st.global"),
        ("ptx::st_global_hint(y, 1, 5);", "5 is no cache policy"),
        ("ptx::st_global_v4_hint(y + 8, {1, 2, 3, 4}, ptx::createpolicy_evict_first());", "a misaligned st.global.v4"),
    ],
)
def test_misuse(body: str, sentence: str) -> None:
    source = one_kernel(
        "const unsigned char* x, unsigned char* y",
        "IM2WINGEN_DYNAMIC_SMEM(smem);\n"
        "uint64_t* barrier = reinterpret_cast<uint64_t*>(smem + 512);\n"
        f"ptx::mbarrier_init(barrier, 1);\nptx::fence_mbarrier_init();\n{body}",
        includes=("ptx/mbarrier.cuh", "ptx/bulk_copy.cuh", "ptx/cache_policy.cuh"),
    )
    with pytest.raises(EmulatorError, match=sentence):
        EmulatedKernel(source).launch(ONE, 1, 1024, [X, np.zeros_like(X)])
