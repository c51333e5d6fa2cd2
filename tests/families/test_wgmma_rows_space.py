"""What the search space of the wgmma_rows family promises for first layers and for odd problems."""

import itertools

import pytest
from wgmma_rows_cases import TARGET

from im2wingen.families.wgmma_rows import WGMMA_ROWS
from im2wingen.families.wgmma_rows_config import WgmmaRowsConfig
from im2wingen.families.wgmma_rows_space import shapes
from im2wingen.problem import ConvProblem

LAYERS = (
    "cv1", "cv2", "cv3", "cv7",
    "n128c3h224w224k64r7s7st2pad3",  # ResNet-50
    "n128c3h224w224k64r3s3pad1",  # VGG-16
)  # fmt: skip
ODD = (
    "n1c1h1w1k1r1s1",  # one pixel
    "n2c8h1w700k8r1s3",  # one long row
    "n3c3h700w1k72r3s1",  # one long column
    "n2c1h70w70k8r33s33",  # many taps
    "n8c1h1w400k32r1s16st1x4",  # audio
    "n2c3h28w28k32r16s16st16",  # two patches a row
    "n257c15h5w5k300r3s3pad2",  # K in blocks, a prime number of images
    "n1c3h1080w1500k16r3s3",  # a picture
    "n2c5h33w35k24r5s4st3x2pad1,0,2,1",
)


@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
@pytest.mark.parametrize("shape", [*LAYERS, *ODD])
def test_every_pick_is_legal(shape: str, layout: str) -> None:
    problem = ConvProblem.parse(shape, layout=layout)
    assert WGMMA_ROWS.unsupported(problem, TARGET) is None
    candidates = shapes(problem, TARGET)
    assert 0 < len(candidates) <= 10
    assert all(WGMMA_ROWS.broken_rules(problem, TARGET, config) == [] for config in candidates.values())
    configs = list(itertools.islice(WGMMA_ROWS.random_configs(problem, TARGET, 1), 60))
    assert [WGMMA_ROWS.broken_rules(problem, TARGET, config) for config in configs] == [[]] * 60
    default = WGMMA_ROWS.default(problem, TARGET)
    assert WGMMA_ROWS.broken_rules(problem, TARGET, default) == []
    assert WGMMA_ROWS.choices_of(problem, TARGET, default) is not None
    if shape in LAYERS:  # the space holds several ways
        assert len({(config.block_rows, config.slot_columns) for config in candidates.values()}) >= 3
        assert len(set(configs)) > 40


# The fastest ones of an H200, of those that were measured, or next to it (cv2): rows, columns and order of a slot,
# whether channels are wgmma's rows, tiles, consumers and transformers, and how output rows are shared out.
MEASURED = {
    "cv1": (4, 4, "rows", False, 1, 3, 4, "strips"),
    "cv2": (4, 4, "rows", False, 1, 3, 4, "strips"),
    "cv3": (2, 4, "rows", True, 2, 3, 3, "strips"),
    "n32c3h224w224k64r7s7st2pad3": (2, 4, "rows", True, 2, 3, 3, "strips"),
    "n8c3h224w224k64r7s7st2pad3": (4, 2, "columns", False, 1, 3, 4, "strips"),  # few rows a CTA
    "n128c8h64w64k64r5s5st2": (2, 2, "rows", False, 1, 3, 4, "strips"),  # short rows
    "cv7": (3, 1, "rows", False, 2, 3, 3, "units"),
    "n128c3h224w224k64r3s3pad1": (3, 1, "rows", False, 2, 3, 3, "units"),
}


@pytest.mark.parametrize("layer", MEASURED)
def test_the_default_is_what_measured_best(layer: str) -> None:
    config = WGMMA_ROWS.default(ConvProblem.parse(layer), TARGET)
    assert isinstance(config, WgmmaRowsConfig)
    assert MEASURED[layer] == (
        config.block_rows, config.slot_columns, config.slot_order, config.channel_rows, config.item_tiles,
        config.num_consumer_warpgroups, config.num_transformer_warps, config.row_order,
    )  # fmt: skip
    assert config.l2_bursts == (config.row_order == "units")


@pytest.mark.parametrize(
    ("layer", "layout", "precision", "bulk_store"),
    [
        ("cv7", "nchw", "fp16", True),
        ("cv7", "nhwc-nchw", "bf16", True),
        ("cv7", "nhwc", "fp16", False),  # nothing is staged
        ("cv7", "nchw", "fp32", False),  # blocks need the room
        ("cv7", "nchw", "tf32", False),
        ("cv3", "nchw", "fp16", True),  # with channels as rows
        ("cv1", "nchw", "fp16", False),  # products take as long as y
        ("n8c3h224w224k64r3s3", "nchw", "fp16", False),  # y is not much larger than L2
    ],
)
def test_a_large_output_leaves_by_bulk_copies(layer: str, layout: str, precision: str, *, bulk_store: bool) -> None:
    problem = ConvProblem.parse(layer, layout=layout, precision=precision)
    config = WGMMA_ROWS.default(problem, TARGET)
    assert isinstance(config, WgmmaRowsConfig)
    assert config.bulk_store == bulk_store
    if problem.y_layout == "nchw":  # tuning tries both
        configs = itertools.islice(WGMMA_ROWS.random_configs(problem, TARGET, 1), 60)
        assert {config.bulk_store for config in configs if isinstance(config, WgmmaRowsConfig)} == {False, True}


