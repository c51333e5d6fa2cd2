"""wgmma with an NCHW x that is turned in shared memory: sizes, arithmetic in the emulator, mutants, machine code."""

from typing import Any

import pytest
from wgmma_cases import SEEDS, TARGET, Mutant, check, config_of, expect_found, one, verify

from im2wingen.families.wgmma import WGMMA
from im2wingen.families.wgmma_geometry import WgmmaGeometry
from im2wingen.families.wgmma_space import shapes
from im2wingen.nvrtc import compile_cubin
from im2wingen.problem import ConvProblem
from im2wingen.render import Source, render
from im2wingen.sass import disassemble, instruction_counts

TURNED: dict[str, Any] = {"input_staging": "turned", "piece_stages": 2}
FILTERS: dict[str, Any] = {"split": "filters", "num_consumer_warpgroups": 2}
TILES: dict[str, Any] = {"split": "tiles", "num_consumer_warpgroups": 2, "filter_resident": True}

# shape, config, (rows of a line, pitch of a line, lines of a piece)
SIZES = {
    "rows": ("n2c40h9w16k72r3s3", {"tile": (1, 2, 10)}, (1, 24, 5)),  # patches of 4 rows of 12 columns
    "odd rows": ("n2c40h9w24k72r3s3", {"tile": (1, 3, 22)}, (1, 24, 5)),  # of 5 rows of 24
    "many": ("n2c64h99w8k8r3s3", {"tile": (1, 21, 6), "joined_rows": 7}, (1, 8, 13)),  # 26 lines for 23, of 1 KiB
    "skewed": ("n2c40h9w40k72r3s3pad1", {"tile": (1, 2, 24)}, (1, 40, 1)),  # up to 7 columns come in front of 26
    "whole rows": ("n2c40h8w12k72r3s3", {"tile": (1, 3, 10)}, (5, 72, 1)),  # 60 pixels, 8 and 9 groups of 8
    "whole rows in parts": ("n2c40h40w28k72r3s3", {"tile": (1, 6, 26)}, (4, 120, 1)),  # 16 KiB: 128 pixels
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes(name: str) -> None:
    shape, changes, wanted = SIZES[name]
    problem = ConvProblem.parse(shape, layout="nchw")
    config = config_of(problem, **TURNED | changes)
    geometry = WgmmaGeometry(problem=problem, config=config)
    pieces = geometry.pieces
    assert (pieces.line_rows, pieces.pitch, pieces.lines) == wanted
    plan = WGMMA.plan(problem, TARGET, config)
    assert list(plan.workspace) == ["packed"]
    source = render(plan.launches[-1])
    numbers = {
        "LINE_PITCH": pieces.pitch,
        "PIECE_BYTES": pieces.pitch * pieces.lines * 128,
        "PIECES_AT + kPieceStages * (PIECE_STAGE + 16)": geometry.smem_bytes,
    }
    assertions = "".join(f'\nstatic_assert({value} == {number}, "{value}");' for value, number in numbers.items())
    compile_cubin(Source(source.kernel, source.text + assertions), "sm_90a")


def test_maps_of_pieces() -> None:
    rows = ConvProblem.parse("n3c40h9w16k72r3s3", layout="nchw")
    (x,) = WGMMA.plan(rows, TARGET, config_of(rows, **TURNED)).launches[-1].arguments[0]
    assert (x.array, x.dims, x.strides_bytes) == ("x", (16, 9, 40, 3), (32, 9 * 32, 40 * 9 * 32))
    assert (x.box, x.swizzle_bytes) == ((24, 5, 64, 1), 0)
    whole = ConvProblem.parse("n3c40h8w12k72r3s3", layout="nchw")
    (x,) = WGMMA.plan(whole, TARGET, config_of(whole, **TURNED, tile=(1, 3, 10))).launches[-1].arguments[0]
    assert (x.dims, x.strides_bytes) == ((96, 1, 40, 3), (192, 192, 40 * 192))
    assert x.box == (72, 1, 64, 1)


# C ends in a chunk, N, P and Q in a tile; the seeds are orders of threads
CASES = {
    "rows": ("n2c40h9w16k72r3s3pad1,0,2,1", {"tile": (1, 2, 10)}, SEEDS),
    "whole rows": ("n3c72h8w12k40r3s3", {"tile": (1, 3, 10), "piece_stages": 3}, (0, 1)),
    "64-byte rows": ("n2c40h6w8k24r3s3dil1x2", {"tile": (1, 2, 4), "row_bytes": 64}, (0,)),
    "tiles in turn": ("n5c72h6w8k40r2s2", TILES | {"ordered": True, "patch_stages": 3, "tile": (1, 2, 7)}, (0, 1)),
    "two warpgroups": ("n1c24h9w16k72r3s3pad1", FILTERS | {"num_producer_warpgroups": 2, "tile": (1, 4, 8)}, (0, 1)),
}


@pytest.mark.parametrize("name", CASES)
def test_arithmetic(name: str) -> None:
    shape, changes, seeds = CASES[name]
    problem = ConvProblem.parse(shape, layout="nchw", epilogue="bias")
    verify(problem, config_of(problem, **TURNED | changes), seeds=seeds)


ROWS: dict[str, Any] = {
    "config": TURNED | {"tile": (1, 2, 5)}, "shape": "n2c72h6w8k40r3s3pad1", "layout": "nchw-nhwc",
}  # fmt: skip
LATE: dict[str, Any] = ROWS | {"config": ROWS["config"] | {"filter_resident": True, "tile": (1, 2, 5)}}
MUTANTS = {
    "a free patch is awaited with the wrong parity": one(
        "smem.patch_empty + ring.stage, ring.parity ^ 1);\n#pragma unroll 1\n    for (int i = 0",
        "smem.patch_empty + ring.stage, ring.parity);\n    for (int i = 0",
        **ROWS,
    ),
    "a piece is not awaited": one("wait(pieces.full + piece.stage, piece.parity);", "", **ROWS),
    "a piece is overwritten too early": one("wait(pieces.empty + ring.stage, ring.parity ^ 1);", "", **LATE),
    "one warp gives a piece back": one("(pieces.empty + i, TURNERS);", "(pieces.empty + i, 1);", **LATE),
    "no proxy fence": one("ptx::fence_proxy_async_shared_cta();  // the products", "// the products", **ROWS),
    "not swizzled": one("+ turn * 16 + lane", "+ lane", **ROWS),
    "the second half of the channels is the first again": one("(half * 4 + j) * 16", "j * 16", **ROWS),
    "the first image again": one("at.chunk * BLOCK_K, origin.n);", "at.chunk * BLOCK_K, 0);", **ROWS),
    "the first chunk again": one("at.chunk * BLOCK_K, origin.n);", "0, origin.n);", **ROWS),
    "rows begin at the output's": one("origin.p - PAD_TOP + (", "origin.p + (", **ROWS),
    "columns begin at the output's": one("origin.q - PAD_LEFT, skew", "origin.q, skew", **ROWS),
    "pixels beyond a line": one("pixel >= LINE_PIXELS || ", "", **ROWS),
    "pixels in front of a line": one("pixel < 0 || ", "", **ROWS),
    "a load begins where the line does": one("{row, column - skew, skew}", "{row, column, 0}", **ROWS),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expect_found(MUTANTS[name], monkeypatch)


@pytest.mark.parametrize("where", [ROWS, LATE])
def test_the_unbroken_kernel_passes_where_mutants_fail(where: dict[str, Any]) -> None:
    check(Mutant((), **where))


@pytest.mark.parametrize("layer", ["cv8", "cv10"])
def test_it_compiles_without_spills(layer: str) -> None:
    problem = ConvProblem.parse(layer, layout="nchw")
    config = next(config for config in shapes(problem, TARGET).values() if config.input_staging == "turned")
    cubin = compile_cubin(render(WGMMA.plan(problem, TARGET, config).launches[-1]), "sm_90a")
    counts = instruction_counts(cubin)
    assert counts["LDSM"] >= 1
    assert not {"LDL", "STL"} & counts.keys()
    assert cubin.spill_bytes == 0


@pytest.mark.parametrize(("staging", "beside"), [("turned", True), ("tma", False)])
def test_x_is_read_before_the_filter_is_packed(staging: str, beside: bool) -> None:
    problem = ConvProblem.parse("n2c64h9w16k64r3s3", layout="nchw")
    stages = 2 if staging == "turned" else 1
    config = config_of(problem, input_staging=staging, piece_stages=stages, programmatic_launch=True)
    launch = WGMMA.plan(problem, TARGET, config).launches[-1]
    # with a packed filter the kernel before this one is not the plan's, and may write x
    assert (launch.beside, launch.programmatic, launch.values["BESIDE_PACKING"]) == (beside, not beside, beside)
    assert "ACQBULK" in disassemble(compile_cubin(render(launch), "sm_90a"))  # griddepcontrol.wait
