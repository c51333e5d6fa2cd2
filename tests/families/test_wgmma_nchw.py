"""wgmma between NCHW arrays: x brought into NHWC ahead of the tiles that read it, y stored by bulk copies."""

from typing import Any

import pytest
from mutants import mutate
from wgmma_cases import SEEDS, TARGET, Mutant, check, config_of, one, verify

from im2wingen.errors import EmulatorError
from im2wingen.families.wgmma import WGMMA
from im2wingen.families.wgmma_geometry import WgmmaGeometry
from im2wingen.families.wgmma_space import shapes
from im2wingen.nvrtc import compile_cubin, compile_ptx
from im2wingen.problem import ConvProblem
from im2wingen.render import Source, render
from im2wingen.sass import instruction_counts
from im2wingen.verify_data import WrongResultError

AHEAD: dict[str, Any] = {"input_staging": "ahead", "piece_stages": 2}
BULK: dict[str, Any] = {"bulk_store": True}
FILTERS: dict[str, Any] = {"split": "filters", "num_consumer_warpgroups": 2}
PIXELS: dict[str, Any] = {"split": "pixels", "num_consumer_warpgroups": 2}
TURNS: dict[str, Any] = {
    "split": "tiles", "num_consumer_warpgroups": 2, "filter_resident": True, "ordered": True,
}  # fmt: skip

