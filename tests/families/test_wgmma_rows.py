"""wgmma_rows: which problems, plans, rules against the kernel's static_asserts, the geometry of both, machine code."""

from dataclasses import replace
from typing import Any

import pytest
from wgmma_rows_cases import BULK, CHANNELS, TARGET, config_of

from im2wingen.errors import CompileError
from im2wingen.families.tensor_map import TensorMap
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
        ("n1c3h8w8k16r3s3", "nhwc", "fp64", "precision fp64 is not one of"),
        ("n1c3h8w8k16r3s3", "nchw-nhwc", "tf32", None),
        ("n1c3h8w8k16r3s3", "nhwc-nchw", "fp32", None),
        ("n1c3h8w8k16r3s3dil2", "nhwc", "fp16", None),
        ("n1c3h9w9k16r3s3st2dil3x2", "nhwc", "fp16", "a vertical dilation above 1 must be a multiple of the stride"),
        ("n1c3h9w9k16r1s3st2dil3", "nhwc", "fp16", "a horizontal dilation above 1"),
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
    assert geometry.smem_bytes == ring + 4 * 576 + filters + (24 + 8 + 1 + 1) * 8
    assert (config.threads, config.item_slots) == (128 + 64 + 32, 64)


def test_sizes_of_4_byte_elements_by_hand() -> None:
    # the same block: 24 elements a slot; tf32 in chunks of 4, fp32 in two parts of chunks of 8
    config = config_of(ConvProblem.parse("n1c3h21w23k32r7s7st2"), block_rows=4, ring_blocks=12, raw_stages=2)
    tf32, fp32 = (
        WgmmaRowsGeometry(problem=ConvProblem.parse("n1c3h21w23k32r7s7st2", precision=precision), config=config)
        for precision in ("tf32", "fp32")
    )
    # rows of a slot are 6 elements; a window has 4 and 3 of them, of 4 slots the last one has one column
    assert (tf32.planes, tf32.block_chunks, tf32.chunks) == (6, (3 * 6 + 6, 3 * 5 + 4), 44)
    assert (fp32.planes, fp32.block_chunks) == (3, (3 * 3 + 3, 3 * 3 + 2 + 1))
    assert (fp32.steps, fp32.products, fp32.partial_sums, fp32.accumulators) == (12, 36, 2 + 2, 3 * 16)
    assert tf32.ring_bytes == fp32.ring_bytes == 6 * (12 + 8) * 12 * 16
    assert fp32.filter_bytes == 2 * 24 * 32 * 16 + 32 * 8
    assert fp32.smem_bytes - fp32.ring_bytes - fp32.filter_bytes == 4 * 1136 + (20 + 4) * 8 + (24 + 8 + 1 + 1) * 8


