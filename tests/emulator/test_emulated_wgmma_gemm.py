"""A warp-specialised matrix product of TMA, mbarriers, wgmma and stmatrix: right in every order, wrong if broken."""

import numpy as np
import pytest
from emulated import load, nvrtc_log

from im2wingen.emulator import EmulatedKernel
from im2wingen.errors import EmulatorError
from im2wingen.families.base import TensorMap

STEP = 64  # of k
MUTANTS = range(1, 11)


def tensor_map(dims: tuple[int, int], box: tuple[int, int]) -> TensorMap:
    """Of a dense fp16 matrix, its rows of dims[0]."""
    strides = (dims[0] * 2, dims[0] * dims[1] * 2)
    return TensorMap(array="", element="fp16", dims=(*dims, 1), strides_bytes=strides, box=(*box, 1), swizzle_bytes=128)


def run(m: int, n: int, k: int, wgmma_n: int, *, seed: int = 0, mutant: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The product as the kernel gives it, from NaN, and as it is."""
    source = load("wgmma_gemm", WGMMA_N=wgmma_n, MUTANT=mutant)
    if mutant == 0 and seed == 0:
        nvrtc_log(source, "sm_90a")
    rng = np.random.default_rng(n)
    a, b = (rng.integers(-3, 4, (rows, k)).astype(np.float16) for rows in (m, n))
    a.flags.writeable = b.flags.writeable = False
    y = np.full((n, m), np.nan, np.float16)
    maps = [
        (tensor_map((k, m), (STEP, 128)), a),
        (tensor_map((k, n), (STEP, wgmma_n)), b),
        (tensor_map((m, n), (64, wgmma_n)), y),
    ]
    smem_bytes = 3 * (128 + wgmma_n) * 128 + 2 * wgmma_n * 128 + 64
    tiles_n, steps = -(-n // wgmma_n), -(-k // STEP)
    EmulatedKernel(source).launch(
        (-(-m // 128), 1, 1), 384, smem_bytes, [maps, np.int32(tiles_n), np.int32(steps)], seed, timeout_s=60
    )
    return y, b.astype(np.float32) @ a.astype(np.float32).T


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4])
@pytest.mark.parametrize(
    ("m", "n", "k", "wgmma_n"),
    [
        (128, 120, 448, 40),  # three tiles of seven steps through three stages; an odd count of groups of 8
        (200, 100, 40, 64),  # m, n and k inside their last tile
    ],
)
def test_product(m: int, n: int, k: int, wgmma_n: int, seed: int) -> None:
    np.testing.assert_array_equal(*run(m, n, k, wgmma_n, seed=seed))


def test_as_many_pixels_as_a_tile_of_the_family() -> None:
    np.testing.assert_array_equal(*run(256, 352, 1152, 176))


@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutant(mutant: int) -> None:
    """Each is found in the first order of threads that is tried or in one of the next two."""
    for seed in (0, 1, 2):
        try:
            y, expected = run(128, 120, 448, 40, seed=seed, mutant=mutant)
        except EmulatorError:
            return
        if not np.array_equal(y, expected):
            return
    pytest.fail(f"mutant {mutant} was not found")
