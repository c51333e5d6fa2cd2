"""wgmma_rows: which problems, plans, rules against the kernel's static_asserts, the geometry of both, machine code."""

from dataclasses import replace
from typing import Any

import pytest
from wgmma_rows_cases import TARGET, config_of

from im2wingen.errors import CompileError
from im2wingen.families.wgmma_rows import WGMMA_ROWS
from im2wingen.families.wgmma_rows_config import WgmmaRowsConfig, WgmmaRowsGeometry
from im2wingen.families.wgmma_rows_rules import RULES
from im2wingen.nvrtc import compile_cubin, compile_ptx
from im2wingen.problem import ConvProblem
from im2wingen.render import Source, render
from im2wingen.sass import disassemble, instruction_counts
from im2wingen.target import preset


def convolution(problem: ConvProblem, config: WgmmaRowsConfig) -> Source:
    """The text of the multiplying kernel."""
    return render(WGMMA_ROWS.plan(problem, TARGET, config).launches[-1])


# ---- which problems ----


@pytest.mark.parametrize(
    ("shape", "layout", "precision", "words"),
    [
        ("n1c16h8w8k16r3s3", "nhwc", "fp16", "C is 16; it must not exceed 15"),
        ("n1c3h8w8k16r3s3", "nhwc", "fp32", "precision fp32 is not one of"),
        ("n1c3h8w8k16r3s3dil2", "nhwc", "fp16", "dilation above 1"),
        ("n1c4h8w8k16r3s3g2", "nhwc", "fp16", "groups above 1"),
        ("n1c3h8w8k16r3s3", "nchw", "bf16", None),
        ("n1c3h4w30000000k16r1s3", "nhwc", "fp16", "no block of rows with its filters fits"),
        ("n1c15h70w70k16r63s63", "nhwc", "fp16", "no block of rows with its filters fits"),
        ("n16777216c1h64w1k8r1s1", "nhwc", "fp16", "2^30 output rows"),
        ("n16384c1h1024w1024k256r1s1", "nhwc", "fp16", "2^38 elements"),
    ],
)
def test_which_problems_are_taken(shape: str, layout: str, precision: str, words: str | None) -> None:
    reason = WGMMA_ROWS.unsupported(ConvProblem.parse(shape, layout=layout, precision=precision), TARGET)
    assert (reason is None) == (words is None)
    assert reason is None or (words is not None and words in reason)


@pytest.mark.parametrize("arch", ["sm_80", "sm_100a", "sm_120a"])
def test_it_needs_hopper(arch: str) -> None:
    assert WGMMA_ROWS.unsupported(ConvProblem.parse("cv1"), preset(arch)) == f"needs sm_90a, the target is {arch}"


# ---- plans and geometry ----


def test_a_plan_packs_the_filter_first() -> None:
    # chunks of 8: rows 4 + 4 + 3 of 11, columns 4 + 4 + 3: 6 planes each, but 5 (36 and 33 of 48 elements) of the last
    problem = ConvProblem.parse("n2c3h31w31k96r11s11st4")
    plan = WGMMA_ROWS.plan(problem, TARGET, config_of(problem, slot_order="columns"))
    assert [launch.template for launch in plan.launches] == ["pack_rows", "wgmma_rows"]
    geometry = WgmmaRowsGeometry(problem=problem, config=config_of(problem, slot_order="columns"))
    assert geometry.chunks == 52
    assert plan.workspace == {"packed": 52 * 96 * 16}


def test_the_grid_is_a_multiple_of_the_blocks_of_channels() -> None:
    problem = ConvProblem.parse("n2c3h9w11k72r3s3")  # 14 output rows
    config = config_of(problem, block_n=32)
    assert WGMMA_ROWS.plan(problem, TARGET, config).launches[-1].grid == (3 * 14, 1, 1)
    assert WGMMA_ROWS.plan(problem, replace(TARGET, sm_count=7), config).launches[-1].grid == (6, 1, 1)
    assert WGMMA_ROWS.plan(problem, replace(TARGET, sm_count=2), config).launches[-1].grid == (3, 1, 1)