@pytest.mark.parametrize(
    ("layer", "layout", "scaled"),
    [
        # faster on an H200
        ("cv1", "nhwc", True),
        ("n128c6h64w64k64r11s11st4", "nchw", True),
        ("n128c3h224w224k768r16s16st16", "nhwc", True),
        # slower there
        ("cv7", "nhwc", False),
        ("cv7", "nchw", False),
        ("n32c3h224w224k64r3s3pad1", "nhwc", False),
        ("n128c8h64w64k64r5s5st2", "nchw", False),
        ("n8c8h64w64k64r7s7st2", "nhwc", False),
    ],
)
def test_tf32_is_scaled_where_there_is_much_to_multiply(layer: str, layout: str, *, scaled: bool) -> None:
    problem = ConvProblem.parse(layer, layout=layout, precision="tf32")
    config = WGMMA_ROWS.default(problem, TARGET)
    assert isinstance(config, WgmmaRowsConfig)
    assert config.scaled == scaled
    assert WGMMA_ROWS.plan(problem, TARGET, config).arithmetic == ("scaled" if scaled else "direct")


def test_tuning_scales_tf32_or_not() -> None:
    configs = itertools.islice(WGMMA_ROWS.random_configs(ConvProblem.parse("cv3", precision="tf32"), TARGET, 1), 60)
    assert {config.scaled for config in configs if isinstance(config, WgmmaRowsConfig)} == {False, True}


# Of fp32: consumers, transformers of how many warps a team, buffers of raw rows. The last has few rows a CTA.
MEASURED_SPLIT = {
    ("cv1", "nhwc"): (2, 7, 7, 2),
    ("cv2", "nchw"): (2, 7, 7, 2),
    ("cv3", "nhwc"): (3, 3, 1, 2),
    ("cv3", "nchw"): (3, 3, 1, 1),
    ("n8c3h227w227k64r7s7st2", "nchw"): (3, 3, 1, 2),
}


@pytest.mark.parametrize(("layer", "layout"), MEASURED_SPLIT)
def test_the_default_of_fp32_is_what_measured_best(layer: str, layout: str) -> None:
    config = WGMMA_ROWS.default(ConvProblem.parse(layer, layout=layout, precision="fp32"), TARGET)
    assert isinstance(config, WgmmaRowsConfig)
    assert MEASURED_SPLIT[layer, layout] == (
        config.num_consumer_warpgroups, config.num_transformer_warps, config.team_warps, config.raw_stages,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "order"),
    [
        ("n8c4h64w64k64r3s3st3", "units"),  # two rows a CTA: they wait for x
        ("n8c6h64w64k64r1s16st4", "units"),  # likewise, though products take more than half as long
        ("n32c1h64w64k64r11s11st4", "strips"),  # in units, half of each product would be empty
        ("n128c4h64w64k64r3s3st3", "strips"),  # many short rows: units would be half empty
        ("n8c3h224w224k64r3s3", "units"),  # long rows
        ("n1c4h64w64k64r3s3st3", "strips"),  # one row a CTA is a unit anyway
        ("n8c6h64w64k64r11s11st3", "strips"),  # products take longer than x and y
    ],
)
def test_units_suit_long_rows_and_brief_ctas(shape: str, order: str) -> None:
    config = WGMMA_ROWS.default(ConvProblem.parse(shape), TARGET)
    assert isinstance(config, WgmmaRowsConfig)
    assert (config.row_order, config.l2_bursts) == (order, order == "units")


@pytest.mark.parametrize(
    ("shape", "by_kernel"),
    [
        ("n1c4h64w64k64r3s3st3", False),  # six chunks of a filter
        ("n1c8h64w64k64r5s5st2", True),  # twenty-six, in two rounds
    ],
)
def test_a_kernel_packs_filters_of_many_chunks(shape: str, by_kernel: bool) -> None:
    config = WGMMA_ROWS.default(ConvProblem.parse(shape), TARGET)
    assert isinstance(config, WgmmaRowsConfig)
    assert config.pack_kernel == by_kernel


@pytest.mark.parametrize(
    "shape",
    [
        "n1c3h2160w7680k16r3s3",  # a ring of rows is larger than shared memory
        "n1c3h4w30000000k16r1s3",  # one row is
        "n1c15h70w70k16r63s63",  # so are the filters of eight channels
    ],
)
def test_a_window_that_does_not_fit_is_refused(shape: str) -> None:
    problem = ConvProblem.parse(shape)
    assert not shapes(problem, TARGET)
    assert WGMMA_ROWS.unsupported(problem, TARGET) == "no block of rows with its filters fits shared memory"
