"""Tensor maps as kernel arguments on a real device: tiles loaded and stored by TMA against numpy."""

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from im2wingen.device import Device, open_device
from im2wingen.errors import DeviceError
from im2wingen.families.base import Launch, Plan, TensorMap
from im2wingen.kernel import LoadedPlan
from im2wingen.nvrtc import compile_cubin
from im2wingen.render import Source, data_folder

pytestmark = pytest.mark.gpu

ARCH = "sm_90a"
# A box of a 3-d tensor, loaded at (c0, c1, c2): written out as it lies in shared memory, and stored by the second map.
# A store's coordinates can't be negative: 0 instead.
BOX_BYTES = 2 * 64 * 4 * 2
COPY = """
struct Maps { ptx::TensorMap source, target; };

extern "C" __global__ void copy(const int* corner, uint4* raw, const __grid_constant__ Maps maps) {
  __shared__ __align__(1024) uint4 box[BOX_BYTES / 16];
  __shared__ uint64_t landed;
  ptx::griddepcontrol_wait();
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&landed, 1);
    ptx::fence_mbarrier_init();
    ptx::mbarrier_arrive_expect_tx(&landed, BOX_BYTES);
    ptx::cp_async_bulk_tensor_3d_load(box, &maps.source, &landed, corner[0], corner[1], corner[2]);
  }
  __syncthreads();
  while (!ptx::mbarrier_try_wait_parity(&landed, 0)) {}
  for (int i = threadIdx.x; i < BOX_BYTES / 16; i += blockDim.x) raw[i] = box[i];
  if (threadIdx.x == 0) {
    ptx::cp_async_bulk_tensor_3d_store(&maps.target, box, max(corner[0], 0), max(corner[1], 0), max(corner[2], 0));
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group<0>();
  }
}
"""
DIMS = (72, 7, 5)  # innermost first; rows of 72 halves are 144 bytes
SHAPE = DIMS[::-1]
FIRST = 160  # of the source's elements in its array
CORNERS = [
    (0, 0, 0),  # all inside
    (8, 3, 3),  # up to the last element of each dimension
    (-16, -1, -1),  # before the first
    (32, 5, 4),  # beyond the last
    (-64, 0, 0),  # all outside
]


def source() -> Source:
    parts = ["parts/prelude.cuh", "ptx/griddepcontrol.cuh", "ptx/mbarrier.cuh", "ptx/tma.cuh"]
    included = [(data_folder("templates") / part).read_text() for part in parts]
    return Source("copy", "\n".join([*included, f"constexpr int BOX_BYTES = {BOX_BYTES};", COPY]))


def plan(swizzle_bytes: int, programmatic: bool = False) -> Plan:
    def tensor_map(array: str, offset: int) -> TensorMap:
        return TensorMap(
            array=array, element="fp16", offset_bytes=2 * offset, dims=DIMS, strides_bytes=(144, 7 * 144),
            box=(64, 4, 2), swizzle_bytes=swizzle_bytes, l2_promotion_bytes=128,
        )  # fmt: skip

    maps = (tensor_map("x", FIRST), tensor_map("y", 0))
    launch = Launch(
        template="copy", values={}, grid=(1, 1, 1), block=64, smem_bytes=0, arguments=("corner", "raw", maps),
        programmatic=programmatic,
    )  # fmt: skip
    return Plan(launches=(launch,))


def expected_box(x: NDArray[np.float16], corner: tuple[int, int, int]) -> NDArray[np.float16]:
    """The box at a corner, zeros outside of the tensor."""
    padded = np.pad(x, [(2, 2), (4, 4), (64, 64)])
    c0, c1, c2 = corner
    return padded[c2 + 2 : c2 + 4, c1 + 4 : c1 + 8, c0 + 64 : c0 + 128]


def swizzled(box: NDArray[np.float16]) -> NDArray[np.float16]:
    """As 128-byte swizzle lays 128-byte rows: 16-byte pieces of row r change places by r % 8."""
    pieces = box.reshape(-1, 8, 8)
    order = np.arange(8) ^ (np.arange(len(pieces)) % 8)[:, None]
    return np.take_along_axis(pieces, order[:, :, None], 1)