def test_sizes_by_hand() -> None:
    # P = 8, Q = 9: a block is 4 rows, a slot 2 columns of 3 channels; 2 blocks, 2 apart, and 4 slots a window
    problem = ConvProblem.parse("n1c3h21w23k32r7s7st2", epilogue="bias")
    config = config_of(problem, block_rows=4, slot_order="columns", ring_blocks=12, raw_stages=2)
    geometry = WgmmaRowsGeometry(problem=problem, config=config)
    assert (geometry.planes, geometry.window_blocks, geometry.window_slots) == (3, 2, 4)
    assert (geometry.halo_blocks, geometry.row_slots) == (2, 12)
    assert geometry.chunks == 2 * (3 * 3 + 2)  # of the last slot one column, 12 elements
    assert geometry.mirrored_blocks == 2 + (63 + 3 + 11) // 12
    assert geometry.raw_bytes == 576  # 15 + 4 * 23 * 3 * 2 + 4, in whole 16
    ring, filters = 3 * (12 + 8) * 12 * 16, 22 * 32 * 16
    assert geometry.smem_bytes == ring + 4 * 576 + filters + 32 * 4 + (24 + 8 + 1) * 8
    assert (config.threads, config.item_slots) == (128 + 64 + 32, 64)


def test_an_nchw_output_is_staged() -> None:
    problem = ConvProblem.parse("n1c3h21w23k32r7s7st2", layout="nhwc-nchw")
    config = config_of(problem, num_consumer_warpgroups=2, item_tiles=2)
    geometry = WgmmaRowsGeometry(problem=problem, config=config)
    nhwc = WgmmaRowsGeometry(problem=replace(problem, y_layout="nhwc"), config=config)
    assert geometry.smem_bytes - nhwc.smem_bytes == geometry.staging_bytes == 2 * 32 * (128 * 2 + 16)
    # so that 64 pairs of pixels hold an item's, wherever it begins
    assert (geometry.item_step, nhwc.item_step) == (126, 128)


GEOMETRIES = {
    "11x11": ("n2c3h31w33k96r11s11st4", "nhwc", {"slot_order": "columns"}),
    "11x11, rows": ("n2c3h31w33k96r11s11st4", "nhwc", {"item_tiles": 2}),
    "7x7": ("n2c3h31w33k64r7s7st2pad3", "nhwc", {"block_rows": 4, "slot_columns": 4}),
    "7x7, NCHW": ("n2c3h31w33k64r7s7st2pad3", "nchw-nhwc", {"block_rows": 4}),
    "5x4": ("n2c5h17w16k200r5s4", "nhwc", {"block_rows": 2, "slot_columns": 3, "block_n": 72}),
    "one": ("n2c1h17w16k8r1s1st3", "nhwc", {"row_order": "units", "unit_rows": 3}),
    "NCHW out": ("n2c3h31w33k64r7s7st2pad3", "nchw", {"num_consumer_warpgroups": 3, "item_tiles": 2}),
    "columns, NCHW": ("n2c7h17w16k24r4s3st1x2", "nchw-nhwc", {"block_rows": 3, "slot_order": "columns"}),
}  # fmt: skip


@pytest.mark.parametrize("name", GEOMETRIES)
def test_the_kernel_derives_the_same_geometry(name: str) -> None:
    shape, layout, changes = GEOMETRIES[name]
    problem = ConvProblem.parse(shape, layout=layout, epilogue="bias")
    config = config_of(problem, **changes)
    geometry = WgmmaRowsGeometry(problem=problem, config=config)
    claims = {
        "PLANES": geometry.planes, "CHUNKS": geometry.chunks, "STEPS": geometry.steps,
        "WINDOW_BLOCKS": geometry.window_blocks, "WINDOW_SLOTS": geometry.window_slots,
        "HALO_BLOCKS": geometry.halo_blocks, "ROW_SLOTS": geometry.row_slots,
        "MIRRORED_BLOCKS": geometry.mirrored_blocks, "RING_BYTES": geometry.ring_bytes,
        "RAW_BYTES": geometry.raw_bytes, "FILTER_BYTES": geometry.filter_bytes, "K_BLOCKS": geometry.blocks_k,
        "STAGING_BYTES": geometry.staging_bytes, "ITEM_STEP": geometry.item_step, "THREADS": config.threads,
    }  # fmt: skip
    lines = [f'static_assert({text} == {value}, "{text}");' for text, value in claims.items()]
    source = convolution(problem, config)
    compile_ptx(Source(source.kernel, source.text + "\n".join(lines) + "\n"), "sm_90a")


# ---- rules and static_asserts ----