# shape, layout, precision, config, orders of threads; N, P, C and K end inside what is done at a time
CASES: dict[str, tuple[str, str, str, dict[str, Any], tuple[int, ...]]] = {
    # parts of 64 pixels of 96, of 64 channels of 72: the last have half of their pixels, 8 channels
    "ahead": ("n3c72h8w12k40r3s3", "nchw-nhwc", "fp16", AHEAD | {"tile": (2, 3, 8)}, SEEDS),
    # six warps; 104 pixels in pieces of 32, of which 8 are left
    "ahead, two warpgroups": (
        "n3c24h8w13k72r3s3pad1", "nchw", "bf16", AHEAD | FILTERS | {"num_producer_warpgroups": 2}, (0, 2),
    ),
    "ahead, planes": ("n5c12h8w10k16r3s3st2", "nchw", "fp16", AHEAD | {"piece_stages": 4}, (0, 1)),
    "ahead, more pixels": (
        "n9c24h12w12k40r3s3", "nchw", "fp16",
        AHEAD | PIXELS | {"tile": (8, 10, 10), "row_bytes": 64, "filter_stages": 2, "store_groups": 10}, (0,),
    ),
    # 3 rows of 10 at a time, P = 6 and 8; the consumers' channels end inside them
    "bulk": ("n3c24h8w12k72r3s3", "nhwc-nchw", "fp16", FILTERS | BULK | {"tile": (1, 3, 10)}, SEEDS),
    "bulk, joined rows": (
        "n2c40h10w12k72r3s3", "nhwc-nchw", "bf16", PIXELS | BULK | {"tile": (1, 6, 10), "joined_rows": 3}, (0, 2),
    ),
    # odd rows, planes of an odd number of pixels: element by element; K = 70
    "bulk, odd": (
        "n3c40h9w13k70r3s3", "nhwc-nchw", "fp16", PIXELS | BULK | {"tile": (1, 6, 11), "joined_rows": 3}, (0, 1),
    ),
    "bulk, tf32": ("n2c40h9w43k40r3s3", "nhwc-nchw", "tf32", BULK | {"tile": (1, 4, 41), "joined_rows": 2}, (2,)),
    # runs so short that no bulk copy is made of some: 12 pixels from anywhere
    "bulk, short": ("n3c8h5w14k24r3s3", "nhwc-nchw", "fp16", BULK | {"tile": (1, 1, 12)}, (0,)),
    # the second consumer begins 4 taps later, at the first tile alone
    "bulk, apart": (
        "n5c72h8w12k72r3s3", "nhwc-nchw", "fp16",
        FILTERS | BULK | {"tile": (1, 3, 10), "apart": True, "filter_stages": 6}, SEEDS,
    ),
    # consumers at different tiles; filters of 64 of 128 channels stay
    "both, in turn": ("n7c24h8w12k128r3s3", "nchw", "fp16", AHEAD | BULK | TURNS | {"tile": (1, 2, 10)}, SEEDS),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_arithmetic(name: str) -> None:
    shape, layout, precision, changes, seeds = CASES[name]
    problem = ConvProblem.parse(shape, layout=layout, precision=precision, epilogue="bias_relu")
    verify(problem, config_of(problem, **changes), seeds=seeds)


# two CTAs, of which the first runs to its end before the other begins; five tiles of two images
ONWARD: dict[str, Any] = {"config": AHEAD | {"tile": (2, 4, 8)}, "shape": "n9c72h6w12k40r3s3", "layout": "nchw-nhwc"}
RUNS: dict[str, Any] = {
    "config": FILTERS | BULK | {"tile": (1, 4, 10), "joined_rows": 2}, "shape": "n3c24h8w12k72r3s3",
    "layout": "nhwc-nchw",
}  # fmt: skip
ODD: dict[str, Any] = {
    "config": BULK | {"tile": (1, 2, 11), "joined_rows": 2}, "shape": "n3c24h7w13k40r3s3", "layout": "nhwc-nchw",
}  # fmt: skip
APART: dict[str, Any] = {
    "config": FILTERS | {"tile": (1, 3, 8), "apart": True, "filter_stages": 4}, "shape": "n5c24h8w12k72r3s3",
    "layout": "nhwc-nchw",
}  # fmt: skip
FENCE = "ptx::fence_proxy_async_shared_cta();"
MUTANTS = {
    "apart: the second consumer waits for a tap beyond the stages": one(
        "kFilterResident ? R * S : kFilterStages - 2,", "R * S,", **APART
    ),
    "apart: the first one tells it at each tile": one("consumer.leads = false;", "", **APART),
    "apart: nobody tells it": one("kApart && index == 0}", "false}", **APART),
    "ahead: images are not awaited": one("!= IMAGE_PARTS) ptx", "== 0xffffffff) ptx", **ONWARD),
    "ahead: one part is awaited": one("!= IMAGE_PARTS) ptx", "== 0) ptx", **ONWARD),
    "ahead: the tile's last image is not awaited": one(
        "for (; written < images; ++written)", "for (; written < images - 1; ++written)", **ONWARD
    ),
    "ahead: a piece is not awaited": one("wait(full + i, parities >> i & 1);", "", **ONWARD),
    "ahead: a piece is awaited with the same parity": one("parities ^= 1 << i;", "", **ONWARD),
    "ahead: pixels beyond the image": one("if (half * 16 + pixel < pixels && (", "if ((", **ONWARD),
    "ahead: channels beyond C": one("CHANNELS % PIECE_CHANNELS == 0 || channel < channels", "true", **ONWARD),
    "ahead: not swizzled": one("(row / 4 ^ pair) * 16", "row / 4 * 16", **ONWARD),
    "ahead: the neighbour's channels": one("row / 2 % 2 * 8 + pair", "pair", **ONWARD),
    "ahead: the first channels again": one("PIECE_PIXELS, part.channel, part.n", "PIECE_PIXELS, 0, part.n", **ONWARD),
    "bulk: the last run is written before it is read": one(
        "ptx::cp_async_bulk_wait_group_read<0>();\n  __syncwarp();  // all", "__syncwarp();  // all", **RUNS
    ),
    "bulk: no proxy fence": one(f"{FENCE}\n  __syncwarp();  // the runs", "__syncwarp();  // the runs", **RUNS),
    "bulk: the stores are not committed": one("ptx::cp_async_bulk_commit_group();\n#pragma", "#pragma", **RUNS),
    "bulk: lanes are not awaited": one("__syncwarp();  // the runs are complete", "", **RUNS),
    "bulk: runs begin at whole units": one("run.begin % OUTPUT_UNIT + run.body,", "run.body,", **RUNS),
    "bulk: nothing in front": one("if (at < run.body && channel < channels)", "if (false)", **RUNS),
    "bulk: nothing behind": one("if (at < run.end && channel < channels)", "if (false)", **RUNS),
    "bulk: channels beyond K": one("if (lane < 16 && lane < channels)", "if (lane < 16)", **RUNS),
    "bulk: words of channels beyond K": one("at < run.end && channel < channels", "at < run.end", **RUNS),
    "bulk: rows beyond P": one("P - place.p < OWN_P ? P - place.p : OWN_P", "OWN_P", **RUNS),
    "bulk: pixels between rows": one("? q - PATCH_W : q) < Q &&", "? q - PATCH_W : q) < Q + 2 &&", **RUNS),
    "bulk: a joined row begins at the last one's end": one("(next ? PATCH_W - Q : 0)", "0", **RUNS),
    "bulk: two pixels of odd rows": one("lane % 4 * 2 + e;", "lane % 4 * 2;", **ODD),
    "bulk: the stores are not awaited at the end": one("if (kBulkStored || (kOutput", "if ((kOutput", **RUNS),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch, "wgmma", MUTANTS[name].edits)
    with pytest.raises((WrongResultError, EmulatorError)):
        check(MUTANTS[name])


@pytest.mark.parametrize("where", [ONWARD, RUNS, ODD])
def test_the_unbroken_kernel_passes_where_mutants_fail(where: dict[str, Any]) -> None:
    check(Mutant((), **where))


# ---- sizes, rules, machine code ----

GEOMETRIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "ahead": ("n3c72h8w12k72r3s3pad1", "nchw", AHEAD | FILTERS | {"num_producer_warpgroups": 2, "tile": (2, 3, 8)}),
    "ahead, in bulk": ("n3c40h9w16k70r3s3", "nchw", AHEAD | BULK | PIXELS | {"tile": (1, 6, 14), "piece_stages": 3}),
    "in bulk, odd": ("n3c40h9w13k70r3s3", "nhwc-nchw", BULK | {"tile": (1, 6, 11), "joined_rows": 3}),
}


