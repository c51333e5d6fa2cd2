"""wgmma with an NCHW y that is stored by bulk copies: arithmetic in the emulator, mutants, sizes."""

from typing import Any

import pytest
from wgmma_cases import SEEDS, TARGET, Mutant, check, config_of, expect_found, one, verify

from im2wingen.families.wgmma import WGMMA
from im2wingen.families.wgmma_geometry import WgmmaGeometry
from im2wingen.nvrtc import compile_ptx
from im2wingen.problem import ConvProblem
from im2wingen.render import Source, render

TURNED: dict[str, Any] = {"input_staging": "turned", "piece_stages": 2}
BULK: dict[str, Any] = {"bulk_store": True}
FILTERS: dict[str, Any] = {"split": "filters", "num_consumer_warpgroups": 2}
PIXELS: dict[str, Any] = {"split": "pixels", "num_consumer_warpgroups": 2}
TURNS: dict[str, Any] = {
    "split": "tiles", "num_consumer_warpgroups": 2, "filter_resident": True, "ordered": True,
}  # fmt: skip

# shape, layout, precision, config, orders of threads; N, P, C and K end inside what is done at a time
CASES: dict[str, tuple[str, str, str, dict[str, Any], tuple[int, ...]]] = {
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
    # consumers at different tiles; filters of 64 of 128 channels stay
    "both, in turn": ("n7c24h8w12k128r3s3", "nchw", "fp16", TURNED | BULK | TURNS | {"tile": (1, 2, 10)}, SEEDS),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_arithmetic(name: str) -> None:
    shape, layout, precision, changes, seeds = CASES[name]
    problem = ConvProblem.parse(shape, layout=layout, precision=precision, epilogue="bias_relu")
    verify(problem, config_of(problem, **changes), seeds=seeds)


RUNS: dict[str, Any] = {
    "config": FILTERS | BULK | {"tile": (1, 4, 10), "joined_rows": 2}, "shape": "n3c24h8w12k72r3s3",
    "layout": "nhwc-nchw",
}  # fmt: skip
ODD: dict[str, Any] = {
    "config": BULK | {"tile": (1, 2, 11), "joined_rows": 2}, "shape": "n3c24h7w13k40r3s3", "layout": "nhwc-nchw",
}  # fmt: skip
FENCE = "ptx::fence_proxy_async_shared_cta();"
MUTANTS = {
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
    "bulk: the stores are not awaited at the end": one(
        "  }\n  if (kBulkStored || (kOutput", "  }\n  if ((kOutput", **RUNS
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expect_found(MUTANTS[name], monkeypatch)


@pytest.mark.parametrize("where", [RUNS, ODD])
def test_the_unbroken_kernel_passes_where_mutants_fail(where: dict[str, Any]) -> None:
    check(Mutant((), **where))


# ---- sizes, rules, machine code ----

GEOMETRIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "in bulk": ("n3c40h9w16k70r3s3", "nhwc-nchw", BULK | PIXELS | {"tile": (1, 6, 14)}),
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
    source = render(plan.launches[-1])
    lines = "".join(f'\nstatic_assert({text} == {value}, "{text}");' for text, value in claims.items())
    compile_ptx(Source(source.kernel, source.text + lines), "sm_90a")
