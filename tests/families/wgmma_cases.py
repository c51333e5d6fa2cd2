"""What the tests of the wgmma family share: small legal configs, and runs in the emulator that must be exact."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from arithmetic import Changes, run_integers
from mutants import mutate
from numpy.typing import NDArray

from im2wingen.errors import EmulatorError
from im2wingen.families.base import Config
from im2wingen.families.wgmma import WGMMA
from im2wingen.families.wgmma_config import WgmmaConfig
from im2wingen.families.wgmma_geometry import WgmmaGeometry
from im2wingen.problem import ConvProblem
from im2wingen.target import preset
from im2wingen.verify_data import WrongResultError
from im2wingen.verify_emulated import verify_emulated

TARGET = preset("sm_90a")
TWO_SMS = replace(TARGET, sm_count=2)  # a CTA computes several tiles
_SMALL: dict[str, Any] = {
    "mapping": "rows", "split": "pixels", "input_staging": "tma", "num_producer_warpgroups": 1,
    "num_consumer_warpgroups": 1, "joined_rows": 1, "cluster_k": 1, "staggered": False,
    "patch_stages": 2, "filter_resident": False, "filter_stages": 3, "l2_promotion_bytes": 128, "promotion": False,
    "ordered": False, "staging_over_buffers": False, "stored_by_producers": False, "bulk_store": False,
    "piece_stages": 1, "programmatic_launch": False, "early_packing": False, "tile_order": "linear",
}  # fmt: skip


# An edit of wgmma_split: finite data need no repair, which would hide what goes wrong.
NO_SPLIT_REPAIR = ("if (saw_nan) repair_outputs(x, w, bias, y, place, k, lane);", "if (saw_nan) __trap();")


def config_of(problem: ConvProblem, **changes: Any) -> WgmmaConfig:
    """A legal config of one consumer and a small tile, changed; whole subtiles are stored at once if not said.

    `tile` is (images, rows, columns); by default 1 x 2 x 5 where the output has as much, in block mapping 1 x 2 x 8.
    `row_bytes` (128 or 64) stands for `block_k`. A resident filter has one stage.
    """
    split = problem.precision == "fp32"
    wanted = _SMALL | {"arithmetic": "split" if split else "direct", "promotion_taps": 1} | changes
    columns = 8 if wanted["mapping"] == "block" else min(5, problem.q)
    tile_n, tile_p, tile_q = wanted.pop("tile", (1, min(2, problem.p), columns))
    element_bytes = 2 if wanted["arithmetic"] == "scaled" else problem.element_bytes
    block_k = wanted.pop("row_bytes", 128) // element_bytes
    if wanted["filter_resident"]:
        wanted["filter_stages"] = 1
    stores = wanted.pop("store_groups", None)
    config = WgmmaConfig(
        **wanted, tile_n=tile_n, tile_p=tile_p, tile_q=tile_q, block_k=block_k, store_groups=stores or 1
    )
    if stores is None:
        geometry = WgmmaGeometry(problem=problem, config=config)
        whole = geometry.groups_n if config.cluster_k == 1 else geometry.share_groups
        config = replace(config, store_groups=whole)
    assert WGMMA.unsupported(problem, TARGET) is None
    assert WGMMA.broken_rules(problem, TARGET, config) == []
    return config


def verify(problem: ConvProblem, config: Config, *, seeds: tuple[int, ...] = (0,), sanitize: bool = False) -> None:
    """Integers exactly, normals within the bound, for each order of threads; on two SMs."""
    plan = WGMMA.plan(problem, TWO_SMS, config)
    for seed in seeds:
        verify_emulated(problem, plan, seed=seed, sanitize=sanitize)


def run_changed(problem: ConvProblem, config: WgmmaConfig, changes: Changes) -> tuple[NDArray[Any], NDArray[Any]]:
    return run_integers(problem, WGMMA.plan(problem, TWO_SMS, config), changes)


SEEDS = (0, 1, 2)  # threads ascending, descending, shuffled


@dataclass(frozen=True)
class Mutant:
    """Each pair of `edits` is a text that stands once in the kernel, and what it becomes."""

    edits: tuple[tuple[str, str], ...]
    shape: str = "n3c72h6w9k72r3s3pad1"  # two chunks, the last of half a step; the last tile of K is 8 channels
    config: dict[str, Any] = field(default_factory=dict)
    layout: str = "nhwc"
    seeds: tuple[int, ...] = SEEDS


def one(old: str, new: str, **where: Any) -> Mutant:
    return Mutant(((old, new),), **where)


def check(mutant: Mutant) -> None:
    """What must fail for a mutant and pass without."""
    problem = ConvProblem.parse(mutant.shape, epilogue="bias_relu", layout=mutant.layout)
    verify(problem, config_of(problem, **mutant.config), seeds=mutant.seeds)


def expect_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """The emulator's checks must not let the broken kernel of wgmma.cu.j2 pass."""
    mutate(monkeypatch, "wgmma", mutant.edits)
    with pytest.raises((WrongResultError, EmulatorError)):
        check(mutant)