def test_items_of_a_row_need_no_copies_of_blocks() -> None:
    problem = ConvProblem.parse("n1c3h21w231k32r7s7st2")  # Q = 113
    apart, joined = (
        WgmmaRowsGeometry(problem=problem, config=config_of(problem, row_items=row_items, block_rows=4))
        for row_items in (True, False)
    )
    assert (apart.items(8), joined.items(8)) == (8 * 2, (8 * 116 - 3 + 63) // 64)
    assert (apart.mirrored_blocks, apart.least_ring) == (0, 3)
    assert (joined.mirrored_blocks, joined.least_ring) == (2 + 1, 4)


def test_a_dilated_window_takes_a_row_of_each_block() -> None:
    problem = ConvProblem.parse("n1c3h21w23k32r3s3st1x2dil2x4")
    geometry = WgmmaRowsGeometry(problem=problem, config=config_of(problem, block_rows=1, slot_columns=1))
    assert (geometry.window_blocks, geometry.window_slots) == (3, 3)
    assert (geometry.halo_blocks, geometry.row_slots) == (2 * 2, 8 + 2 * 2)


@pytest.mark.parametrize(
    ("consumers", "transformers", "registers"),
    # of 65536: 384, 512 and 640 threads begin with 168, 128 and 96; four or eight warps keep 80
    [(2, 3, 208), (3, 3, 144), (2, 7, 176), (2, 4, 0), (4, 3, 96)],
)
def test_consumers_of_fp32_ask_for_registers(consumers: int, transformers: int, registers: int) -> None:
    problem = ConvProblem.parse("n1c3h21w23k32r7s7st2", precision="fp32")
    changes = {"num_consumer_warpgroups": consumers, "num_transformer_warps": transformers}
    geometry = WgmmaRowsGeometry(problem=problem, config=config_of(problem, **changes))
    assert geometry.consumer_registers(TARGET) == registers
    half = replace(geometry, problem=replace(problem, precision="fp16"))
    assert half.consumer_registers(TARGET) == 0


def test_an_nchw_output_is_staged() -> None:
    problem = ConvProblem.parse("n1c3h21w23k32r7s7st2", layout="nhwc-nchw")
    config = config_of(problem, num_consumer_warpgroups=2, item_tiles=2)
    geometry = WgmmaRowsGeometry(problem=problem, config=config)
    held = replace(geometry, config=replace(config, staged_y=False))
    # 8 x 9 pixels are less than two items of 128: the segment may change between any of those, by two sectors each time
    assert geometry.staging_bytes == 32 * (2 * 128 * 2 + 2 * 2 * 32 + 16)
    assert geometry.smem_bytes - held.smem_bytes == geometry.staging_bytes + 2 * 6 * 8
    # four consumers of 64 pixels with long strips and with units
    large = replace(geometry, problem=ConvProblem.parse("n1c3h224w224k64r3s3", layout="nchw", precision="tf32"))
    four = config_of(large.problem, num_consumer_warpgroups=4)
    units = replace(four, row_order="units", unit_rows=2)
    assert replace(large, config=four).staging_bytes == 64 * (4 * 64 * 4 + 2 * 2 * 32 + 16)
    assert replace(large, config=units).staging_bytes == 64 * (4 * 64 * 4 + 4 * 2 * 32 + 16)


def test_what_leaves_by_bulk_copies_begins_with_sectors() -> None:
    problem = ConvProblem.parse("n1c3h131w133k64r3s3", layout="nchw")
    stored = config_of(problem, num_consumer_warpgroups=2)
    copied = replace(stored, bulk_store=True, copied_items=3)
    geometry, before = (WgmmaRowsGeometry(problem=problem, config=config) for config in (copied, stored))
    # an item of each consumer and two times three; pairs of channels, and a sector that brings them to other banks
    assert geometry.staging_bytes == 32 * (2 * ((2 + 6) * 64 * 2 + 2 * 2 * 32) + 32)
    assert copied.threads == stored.threads + 4 * 32
    whole = before.ring_bytes + 2 * before.raw_bytes + before.filter_bytes
    barriers = (2 * stored.ring_blocks + 2 * 2 + 2 + 1 + 2 * (2 * 3 + 3 * 2)) * 8
    assert geometry.smem_bytes == -(-whole // 32) * 32 + geometry.staging_bytes + barriers


def test_channels_as_rows_take_even_parts_of_a_row() -> None:
    problem = ConvProblem.parse("n1c3h224w224k40r3s3")  # Q = 222
    config = config_of(problem, **CHANNELS, num_consumer_warpgroups=3, num_transformer_warps=3, block_rows=3)
    slots = {1: 64, 2: 112, 4: 224}
    for tiles, count in slots.items():
        geometry = WgmmaRowsGeometry(problem=problem, config=replace(config, item_tiles=tiles))
        assert (geometry.item_slots, geometry.items(1)) == (count, -(-222 // count))
        assert geometry.accumulators == count // 2 + 4 * geometry.steps
        assert geometry.staging_bytes == 3 * count * 128  # an item of each consumer
        whole = geometry.ring_bytes + 3 * geometry.raw_bytes + geometry.filter_bytes
        barriers = (2 * config.ring_blocks + 2 * 3 + 3 + 1) * 8
        assert geometry.smem_bytes == -(-whole // 1024) * 1024 + geometry.staging_bytes + barriers
    (store,) = WGMMA_ROWS.plan(problem, TARGET, replace(config, item_tiles=2)).launches[-1].arguments[-1]
    assert isinstance(store, TensorMap)
    assert (store.dims, store.box) == ((40, 222, 222), (64, 112, 1))


GEOMETRIES = {
    "11x11": ("n2c3h31w33k96r11s11st4", "nhwc", {"slot_order": "columns"}),
    "11x11, rows": ("n2c3h31w33k96r11s11st4", "nhwc", {"item_tiles": 2}),
    "7x7": ("n2c3h31w33k64r7s7st2pad3", "nhwc", {"block_rows": 4, "slot_columns": 4}),
    "7x7, NCHW": ("n2c3h31w33k64r7s7st2pad3", "nchw-nhwc", {"block_rows": 4}),
    "5x4": ("n2c5h17w16k200r5s4", "nhwc", {"block_rows": 2, "slot_columns": 3, "block_n": 72}),
    "one": ("n2c1h17w16k8r1s1st3", "nhwc", {"row_order": "units", "unit_rows": 3}),
    "NCHW out": ("n2c3h31w33k64r7s7st2pad3", "nchw", {"num_consumer_warpgroups": 3, "item_tiles": 2}),
    "columns, NCHW": ("n2c7h17w16k24r4s3st1x2", "nchw-nhwc", {"block_rows": 3, "slot_order": "columns"}),
    "row items": ("n2c3h31w133k96r11s11st4", "nchw", {"row_items": True, "item_tiles": 2}),
    "units, NCHW out": ("n2c3h131w133k64r3s3", "nchw", {"num_consumer_warpgroups": 4, "row_order": "units"}),
    "strips, NCHW out": ("n2c3h131w133k64r3s3", "nchw", {"num_consumer_warpgroups": 4}),
    "dilated": ("n2c3h31w33k64r3s3st1x2dil3x2", "nhwc", {"block_rows": 1, "slot_columns": 1}),
    "tf32": ("n2c3h31w33k96r7s7st2pad3", "nchw", {"item_tiles": 2, "precision": "tf32"}),
    "fp32": ("n2c3h31w33k96r11s11st4", "nhwc", {"block_n": 48, "precision": "fp32"}),
    "tf32, NCHW out": ("n2c3h31w33k96r7s7st2pad3", "nchw", {"staged_y": False, "precision": "tf32"}),
    "fp32, short, NCHW out": ("n2c3h17w16k24r3s3", "nchw", {"num_consumer_warpgroups": 4, "precision": "fp32"}),
    "bulk": ("n2c3h131w133k64r3s3", "nchw", {"num_consumer_warpgroups": 2, "item_tiles": 2} | BULK),
    "bulk, short segments": ("n2c3h31w33k96r7s7st2pad3", "nchw", BULK),
    "bulk, fp32": ("n2c3h131w133k64r3s3", "nchw", {"num_consumer_warpgroups": 3, "precision": "fp32"} | BULK),
    "channels": ("n2c3h31w233k64r7s7st2pad3", "nhwc", {"item_tiles": 2, "num_transformer_warps": 3} | CHANNELS),
    "channels, tf32": ("n2c3h31w33k68r7s7st2", "nchw-nhwc", {"precision": "tf32", "slot_columns": 4} | CHANNELS),
    "channels, NCHW out": ("n2c3h31w233k64r7s7st2pad3", "nchw", {"num_transformer_warps": 3} | CHANNELS | BULK),
    "scaled": ("n2c3h31w33k96r7s7st2pad3", "nhwc", {"precision": "tf32", "scaled": True}),
    "scaled, NCHW out": ("n2c3h31w33k64r7s7st2pad3", "nchw", {"precision": "tf32", "scaled": True} | BULK),
    "fp32, NCHW out": ("n2c5h17w16k24r5s4", "nhwc-nchw", {"num_consumer_warpgroups": 3, "precision": "fp32"}),
}  # fmt: skip


@pytest.mark.parametrize("name", GEOMETRIES)
def test_the_kernel_derives_the_same_geometry(name: str) -> None:
    shape, layout, changes = GEOMETRIES[name]
    changes = dict(changes)
    problem = ConvProblem.parse(shape, layout=layout, precision=changes.pop("precision", "fp16"), epilogue="bias")
    config = config_of(problem, **changes)
    geometry = WgmmaRowsGeometry(problem=problem, config=config)
    claims = {
        "PLANES": geometry.planes, "CHUNKS": geometry.chunks, "STEPS": geometry.steps,
        "WINDOW_BLOCKS": geometry.window_blocks, "WINDOW_SLOTS": geometry.window_slots,
        "HALO_BLOCKS": geometry.halo_blocks, "ROW_SLOTS": geometry.row_slots,
        "MIRRORED_BLOCKS": geometry.mirrored_blocks, "RING_BYTES": geometry.ring_bytes,
        "RAW_BYTES": geometry.raw_bytes, "FILTER_BYTES": geometry.filter_bytes, "K_BLOCKS": geometry.blocks_k,
        "STAGING_BYTES": geometry.staging_bytes, "ITEM_SLOTS": geometry.item_slots, "kOutputMap": geometry.output_map,
        "CONSUMER_REGISTERS": geometry.consumer_registers(TARGET),
        "THREADS": config.threads, "kCopyingWarps": config.copying_warps,
    }  # fmt: skip
    if geometry.split:
        claims["partial_sums().count"] = geometry.partial_sums
    if config.row_items:
        claims["ROW_ITEMS"] = geometry.items(1)
    lines = [f'static_assert({text} == {int(value)}, "{text}");' for text, value in claims.items()]
    source = convolution(problem, config)
    compile_ptx(Source(source.kernel, source.text + "\n".join(lines) + "\n"), "sm_90a")


# ---- rules and static_asserts ----

SHAPE, DILATED = "n4c3h32w33k40r7s7st2", "n4c3h32w33k40r3s3st1x2dil2"
MANY_CHANNELS = CHANNELS | {"num_consumer_warpgroups": 2, "num_transformer_warps": 7, "item_tiles": 2, "block_rows": 3}
PIXELS = CHANNELS | {"channel_rows": False}
RULE_CASES: list[tuple[str, str, dict[str, Any], dict[str, Any], str | None]] = [
    # the sentence's beginning, shape, a legal config, what breaks the rule, words of what then refuses to go on
    ("block_rows is R", SHAPE, {}, {"block_rows": 3}, "blocks cover a window's rows once"),
    ("block_rows is R", SHAPE, {}, {"block_rows": 8}, "blocks cover a window's rows once"),
    ("slot_columns is S", SHAPE, {}, {"slot_columns": 5}, "slots cover its columns once"),
    ("block_n is", SHAPE, {}, {"block_n": 44}, "the N of wgmma"),
    ("block_n is", SHAPE, {}, {"block_n": 264}, "the N of wgmma"),
    ("num_consumer_warpgroups is", SHAPE, {}, {"num_consumer_warpgroups": 5}, None),
    ("num_consumer_warpgroups is", SHAPE, {}, {"num_transformer_warps": 9, "ring_blocks": 20}, None),
    ("an NHWC y is", SHAPE, {}, {"staged_y": True}, "an NHWC y is stored as threads hold it"),
    ("an NHWC y is", SHAPE + "/nchw", {}, {"staged_y": False}, "threads hold single elements"),
    ("bulk_store needs", SHAPE, {}, {"bulk_store": True}, "bulk copies leave staging"),
    ("channel_rows needs", SHAPE, {"row_items": True}, {"channel_rows": True}, "64 channels are rows"),
    ("channel_rows needs", SHAPE, {"block_n": 64}, {"channel_rows": True}, "64 channels are rows"),
    ("channel_rows needs", SHAPE + "/nchw", PIXELS, {"channel_rows": True}, "bulk copies or TMA"),
    ("channel_rows needs", "n4c3h32w33k36r7s7st2", PIXELS, {"channel_rows": True}, "strides are"),
    ("copied_items is", SHAPE + "/nchw", {}, {"copied_items": 2}, None),
    ("item_tiles is", SHAPE + "/nchw", {}, {"item_tiles": 3}, "the same 16 bytes of each channel"),
    ("multiplying_consumers", SHAPE, {"num_consumer_warpgroups": 3}, {"multiplying_consumers": 2}, "tells a turn"),
    ("team_warps divides", SHAPE, {"num_transformer_warps": 6}, {"team_warps": 4}, "a team is some"),
    ("the ring has", SHAPE, {"ring_blocks": 11}, {"ring_blocks": 6}, "fit the ring"),
    ("the ring has", "n1c3h9w200k8r1s1", {}, {"num_transformer_warps": 3}, "a wait tells a round"),
    ("unit_rows is", SHAPE, {}, {"unit_rows": 2}, "strips have no units"),
    ("unit_rows is", SHAPE, {"row_order": "units"}, {"unit_rows": 14}, None),
    ("block_rows is R", DILATED, {"slot_columns": 1}, {"block_rows": 3}, "blocks cover a window's rows once"),
    ("slot_columns is S", DILATED, {"slot_columns": 1}, {"slot_columns": 2}, "slots cover its columns once"),
    ("bursts follow", SHAPE, {}, {"l2_bursts": True}, "bursts follow the units"),
    ("early_packing, fp32", SHAPE, {"early_packing": True}, {"pack_kernel": False}, None),
    ("scaled is", SHAPE, {}, {"scaled": True}, "an fp32 is split"),
    # 64 x 9 taps in chunks of eight rows of a column, or one each
    ("a window is at most", "n1c1h70w40k8r64s9", {"block_rows": 8}, {"block_rows": 1, "ring_blocks": 140}, None),
    ("the accumulators fit", "n1c3h32w33k256r3s3", {}, {"item_tiles": 2}, None),
    ("the accumulators fit", "n1c3h9w224k64r3s3", MANY_CHANNELS, {"item_tiles": 4}, "Insufficient registers"),
    ("ring, raw rows, filters", SHAPE, {}, {"ring_blocks": 400}, None),
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "shape", "legal", "broken", "words"), RULE_CASES, ids=str)
def test_a_rule_breaks(
    sentence: str, shape: str, legal: dict[str, Any], broken: dict[str, Any], words: str | None
) -> None:
    shape, _, layout = shape.partition("/")
    problem = ConvProblem.parse(shape, layout=layout or "nhwc")
    config = replace(config_of(problem, **legal), **broken)
    assert any(found.startswith(sentence) for found in WGMMA_ROWS.broken_rules(problem, TARGET, config))
    if words is not None:
        with pytest.raises((CompileError, ValueError), match=words):
            compile_cubin(convolution(problem, config), "sm_90a")


def test_every_rule_has_a_case() -> None:
    for rule in RULES:
        assert any(rule.sentence.startswith(case[0]) for case in RULE_CASES), rule.sentence


# ---- machine code ----


COMPILED = [
    *((layer, "fp16", layout, products) for layer, products in (("cv1", 26), ("cv2", 26), ("cv3", 11))
      for layout in ("nhwc", "nchw")),
    ("cv7", "fp16", "nhwc", 3), ("cv7", "fp16", "nchw", 2),
    ("cv1", "tf32", "nhwc", 26), ("conv1", "tf32", "nchw", 22), ("cv7", "tf32", "nchw", 5),
    ("cv1", "fp32", "nhwc", 78), ("cv2", "fp32", "nchw", 78), ("cv3", "fp32", "nhwc", 33), ("cv7", "fp32", "nhwc", 6),
    ("cv7", "fp32", "nchw", 6), ("conv1", "fp32", "nchw", 33),
]  # fmt: skip


@pytest.mark.parametrize(("layer", "precision", "layout", "products"), COMPILED)
def test_the_default_compiles_to_tensor_core_code_without_spills(
    layer: str, precision: str, layout: str, products: int
) -> None:
    shape = "n128c3h224w224k64r7s7st2pad3" if layer == "conv1" else layer  # of ResNet-50
    problem = ConvProblem.parse(shape, layout=layout, precision=precision)
    config = WGMMA_ROWS.default(problem, TARGET)
    assert isinstance(config, WgmmaRowsConfig)
    cubin = compile_cubin(convolution(problem, config), "sm_90a")
    counts = instruction_counts(cubin)
    assert counts["HGMMA"] == products * (1 if precision == "fp32" or config.channel_rows else config.item_tiles)
    assert config.channel_rows == ((layer, precision) == ("cv3", "fp16"))
    assert counts.get("UTMASTG", 0) == (config.channel_rows and layout == "nhwc")
    assert counts["UBLKCP"] >= 1 + config.pack_kernel
    assert not {"LDL", "STL", "HMMA"} & counts.keys()
    assert cubin.spill_bytes == 0
    assert "C7512" not in cubin.log  # products one by one, for want of registers
    assert cubin.num_regs <= config.registers(TARGET)
    if precision == "fp32" or config.scaled or config.channel_rows:  # consumers ask for what is left of these
        assert counts["USETMAXREG"] == 2
        assert cubin.num_regs == config.registers(TARGET)
    assert cubin.smem_bytes <= 1024  # all else is dynamic; 1 KiB is the system's


@pytest.mark.parametrize("early_packing", [False, True])
@pytest.mark.parametrize("precision", ["fp16", "fp32"])
def test_an_early_launch_waits_for_the_packed_filters(precision: str, early_packing: bool) -> None:
    problem = ConvProblem.parse("cv3", epilogue="bias", precision=precision)
    plan = WGMMA_ROWS.plan(problem, TARGET, config_of(problem, programmatic_launch=True, early_packing=early_packing))
    pack, multiply = (disassemble(compile_cubin(render(launch), "sm_90a")) for launch in plan.launches)
    # all before the packing has ended when that lets the other one begin
    assert [launch.beside for launch in plan.launches] == [False, True]
    # with a packed filter the kernel before this one is not the plan's, and may write x
    assert [launch.programmatic for launch in plan.launches] == [early_packing, False]
    before, trigger, _ = pack.partition("PREEXIT")  # griddepcontrol.launch_dependents
    assert trigger
    assert "LDG" not in before
    assert ("ACQBULK" in before) == early_packing  # griddepcontrol.wait
    _, wait, after = multiply.partition("ACQBULK")  # griddepcontrol.wait, which rows of x need not
    assert wait
    assert "UBLKCP" in after
