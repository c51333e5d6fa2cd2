"""TensorMap: what the driver would refuse is refused here, by a sentence."""

from typing import Any

import pytest

from im2wingen.families.base import Launch, TensorMap

GOOD: dict[str, Any] = {
    "array": "x", "element": "fp16", "dims": (64, 7, 5), "strides_bytes": (128, 896), "box": (64, 4, 2),
    "swizzle_bytes": 128,
}  # fmt: skip


def test_a_map_is_a_value() -> None:
    one = TensorMap(**GOOD)
    assert one == TensorMap(**GOOD)
    assert len({one, TensorMap(**GOOD), TensorMap(**GOOD | {"offset_bytes": 16})}) == 2
    assert (one.element_bytes, one.box_row_bytes) == (2, 128)
    assert TensorMap(**GOOD | {"element": "tf32", "box": (32, 4, 2)}).box_row_bytes == 128


@pytest.mark.parametrize(
    "change",
    [
        {"box": (8, 256, 1)},  # the shortest row, the longest side
        {"box": (256, 4, 2), "swizzle_bytes": 0},  # only a swizzle bounds the row
        {"dims": (64, 2**32, 1)},
        {"strides_bytes": (2**40 - 16, 16)},  # no order among strides, and rows may overlap
        {"offset_bytes": 48},
        {"l2_promotion_bytes": 256},
        {"dims": (64, 7, 5, 2, 1), "strides_bytes": (128, 896, 4480, 4480), "box": (64, 4, 2, 1, 1)},
    ],
)
def test_edges_that_are_allowed(change: dict[str, Any]) -> None:
    TensorMap(**GOOD | change)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"element": "int4"}, "element is 'int4'; allowed are fp32, tf32, fp16, bf16, int8, e4m3, e5m2, int32"),
        ({"element": "fp64"}, "element is 'fp64'; allowed are fp32, tf32, fp16, bf16"),
        ({"element": "int8", "box": (8, 4, 2)}, "a box's row has 8 bytes; it must be a multiple of 16"),
        ({"dims": (64, 7), "strides_bytes": (128,), "box": (64, 4)}, "2 dimensions; allowed are 3 to 5"),
        ({"dims": (64,) * 6, "strides_bytes": (128,) * 5, "box": (64,) * 6}, "6 dimensions; allowed are 3 to 5"),
        ({"strides_bytes": (2, 128, 896)}, "3 dimensions need 2 strides and a box of 3"),
        ({"box": (64, 4)}, "3 dimensions need 2 strides and a box of 3"),
        ({"dims": (64, 0, 5)}, "each must be 1 to 2^32"),
        ({"dims": (64, 2**32 + 1, 5)}, "each must be 1 to 2^32"),
        ({"strides_bytes": (120, 896)}, "each must be a multiple of 16 below 2^40"),
        ({"strides_bytes": (0, 896)}, "each must be a multiple of 16 below 2^40"),
        ({"strides_bytes": (128, 2**40)}, "each must be a multiple of 16 below 2^40"),
        ({"offset_bytes": -16}, "offset is -16 bytes; it must be a multiple of 16"),
        ({"offset_bytes": 8}, "offset is 8 bytes; it must be a multiple of 16"),
        ({"box": (64, 257, 1)}, "each side must be 1 to 256"),
        ({"box": (64, 4, 0)}, "each side must be 1 to 256"),
        ({"box": (4, 4, 2)}, "a box's row has 8 bytes; it must be a multiple of 16"),
        ({"swizzle_bytes": 16}, "swizzle is 16 bytes; allowed are 0, 32, 64, 128"),
        ({"swizzle_bytes": 64}, "a box's row has 128 bytes, more than the swizzle's 64"),
        ({"l2_promotion_bytes": 32}, "L2 promotion is 32 bytes; allowed are 0, 64, 128, 256"),
    ],
)
def test_what_the_driver_refuses_is_told(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=r"^tensor map of x: ") as caught:
        TensorMap(**GOOD | change)
    assert sentence in str(caught.value)


def test_a_launch_knows_the_arrays_of_its_maps() -> None:
    maps = tuple(TensorMap(**GOOD | {"array": name}) for name in ("x", "packed", "x"))
    launch = Launch(template="t", values={}, grid=(1, 1, 1), block=32, smem_bytes=0, arguments=(maps, "bias", "x"))
    assert launch.array_names == {"x", "packed", "bias"}
    assert hash(launch.arguments)
