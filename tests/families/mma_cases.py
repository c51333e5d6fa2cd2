"""What the tests of the mma family share: small legal configs, and runs in the emulator that must be exact."""

from dataclasses import replace
from typing import Any, cast

from im2wingen.families.mma import MMA
from im2wingen.families.mma_choices import promote_choices
from im2wingen.families.mma_config import MmaConfig, MmaGeometry
from im2wingen.problem import ConvProblem
from im2wingen.target import preset
from im2wingen.verify_emulated import verify_emulated

TARGET = preset("sm_90a")
WAYS: dict[str, dict[str, Any]] = {
    "row": {"staging": "window", "window_order": "row"},
    "column": {"staging": "window", "window_order": "column"},
    "run": {"staging": "window", "window_order": "run"},
    "tap": {"staging": "tap", "window_order": "row"},
    "explicit": {"staging": "explicit", "window_order": "column"},
}
_SMALL: dict[str, Any] = {
    "warps_m": 2, "warps_n": 1, "warps_k": 1, "warp_n": 16, "num_stages": 2, "fragment_stages": 1, "pad_rows": False,
    "spread_copies": False,
    "ctas_per_sm": 1, "programmatic_launch": False, "tile_order": "linear", "fragment_order": "linear",
}  # fmt: skip


def config_of(problem: ConvProblem, way: str, **changes: Any) -> MmaConfig:
    """A legal config of 2 warps and a small tile, changed; all channels in one chunk and the widest copies if not said.

    `tile` is (images, rows, columns); by default 1 x 3 x 5 where the output has as much.
    """
    wanted = _SMALL | WAYS[way] | changes
    tile_n, tile_p, tile_q = wanted.pop("tile", (1, min(3, problem.p), min(5, problem.q)))
    shape = {2: "m16n8k16", 4: "m16n8k8", 8: "m16n8k4"}[problem.element_bytes]
    shape = wanted.setdefault("mma_shape", shape)
    block_k = int(shape.partition("k")[2]) * wanted.pop("steps", 2)
    config = replace(
        cast(MmaConfig, MMA.default(problem, TARGET)),
        **{"tile_n": tile_n, "tile_p": tile_p, "tile_q": tile_q, "block_k": block_k} | wanted,
    )
    if "promote_k" not in changes:
        config = replace(config, promote_k=promote_choices(problem)[0])
    if "patch_k" not in changes:
        config = replace(config, patch_k=MmaGeometry(problem=problem, config=config).channels)
    sizes = (config.copy_bytes,) if "copy_bytes" in changes else (16, 8, 4, 2)
    copies = [replace(config, copy_bytes=size) for size in sizes]
    for candidate in copies:
        if not MMA.broken_rules(problem, TARGET, candidate):
            return candidate
    raise AssertionError([MMA.broken_rules(problem, TARGET, candidate) for candidate in copies])


def verify(problem: ConvProblem, config: MmaConfig, *, seeds: tuple[int, ...] = (0,), sanitize: bool = False) -> None:
    """Integers exactly, normals within the bound, for each order of threads."""
    plan = MMA.plan(problem, TARGET, config)
    for seed in seeds:
        verify_emulated(problem, plan, seed=seed, sanitize=sanitize)
