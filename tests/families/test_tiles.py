import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from im2wingen.families.tiles import PixelTile, _splits, pixel_tiles
from im2wingen.problem import ConvProblem

SIZES = ((32, 64), (65, 128))
PROBLEM = ConvProblem.parse("n5c3h13w20k8r3s3st2x1pad1dil1x2")  # P = 7, Q = 18


def covered(problem: ConvProblem, tile: PixelTile) -> int:
    """Tiles of a grid laid from the first pixel on, counted."""
    return len(
        {
            (n // tile.n, p // tile.p, q // tile.q)
            for n in range(problem.n)
            for p in range(problem.p)
            for q in range(problem.q)
        }
    )


def patch(problem: ConvProblem, tile: PixelTile) -> int:
    """Input pixels in the rectangle that the tile's windows span, counted."""
    rows = [p * problem.stride_h + r * problem.dilation_h for p in range(tile.p) for r in range(problem.r)]
    columns = [q * problem.stride_w + s * problem.dilation_w for q in range(tile.q) for s in range(problem.s)]
    return tile.n * (max(rows) + 1) * (max(columns) + 1)


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 3, 5), (5, 7, 18), (1, 4, 16), (3, 2, 7)])
def test_a_tile_counts_right(shape: tuple[int, int, int]) -> None:
    tile = PixelTile(n=shape[0], p=shape[1], q=shape[2])
    assert tile.pixels == shape[0] * shape[1] * shape[2]
    assert str(tile) == "x".join(map(str, shape))
    assert tile.count(PROBLEM) == covered(PROBLEM, tile)
    assert tile.patch_pixels(PROBLEM) == patch(PROBLEM, tile)
    computed = covered(PROBLEM, tile) * -(-tile.pixels // 16) * 16
    assert tile.utilisation(PROBLEM, 16) == pytest.approx(PROBLEM.gemm_m / computed)
    assert 0 < tile.score(PROBLEM, 16) <= tile.utilisation(PROBLEM, 16) <= 1


@given(st.integers(1, 300), st.integers(1, 80))
def test_splits_are_the_near_equal_parts(extent: int, most: int) -> None:
    parts = {-(-extent // count) for count in range(1, extent + 1)}
    assert _splits(extent, most) == sorted(part for part in parts if part <= most)


def test_splits_of_a_giant_extent() -> None:
    assert _splits(2**31 - 1, 5) == [1, 2, 3, 4, 5]


@settings(max_examples=60, deadline=None)
@given(
    st.fixed_dictionaries(
        {name: st.integers(1, 40) for name in ("n", "p", "q")} | {name: st.integers(1, 3) for name in ("r", "s", "st")}
    ),
    st.integers(1, 6),
)
def test_tiles_lie_in_their_class_and_in_the_output(sizes: dict[str, Any], per_size: int) -> None:
    h, w = sizes["st"] * (sizes["p"] - 1) + sizes["r"], sizes["st"] * (sizes["q"] - 1) + sizes["s"]
    problem = ConvProblem.parse(f"n{sizes['n']}c3h{h}w{w}k8r{sizes['r']}s{sizes['s']}st{sizes['st']}")
    tiles = pixel_tiles(problem, sizes=SIZES, per_size=per_size)
    assert 1 <= len(tiles) <= per_size * len(SIZES)
    assert len(set(tiles)) == len(tiles)
    for tile in tiles:
        assert 1 <= tile.n <= problem.n
        assert 1 <= tile.p <= problem.p
        assert 1 <= tile.q <= problem.q
        assert tile.pixels <= SIZES[-1][1]
    small = [tile for tile in tiles if tile.pixels < SIZES[0][0]]
    if small:  # no tile of the first class fits the output: the largest stands in
        assert len(small) == 1
        assert problem.gemm_m < SIZES[0][0] or small[0] == tiles[0]


def test_the_best_use_comes_first_in_each_class() -> None:
    problem = ConvProblem.parse("n128c64h56w56k64r3s3")  # 54 x 54 outputs
    tiles = pixel_tiles(problem, sizes=SIZES, per_size=4)
    for least, most in SIZES:
        scores = [tile.score(problem, 16) for tile in tiles if least <= tile.pixels <= most]
        assert len(scores) == 4
        assert scores == sorted(scores, reverse=True)
        everything = [
            PixelTile(n=n, p=p, q=q)
            for n, p, q in itertools.product((1, 2, 4), (1, 2, 3, 6, 9, 18, 27, 54), (1, 2, 3, 6, 9, 18, 27, 54))
            if least <= n * p * q <= most
        ]
        assert scores[0] >= max(tile.score(problem, 16) for tile in everything)


def test_small_images_share_a_tile() -> None:
    problem = ConvProblem.parse("n64c512h7w7k512r3s3")  # 5 x 5 outputs
    assert any(tile.n > 1 for tile in pixel_tiles(problem, sizes=SIZES))


def test_where_the_problem_is_smaller_than_every_class_its_all_is_one_tile() -> None:
    problem = ConvProblem.parse("n2c3h3w3k8r1s1")
    assert pixel_tiles(problem, sizes=SIZES) == (PixelTile(n=2, p=3, q=3),)
