"""TMA in the emulator against numpy: swizzles, boxes outside on every side; and what goes wrong in between."""

from dataclasses import replace

import numpy as np
import pytest
from emulated import load, nvrtc_log, one_kernel

from im2wingen.emulator import EmulatedKernel
from im2wingen.errors import EmulatorError
from im2wingen.families.base import TensorMap
from im2wingen.render import Source

ONE = (1, 1, 1)
DIMS = {3: (72, 7, 5), 4: (72, 3, 4, 5), 5: (72, 2, 3, 4, 3)}  # innermost first
BOX = {3: (64, 4, 3), 4: (64, 2, 3, 2), 5: (64, 1, 2, 3, 2)}
BELOW, ABOVE = (
    {3: (-8, -1, -1), 4: (-16, -1, -2, -1), 5: (-8, 0, -1, -2, -1)},
    {3: (24, 5, 4), 4: (40, 2, 3, 4), 5: (8, 1, 2, 3, 2)},
)


def tensor_map(rank: int, *, element: str = "fp16", swizzle_bytes: int = 128) -> TensorMap:
    """A dense tensor of DIMS and a box of BOX, the innermost sides cut to a row of the swizzle."""
    size = 4 if element in ("tf32", "fp32") else 2
    dims, box = DIMS[rank], BOX[rank]
    box = (min(box[0], (swizzle_bytes or 256) // size), *box[1:])
    strides = tuple(map(int, np.cumprod([dims[0] * size, *dims[1:-1]])))
    return TensorMap(
        array="", element=element, dims=dims, strides_bytes=strides, box=box, swizzle_bytes=swizzle_bytes
    )  # fmt: skip


def numbers(one: TensorMap) -> np.ndarray:
    """1, 2, 3 ... in the tensor's shape, of its element size; never zero. Of tf32: floats below 2, ties among them."""
    if one.element == "tf32":
        return (1 + np.arange(int(np.prod(one.dims)), dtype=np.float32) / 2**12).view(np.uint32).reshape(one.dims[::-1])
    unsigned = np.uint32 if one.element_bytes == 4 else np.uint16
    return (np.arange(int(np.prod(one.dims))) + 1).astype(unsigned).reshape(one.dims[::-1])


def box_at(x: np.ndarray, one: TensorMap, corner: tuple[int, ...]) -> np.ndarray:
    """The box, zeros outside of the tensor."""
    pads = [64, *[4] * (len(one.dims) - 1)]
    padded = np.pad(x, [(pad, pad) for pad in pads[::-1]])
    begins = [first + pad for first, pad in zip(corner, pads, strict=True)]
    return padded[tuple(slice(begin, begin + size) for begin, size in zip(begins, one.box, strict=True))[::-1]]


def laid_out(box: np.ndarray, one: TensorMap, offset: int) -> np.ndarray:
    """The 16-byte pieces of a box as they lie in shared memory from `offset` (of a 1024-byte pattern) on."""
    pieces = np.ascontiguousarray(box).view(np.uint8).reshape(-1, 16)
    addresses = offset + 16 * np.arange(len(pieces))
    mask = {0: 0, 32: 1, 64: 3, 128: 7}[one.swizzle_bytes]
    placed = np.empty_like(pieces)
    placed[((addresses ^ ((addresses >> 7 & mask) << 4)) - offset) // 16] = pieces
    return placed


def copy_kernel(rank: int, box_bytes: int, offset: int = 0, mutant: int = 0) -> Source:
    return load(
        "tma_copy", LOAD=f"cp_async_bulk_tensor_{rank}d_load", STORE=f"cp_async_bulk_tensor_{rank}d_store",
        COORDINATES=", ".join(f"corner[{i}]" for i in range(rank)),
        STORED=", ".join(f"corner[{i}] < 0 ? 0 : corner[{i}]" for i in range(rank)),
        BOX_BYTES=box_bytes, SMEM_OFFSET=offset,
        MUTANT=mutant,
    )  # fmt: skip


def run(
    one: TensorMap, corner: tuple[int, ...], *, seed: int = 0, offset: int = 0, mutant: int = 0, sanitize: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """What lay in shared memory, and the target, of 0xFF where nothing was stored."""
    rank, box_bytes = len(one.dims), int(np.prod(one.box)) * one.element_bytes
    source = copy_kernel(rank, box_bytes, offset, mutant)
    if mutant == 0:
        nvrtc_log(source, "sm_90a")
    x = numbers(one)
    x.flags.writeable = False
    y, raw = np.full_like(x, np.iinfo(x.dtype).max), np.zeros((box_bytes // 16, 16), np.uint8)
    smem_bytes = 1024 + 2 * (-(-box_bytes // 1024) * 1024) + 1024
    EmulatedKernel(source, sanitize=sanitize).launch(
        ONE, 64, smem_bytes, [[(one, x), (one, y)], np.array(corner, np.int32), raw], seed
    )
    return raw, y


def check(one: TensorMap, corner: tuple[int, ...], raw: np.ndarray, y: np.ndarray, offset: int = 0) -> None:
    x = numbers(one)
    box = box_at(x, one, corner)
    np.testing.assert_array_equal(raw, laid_out(box, one, offset))
    expected = np.full_like(x, np.iinfo(x.dtype).max)
    place = expected[
        tuple(slice(max(0, first), max(0, first) + size) for first, size in zip(corner, one.box, strict=True))[::-1]
    ]
    place[:] = box[tuple(map(slice, place.shape))]  # the store leaves out what lies beyond
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("corner", [(0, 0, 0), (8, 3, 2), BELOW[3], ABOVE[3], (-64, 0, 0), (0, 7, 0)])
@pytest.mark.parametrize("swizzle_bytes", [0, 32, 64, 128])
def test_boxes_of_every_swizzle(swizzle_bytes: int, corner: tuple[int, ...]) -> None:
    """Inside; up to the last element; before the first; beyond the last; all outside, either side."""
    one = tensor_map(3, swizzle_bytes=swizzle_bytes)
    check(one, corner, *run(one, corner))


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
@pytest.mark.parametrize("rank", [4, 5])
def test_ranks_and_seeds(rank: int, seed: int) -> None:
    one = tensor_map(rank)
    for corner in (BELOW[rank], ABOVE[rank]):
        check(one, corner, *run(one, corner, seed=seed))


@pytest.mark.parametrize("swizzle_bytes", [32, 64, 128])
def test_the_pattern_sits_on_the_address(swizzle_bytes: int) -> None:
    one = tensor_map(3, element="fp32", swizzle_bytes=swizzle_bytes)
    check(one, (8, 0, 0), *run(one, (8, 0, 0), offset=384), offset=384)


def test_a_load_of_tf32_rounds_to_nearest_even() -> None:
    one = tensor_map(3, element="tf32", swizzle_bytes=0)
    exact = numbers(one).view(np.float32).astype(np.float64)
    raw, _ = run(one, (0, 0, 0))
    loaded = raw.view(np.float32).reshape(one.box[::-1]).astype(np.float64)
    wanted = np.rint(exact * 2**10) / 2**10
    np.testing.assert_array_equal(loaded, box_at(wanted, one, (0, 0, 0)))
    assert (wanted != exact).any()


def test_an_offset_and_rows_that_overlap() -> None:
    """Rows of 64 that begin 16 elements apart; the tensor begins 32 bytes into its array."""
    one = TensorMap(
        array="", element="fp16", offset_bytes=32, dims=(64, 6, 1), strides_bytes=(32, 256), box=(64, 8, 1),
        swizzle_bytes=0,
    )  # fmt: skip
    y_map = replace(one, offset_bytes=0, strides_bytes=(128, 1024))
    x, y = np.arange(16 + 5 * 16 + 64, dtype=np.uint16), np.zeros((6, 64), np.uint16)
    source = copy_kernel(3, 1024)
    arguments = [[(one, x), (y_map, y)], np.zeros(3, np.int32), np.zeros(1024, np.uint8)]
    EmulatedKernel(source).launch(ONE, 64, 4096, arguments)
    np.testing.assert_array_equal(y, 16 + 16 * np.arange(6)[:, None] + np.arange(64))


@pytest.mark.parametrize("sanitize", [False, True])
def test_sanitized(sanitize: bool) -> None:
    one = tensor_map(3)
    check(one, ABOVE[3], *run(one, ABOVE[3], sanitize=sanitize))


@pytest.mark.parametrize(
    ("mutant", "sentence"),
    [
        (
            2,
            "16 bytes more landed than were expected: parity 0, 1 of 1 arrivals, -16 bytes to come, mbarrier at byte 0",
        ),
        (3, "deadlock: threads 0-63 wait in mbarrier.try_wait.parity .*1 of 1 arrivals, 16 bytes to come"),
        (4, "another load is under way to where it goes"),
        (5, "ended with bulk loads in flight"),
        (8, "threads have written where it goes and no fence.proxy.async followed"),
        (9, "ended before its TMA stores had read shared memory"),
    ],
)
def test_mutant_that_is_told(mutant: int, sentence: str) -> None:
    with pytest.raises(EmulatorError, match=sentence):
        run(tensor_map(3), (0, 0, 0), mutant=mutant)


@pytest.mark.parametrize("mutant", [1, 6, 7, 10])
def test_mutant_that_gives_poison(mutant: int) -> None:
    """Wrong parity; no proxy fence; no barrier before the store; overwritten before the store has read."""
    one = tensor_map(3)
    raw, y = run(one, (0, 0, 0), mutant=mutant)
    x = numbers(one)
    box = box_at(x, one, (0, 0, 0))
    assert (raw != laid_out(box, one, 0)).any() == (mutant == 1)
    stored = box_at(y, one, (0, 0, 0))
    differs = stored != box
    assert differs.any()
    assert (stored[differs] == 0xFFFF).all()


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("ptx::cp_async_bulk_tensor_3d_load(smem + 64, &map, barrier, 0, 0, 0);", "not aligned to 128 bytes"),
        (
            "ptx::cp_async_bulk_tensor_3d_load(smem + 1024, &map, barrier, 0, 0, 0);",
            "outside shared memory: byte 1024 of",
        ),
        ("ptx::cp_async_bulk_tensor_3d_load(smem, &map, barrier, -4, 0, 0);", "coordinate 0 is -4; a box begins"),
        ("ptx::cp_async_bulk_tensor_4d_load(smem, &map, barrier, 0, 0, 0, 0);", "with a tensor map of rank 3"),
        ("ptx::cp_async_bulk_tensor_3d_load(smem, &map, barrier + 1, 0, 0, 0);", "no mbarrier was initialised"),
        ("ptx::prefetch_tensormap(reinterpret_cast<ptx::TensorMap*>(smem));", "prefetch.tensormap: .* no tensor map"),
        ("ptx::cp_async_bulk_tensor_3d_store(&map, smem, 0, -1, 0);", "coordinate 1 is -1; a store can't begin before"),
        (
            "ptx::fence_proxy_async_shared_cta(); ptx::cp_async_bulk_tensor_3d_store(&map, smem, 0, 0, 0);"
            "ptx::cp_async_bulk_commit_group(); ptx::cp_async_bulk_wait_group<0>();",
            "byte 0 of argument 0 map 0, which is read-only",
        ),
    ],
)
def test_misuse(body: str, sentence: str) -> None:
    start = """
  IM2WINGEN_DYNAMIC_SMEM(smem);
  __shared__ uint64_t barrier[2];
  ptx::mbarrier_init(barrier, 1);
  ptx::fence_mbarrier_init();
"""
    source = one_kernel(
        "const __grid_constant__ ptx::TensorMap map", start + body, includes=("ptx/mbarrier.cuh", "ptx/tma.cuh")
    )
    one = tensor_map(3)
    x = numbers(one)
    x.flags.writeable = False
    with pytest.raises(EmulatorError, match=sentence):
        EmulatedKernel(source).launch(ONE, 1, 1536, [[(one, x)]])


def test_a_tensor_that_ends_past_its_array() -> None:
    source = one_kernel("const __grid_constant__ ptx::TensorMap map", "", includes=("ptx/tma.cuh",))
    one = tensor_map(3)
    with pytest.raises(EmulatorError, match="tensor map 0 ends 2 bytes past the end of argument 0 map 0"):
        EmulatedKernel(source).launch(ONE, 1, 0, [[(one, np.zeros(72 * 7 * 5 - 1, np.float16))]])


def test_rows_shorter_than_their_swizzle() -> None:
    """Where a device puts them has not been measured."""
    with pytest.raises(EmulatorError, match="rows of 64 bytes in a swizzle of 128 are not emulated"):
        run(replace(tensor_map(3), box=(32, 4, 3)), (0, 0, 0))
