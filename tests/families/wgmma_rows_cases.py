"""What the tests of the wgmma_rows family share: small legal configs, and runs in the emulator that must be exact."""

from dataclasses import replace
from typing import Any

from arithmetic import Changes, run_integers
from numpy.typing import NDArray

from im2wingen.families.base import Config
from im2wingen.families.support import round_up
from im2wingen.families.wgmma_rows import WGMMA_ROWS
from im2wingen.families.wgmma_rows_config import WgmmaRowsConfig, WgmmaRowsGeometry
from im2wingen.problem import ConvProblem
from im2wingen.target import preset
from im2wingen.verify_emulated import verify_emulated

TARGET = preset("sm_90a")
BULK: dict[str, Any] = {"bulk_store": True, "copied_items": 2}
CHANNELS: dict[str, Any] = {"channel_rows": True, "row_items": True, "block_n": 64}
TWO_SMS = replace(TARGET, sm_count=2)  # a CTA computes many rows
_SMALL: dict[str, Any] = {
    "slot_order": "rows", "row_items": False, "channel_rows": False, "scaled": False, "bulk_store": False,
    "copied_items": 1, "item_tiles": 1, "num_consumer_warpgroups": 1,
    "num_transformer_warps": 2, "team_warps": 1,
    "raw_stages": 1, "row_order": "strips", "unit_rows": 1, "l2_bursts": False, "pack_kernel": True,
    "programmatic_launch": False, "early_packing": False,
}  # fmt: skip


def config_of(problem: ConvProblem, **changes: Any) -> WgmmaRowsConfig:
    """A legal config of one consumer and the smallest ring, changed.

    By default a block is as many rows as the stride, a slot as many columns, and a CTA has all of K.
    """
    wanted = {
        "block_rows": min(problem.stride_h, problem.r), "slot_columns": min(problem.stride_w, problem.s),
        "block_n": round_up(problem.k, 8), "staged_y": problem.y_layout == "nchw",
    } | _SMALL | changes  # fmt: skip
    wanted.setdefault("multiplying_consumers", wanted["num_consumer_warpgroups"])
    ring = wanted.pop("ring_blocks", None)
    config = WgmmaRowsConfig(**wanted, ring_blocks=ring or 1)
    if ring is None:
        config = replace(config, ring_blocks=WgmmaRowsGeometry(problem=problem, config=config).least_ring)
    assert WGMMA_ROWS.unsupported(problem, TARGET) is None
    assert WGMMA_ROWS.broken_rules(problem, TARGET, config) == []
    return config


def verify(problem: ConvProblem, config: Config, *, seeds: tuple[int, ...] = (0,), sanitize: bool = False) -> None:
    """Integers exactly, normals within the bound, for each order of threads; on two SMs."""
    plan = WGMMA_ROWS.plan(problem, TWO_SMS, config)
    for seed in seeds:
        verify_emulated(problem, plan, seed=seed, sanitize=sanitize)


def run_changed(problem: ConvProblem, config: WgmmaRowsConfig, changes: Changes) -> tuple[NDArray[Any], NDArray[Any]]:
    return run_integers(problem, WGMMA_ROWS.plan(problem, TWO_SMS, config), changes)