@pytest.fixture
def device() -> Iterator[Device]:
    opened = open_device()
    assert opened.target.arch == ARCH, "TMA in this test is compiled for sm_90a"
    yield opened
    opened.close()


class Buffers:
    """Two sources with random values and what the kernel writes."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.arrays = [
            np.random.default_rng(i).standard_normal(FIRST + np.prod(SHAPE)).astype(np.float16) for i in range(2)
        ]
        self.sources = [device.alloc(array.nbytes) for array in self.arrays]
        for pointer, array in zip(self.sources, self.arrays, strict=True):
            device.copy_to_device(pointer, array)
        self.corner, self.raw = device.alloc(12), device.alloc(BOX_BYTES)
        self.y_bytes = 2 * int(np.prod(SHAPE))
        self.y = device.alloc(self.y_bytes)

    def pointers(self, which: int) -> dict[str, int]:
        return {"x": self.sources[which], "y": self.y, "corner": self.corner, "raw": self.raw}

    def prepare(self, corner: tuple[int, int, int]) -> None:
        self.device.copy_to_device(self.corner, np.array(corner, np.int32))
        self.device.memset(self.raw, 0xFF, BOX_BYTES)
        self.device.memset(self.y, 0xFF, self.y_bytes)

    def check(self, which: int, corner: tuple[int, int, int], *, swizzle: bool) -> None:
        x = self.arrays[which][FIRST:].reshape(SHAPE)
        box = expected_box(x, corner)
        raw, y = np.empty(BOX_BYTES // 2, np.float16), np.empty(SHAPE, np.float16)
        self.device.copy_to_host(raw, self.raw)
        self.device.copy_to_host(y, self.y)
        np.testing.assert_array_equal(raw, (swizzled(box) if swizzle else box).reshape(-1))
        stored = np.full_like(x, np.nan)
        begins = [max(0, first) for first in corner[::-1]]
        place = stored[tuple(slice(begin, begin + size) for begin, size in zip(begins, box.shape, strict=True))]
        place[:] = box[tuple(map(slice, place.shape))]  # the store leaves out what lies beyond
        np.testing.assert_array_equal(y, stored)

    def free(self) -> None:
        for pointer in (*self.sources, self.corner, self.raw, self.y):
            self.device.free(pointer)


@pytest.mark.parametrize("programmatic", [False, True])  # cuLaunchKernel, cuLaunchKernelEx
@pytest.mark.parametrize("swizzle_bytes", [0, 128])
def test_boxes_are_loaded_and_stored(device: Device, swizzle_bytes: int, programmatic: bool) -> None:
    loaded = LoadedPlan(plan(swizzle_bytes, programmatic), (compile_cubin(source(), ARCH),))
    buffers = Buffers(device)
    for corner in CORNERS:
        for which in (0, 1, 0):  # another pointer, then the first again
            buffers.prepare(corner)
            loaded.launch(buffers.pointers(which), device.stream)
            buffers.check(which, corner, swizzle=swizzle_bytes == 128)
    loaded.unload()
    buffers.free()


def test_a_captured_launch_keeps_its_maps(device: Device) -> None:
    loaded = LoadedPlan(plan(128), (compile_cubin(source(), ARCH),))
    buffers, corner = Buffers(device), CORNERS[2]
    graph = device.capture(lambda: loaded.launch(buffers.pointers(0), device.stream))
    for which in (1, 0):
        buffers.prepare(corner)
        if which:
            loaded.launch(buffers.pointers(which), device.stream)
        else:
            graph.replay()
        buffers.check(which, corner, swizzle=True)
    graph.close()
    loaded.unload()
    buffers.free()


def test_the_driver_refuses_a_misaligned_array(device: Device) -> None:
    loaded = LoadedPlan(plan(0), (compile_cubin(source(), ARCH),))
    buffers = Buffers(device)
    pointers = buffers.pointers(0)
    with pytest.raises(DeviceError, match="cuTensorMapEncodeTiled failed with CUDA_ERROR_INVALID_VALUE"):
        loaded.launch(pointers | {"x": pointers["x"] + 2}, device.stream)
    loaded.unload()
    buffers.free()