@pytest.mark.parametrize("name", GEOMETRIES)
def test_the_kernel_derives_the_same_sizes(name: str) -> None:
    shape, layout, changes = GEOMETRIES[name]
    problem = ConvProblem.parse(shape, layout=layout)
    config = config_of(problem, **changes)
    geometry = WgmmaGeometry(problem=problem, config=config)
    plan = WGMMA.plan(problem, TARGET, config)
    claims = {"SMEM_END": geometry.smem_bytes, "STAGING_BYTES": geometry.staging_bytes}
    if config.input_staging == "ahead":
        stages = "AHEAD_WARPS * kPieceStages"
        claims[f"PIECES_AT + {stages} * (PIECE_BYTES + 8) + 4"] = claims.pop("SMEM_END")
        claims["PROGRESS_AT + 4 * (N + 1)"] = plan.workspace["packed"] - 4 * (geometry.counters - problem.n - 1)
        claims["IMAGE_PARTS"] = geometry.image_parts
        assert plan.launches[0].values["COUNTERS"] == geometry.counters > problem.n
    source = render(plan.launches[-1])
    lines = "".join(f'\nstatic_assert({text} == {value}, "{text}");' for text, value in claims.items())
    compile_ptx(Source(source.kernel, source.text + lines), "sm_90a")


@pytest.mark.parametrize("layer", ["cv4", "cv5", "cv8", "cv9", "cv10"])
def test_who_goes_ahead_does_not_spill(layer: str) -> None:
    problem = ConvProblem.parse(layer, layout="nchw")
    config = next(config for config in shapes(problem, TARGET).values() if config.input_staging == "ahead")
    cubin = compile_cubin(render(WGMMA.plan(problem, TARGET, config).launches[-1]), "sm_90a")
    counts = instruction_counts(cubin)
    assert counts["LDSM"] == 8
    assert counts.get("UBLKCP", 0) == config.bulk_store
    assert not {"LDL", "STL"} & counts.keys()
    assert cubin.spill_bytes == 0