SHAPE = "n4c3h32w33k40r7s7st2"
RULE_CASES: list[tuple[str, str, dict[str, Any], dict[str, Any], str | None]] = [
    # the sentence's beginning, shape, a legal config, what breaks the rule, words of what then refuses to go on
    ("block_rows is R", SHAPE, {}, {"block_rows": 3}, "blocks cover a window's rows once"),
    ("block_rows is R", SHAPE, {}, {"block_rows": 8}, "blocks cover a window's rows once"),
    ("slot_columns is S", SHAPE, {}, {"slot_columns": 5}, "slots cover its columns once"),
    ("block_n is", SHAPE, {}, {"block_n": 44}, "the N of wgmma"),
    ("block_n is", SHAPE, {}, {"block_n": 264}, "the N of wgmma"),
    ("num_consumer_warpgroups is", SHAPE, {}, {"num_consumer_warpgroups": 5}, None),
    ("num_consumer_warpgroups is", SHAPE, {}, {"num_transformer_warps": 9, "ring_blocks": 20}, None),
    ("the ring has", SHAPE, {"ring_blocks": 11}, {"ring_blocks": 6}, "fit the ring"),
    ("the ring has", "n1c3h9w200k8r1s1", {}, {"num_transformer_warps": 3}, "a wait tells a round"),
    ("unit_rows is", SHAPE, {}, {"unit_rows": 2}, "strips have no units"),
    ("unit_rows is", SHAPE, {"row_order": "units"}, {"unit_rows": 14}, None),
    ("bursts follow", SHAPE, {}, {"l2_bursts": True}, "bursts follow the units"),
    # 64 x 9 taps in chunks of eight rows of a column, or one each
    ("a window is at most", "n1c1h70w40k8r64s9", {"block_rows": 8}, {"block_rows": 1, "ring_blocks": 140}, None),
    ("the accumulators fit", "n1c3h32w33k256r3s3", {}, {"item_tiles": 2}, None),
    ("ring, raw rows, filters", SHAPE, {}, {"ring_blocks": 400}, None),
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "shape", "legal", "broken", "words"), RULE_CASES, ids=str)
def test_a_rule_breaks(
    sentence: str, shape: str, legal: dict[str, Any], broken: dict[str, Any], words: str | None
) -> None:
    problem = ConvProblem.parse(shape)
    config = replace(config_of(problem, **legal), **broken)
    assert any(found.startswith(sentence) for found in WGMMA_ROWS.broken_rules(problem, TARGET, config))
    if words is not None:
        with pytest.raises((CompileError, ValueError), match=words):
            compile_ptx(convolution(problem, config), "sm_90a")


def test_every_rule_has_a_case() -> None:
    for rule in RULES:
        assert any(rule.sentence.startswith(case[0]) for case in RULE_CASES), rule.sentence


# ---- machine code ----


@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
@pytest.mark.parametrize(("layer", "products"), [("cv1", 26), ("cv2", 26), ("cv3", 11), ("cv7", 3)])
def test_the_default_compiles_to_tensor_core_code_without_spills(layer: str, products: int, layout: str) -> None:
    problem = ConvProblem.parse(layer, layout=layout)
    config = WGMMA_ROWS.default(problem, TARGET)
    assert isinstance(config, WgmmaRowsConfig)
    cubin = compile_cubin(convolution(problem, config), "sm_90a")
    counts = instruction_counts(cubin)
    assert counts["HGMMA"] == products * config.item_tiles
    assert ("STSM" in counts) == (layout == "nchw")
    assert counts["UBLKCP"] >= 2
    assert not {"LDL", "STL", "HMMA"} & counts.keys()
    assert cubin.spill_bytes == 0
    assert cubin.num_regs <= config.registers(TARGET)
    assert cubin.smem_bytes <= 1024  # all else is dynamic; 1 KiB is the system's


def test_an_early_launch_waits_before_it_reads() -> None:
    problem = ConvProblem.parse("cv3", epilogue="bias")
    listing = disassemble(compile_cubin(convolution(problem, config_of(problem, programmatic_launch=True)), "sm_90a"))
    assert "PREEXIT" in listing  # griddepcontrol.launch_dependents
    before, wait, after = listing.partition("ACQBULK")  # griddepcontrol.wait
    assert wait
    assert "UBLKCP" not in before
    assert "LDG" not in before
    assert "UBLKCP" in after
