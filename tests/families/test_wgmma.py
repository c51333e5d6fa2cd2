"""wgmma: plans and their tensor maps, rules against the kernel's static_asserts, the geometry of both, machine code."""

import itertools
from dataclasses import replace
from typing import Any

import pytest
from wgmma_cases import TARGET, config_of

from im2wingen.errors import CompileError
from im2wingen.families.base import TensorMap
from im2wingen.families.wgmma import WGMMA
from im2wingen.families.wgmma_axes import Axis, flattened
from im2wingen.families.wgmma_config import WgmmaConfig
from im2wingen.families.wgmma_geometry import WgmmaGeometry
from im2wingen.families.wgmma_rules import RULES
from im2wingen.families.wgmma_space import shapes
from im2wingen.families.wgmma_split_rules import SPLIT_RULES
from im2wingen.nvrtc import compile_cubin, compile_ptx
from im2wingen.problem import ConvProblem
from im2wingen.render import Source, render
from im2wingen.sass import disassemble, instruction_counts
from im2wingen.target import preset


def convolution(problem: ConvProblem, config: WgmmaConfig) -> Source:
    """The text of the multiplying kernel."""
    return render(WGMMA.plan(problem, TARGET, config).launches[-1])


# ---- which problems ----


@pytest.mark.parametrize(
    ("shape", "layout", "precision", "words"),
    [
        ("n1c12h8w8k16r3s3", "nhwc", "fp16", "C and K must be multiples of 8"),
        ("n1c16h8w8k12r3s3", "nhwc", "bf16", "C and K must be multiples of 8"),
        ("n1c16h8w8k16r3s3", "nhwc", "fp64", "precision fp64 is not one of"),
        ("n1c6h8w8k16r3s3", "nhwc", "fp32", "in NHWC, C must be a multiple of 4"),
        ("n1c8h8w8k5r3s3", "nhwc", "fp32", None),
        ("n1c16h2w8k16r1s1st3x1", "nhwc", "fp16", "a stride leaves taps"),
        # the second row of planes would begin below the image
        ("n1c16h1w8k16r2s1st2x1pad1,0,0,0dil1", "nhwc", "fp16", "a stride leaves taps"),
        ("n1c2048h2048w2048k8r1s1", "nhwc", "fp16", None),  # 2^33 elements
        # each row of a patch of one output has 249 columns, and there are 249 rows
        ("n1c64h300w300k64r249s249", "nhwc", "fp16", "no patch with its filters fits shared memory"),
    ],
)
def test_which_problems_are_taken(shape: str, layout: str, precision: str, words: str | None) -> None:
    reason = WGMMA.unsupported(ConvProblem.parse(shape, layout=layout, precision=precision), TARGET)
    assert (reason is None) == (words is None)
    assert reason is None or (words is not None and words in reason)


@pytest.mark.parametrize("arch", ["sm_80", "sm_100a", "sm_120a"])
def test_it_needs_hopper(arch: str) -> None:
    assert WGMMA.unsupported(ConvProblem.parse("cv5"), preset(arch)) == f"needs sm_90a, the target is {arch}"


# ---- plans ----


def maps_of(problem: ConvProblem, config: WgmmaConfig) -> tuple[tuple[TensorMap, ...], TensorMap, TensorMap]:
    """Of x, one a plane; of the filter; of y."""
    x, w, y, *rest = WGMMA.plan(problem, TARGET, config).launches[-1].arguments
    assert isinstance(x, tuple)
    assert isinstance(w, tuple)
    assert isinstance(y, tuple)
    assert rest == ["bias", "y", "x", "w", w[0].array, x[0].array]
    return x, w[0], y[0]


def test_maps_of_a_dense_problem() -> None:
    problem = ConvProblem.parse("n3c24h9w11k40r3s3")
    config = config_of(problem, tile=(2, 3, 5), l2_promotion_bytes=256)
    assert maps_of(problem, config) == (
        (
            TensorMap(
                array="x", element="fp16", dims=(24, 3, 11, 9), strides_bytes=(9 * 11 * 48, 48, 11 * 48),
                box=(64, 2, 7, 5), swizzle_bytes=128, l2_promotion_bytes=256,
            ),
        ),
        TensorMap(
            array="w", element="fp16", dims=(24, 9, 40), strides_bytes=(48, 9 * 48), box=(64, 1, 64),
            swizzle_bytes=128, l2_promotion_bytes=256,
        ),
        # P = 7, Q = 9
        TensorMap(
            array="y", element="fp16", dims=(40, 3, 9, 7), strides_bytes=(7 * 9 * 80, 80, 9 * 80),
            box=(64, 2, 5, 1), swizzle_bytes=128,
        ),
    )  # fmt: skip


def test_a_1x1_layer_is_rows_of_pixels() -> None:
    problem = ConvProblem.parse("n2c24h7w7k40r1s1")  # 98 pixels: two rows of 49
    assert flattened(problem) == ConvProblem.parse("n1c24h2w49k40r1s1") == flattened(flattened(problem))
    x, _, y = maps_of(problem, config_of(problem, tile=(1, 2, 16)))
    assert (x[0].dims, x[0].strides_bytes, x[0].box) == ((24, 1, 49, 2), (98 * 48, 48, 49 * 48), (64, 1, 16, 2))
    assert (y.dims, y.box) == ((40, 1, 49, 2), (64, 1, 16, 1))


@pytest.mark.parametrize(
    ("shape", "layout"),
    [("n2c24h7w7k40r1s2", "nhwc"), ("n2c24h7w7k40r1s1st2", "nhwc"), ("n2c24h7w7k40r1s1pad1", "nhwc"),
     ("n2c24h7w7k40r1s1", "nchw"), ("n2c24h7w7k40r1s1", "nhwc-nchw"), ("n32768c8h256w256k8r1s1", "nhwc")],
)  # fmt: skip
def test_other_layers_are_left_as_they_are(shape: str, layout: str) -> None:
    problem = ConvProblem.parse(shape, layout=layout)
    assert flattened(problem) == problem


def test_maps_of_planes() -> None:
    # rows of 12 * 16 elements are 384 bytes, pixels 32; taps 0 and 2 read the even rows, tap 1 the odd ones
    problem = ConvProblem.parse("n2c16h9w12k16r3s3st2", precision="bf16")
    planes, _, _ = maps_of(problem, config_of(problem, tile=(1, 2, 3), row_bytes=64))
    assert [(plane.offset_bytes, plane.dims) for plane in planes] == [
        (0, (16, 2, 6, 5)),
        (32, (16, 2, 6, 5)),
        (384, (16, 2, 6, 4)),
        (384 + 32, (16, 2, 6, 4)),
    ]
    for plane in planes:
        assert plane.strides_bytes == (9 * 384, 2 * 32, 2 * 384)
        assert (plane.box, plane.swizzle_bytes) == ((32, 1, 4, 3), 64)


def test_the_padding_picks_the_first_plane() -> None:
    # tap 0 of output 0 lies at row -1 and column -2: the odd rows, the even columns
    problem = ConvProblem.parse("n1c16h9w11k16r2s1st2pad1,0,2,0")
    planes, _, _ = maps_of(problem, config_of(problem))
    assert [(plane.offset_bytes, plane.dims[2:]) for plane in planes] == [(11 * 32, (6, 4)), (0, (6, 5))]


@pytest.mark.parametrize(
    ("shape", "planes", "box"),
    [
        ("n1c16h12w16k16r3s3dil2x3", 1, (2 + 4, 5 + 6)),  # taps 2 rows and 3 columns apart
        ("n1c16h12w16k16r3s3st2dil2", 1, (2 + 2, 5 + 2)),  # all taps in one plane, neighbours there
        ("n1c16h15w19k16r4s4st3dil2", 9, (2 + 2, 5 + 2)),  # taps 0 and 3 in one plane, 2 apart
        ("n1c16h12w16k16r2s2st3", 4, (2, 5)),  # four of nine planes have a tap
        ("n1c16h12w16k16r3s3st1x2", 2, (2 + 2, 5 + 1)),
    ],
)
def test_patches_of_planes(shape: str, planes: int, box: tuple[int, int]) -> None:
    problem = ConvProblem.parse(shape)
    maps, _, _ = maps_of(problem, config_of(problem, tile=(1, 2, 5)))
    assert len(maps) == planes
    assert all((plane.box[3], plane.box[2]) == box for plane in maps)


@pytest.mark.parametrize(
    ("config", "box"),
    [
        ({"tile": (2, 4, 5)}, (64, 2, 5, 1)),  # an output row
        ({"tile": (1, 4, 5), "joined_rows": 2}, (64, 1, 5, 1)),  # each of the joined rows alone
        ({"tile": (4, 2, 6), "store_groups": 1}, (64, 4, 2, 1)),  # 8 pixels: 2 columns of 4 images
        ({"mapping": "block", "tile": (1, 4, 8)}, (64, 1, 8, 4)),  # the whole subtile
        ({"mapping": "block", "tile": (1, 4, 16), "store_groups": 2}, (64, 1, 8, 2)),
    ],
    ids=str,
)
def test_what_is_stored_at_once(config: dict[str, Any], box: tuple[int, ...]) -> None:
    problem = ConvProblem.parse("n4c16h9w18k72r3s3")
    assert maps_of(problem, config_of(problem, **config))[2].box == box


def test_an_output_of_tf32_is_stored_in_parts_of_32_channels() -> None:
    problem = ConvProblem.parse("n1c16h9w11k40r3s3", precision="tf32")
    x, w, y = maps_of(problem, config_of(problem))
    assert (x[0].box[0], x[0].element) == (w.box[0], w.element) == (32, "tf32")
    assert (y.box[0], y.element) == (32, "fp32")


def test_a_filter_of_another_layout_is_packed() -> None:
    problem = replace(ConvProblem.parse("n1c24h9w11k40r3s3"), w_layout="kcrs")
    plan = WGMMA.plan(problem, TARGET, config_of(problem))
    assert [launch.template for launch in plan.launches] == ["channels_last", "wgmma"]
    assert plan.workspace == {"packed": 40 * 9 * 24 * 2}
    filter_map = maps_of(problem, config_of(problem))[1]
    assert (filter_map.array, filter_map.dims) == ("packed", (24, 9, 40))


def test_an_nchw_x_is_turned_beside_the_filter() -> None:
    problem = ConvProblem.parse("n1c24h9w11k40r3s3", layout="nchw")
    config = config_of(problem)
    assert [(launch.arguments[0], launch.beside) for launch in WGMMA.plan(problem, TARGET, config).launches[:2]] == [
        ("w", False),
        ("x", True),
    ]
    alone = replace(problem, w_layout="krsc")
    (x_launch, _) = WGMMA.plan(alone, TARGET, config).launches
    assert not x_launch.beside


def test_the_grid_is_no_larger_than_the_device() -> None:
    problem = ConvProblem.parse("n3c16h9w11k72r3s3")  # 3 images x 4 x 2 tiles of pixels x 2 of channels
    config = config_of(problem)
    assert WGMMA.plan(problem, TARGET, config).launches[-1].grid == (48, 1, 1)
    assert WGMMA.plan(problem, replace(TARGET, sm_count=7), config).launches[-1].grid == (7, 1, 1)


# ---- geometry ----


@pytest.mark.parametrize("taps", [1, 2, 3, 5])
@pytest.mark.parametrize(("stride", "dilation"), list(itertools.product((1, 2, 3, 4, 6), (1, 2, 3, 4))))
def test_a_plane_and_its_shift_lead_to_the_element(stride: int, dilation: int, taps: int) -> None:
    for pad in (0, 1, 2, 5):
        axis = Axis(stride=stride, dilation=dilation, pad=pad, taps=taps)
        first = [axis.place(tap)[0] for tap in range(axis.used_planes)]
        assert len(set(first)) == axis.used_planes
        for tap in range(taps):
            plane, shift = axis.place(tap)
            assert plane == first[tap % axis.period]
            assert plane + stride * (7 + shift) == 7 * stride - pad + tap * dilation
            # the last output of a tile of 4 lies in the patch that begins at the plane's first tap
            assert 0 <= shift - axis.place(tap % axis.period)[1] <= axis.extent(4) - 4
        assert axis.extent(4) - 4 == axis.place((taps - 1) // axis.period * axis.period)[1] - axis.place(0)[1]


def test_sizes_by_hand() -> None:
    # P = 5, Q = 6; patches of 3 + 2 rows, 4 + 2 columns, 2 images, in two chunks of 64 channels
    problem = ConvProblem.parse("n5c72h7w8k200r3s3")
    config = config_of(
        problem, split="filters", num_consumer_warpgroups=3, tile=(2, 3, 4), joined_rows=3, patch_stages=2,
        filter_stages=4,
    )  # fmt: skip
    geometry = WgmmaGeometry(problem=problem, config=config)
    assert (geometry.patch_h, geometry.patch_w, geometry.planes, geometry.chunks) == (5, 6, 1, 2)
    assert geometry.wgmma_n == (2 * 6 + 4) * 2
    assert (geometry.num_accumulators, geometry.groups_n, geometry.exact) == (16, 4, False)
    assert geometry.steps == 4 + 1  # of 16 channels
    assert geometry.patch_bytes == 5 * 6 * 2 * 128
    assert geometry.filter_bytes == 192 * 128
    assert geometry.tiles == 3 * 2 * 2 * 2
    # a patch ends at a multiple of 1024 bytes; staging of 4 groups; 12 barriers, 6 flags
    assert geometry.smem_bytes == 4 * 192 * 128 + 2 * 8192 + 3 * 4096 + 12 * 8 + 6 * 4
    assert (config.threads, config.block_n, config.subtiles) == (512, 192, 1)


BYTES = "BARRIERS_AT + 16 * (kPatchStages + kFilterStages + (kStoredByProducers ? STAGING_PARTS : 0)) + 8 * kConsumers"
GEOMETRIES = {
    "dense": ("n3c72h9w11k200r3s3", {"tile": (2, 2, 5)}),
    "joined": ("n3c24h9w11k40r3s3pad1", {"tile": (1, 4, 6), "joined_rows": 2, "filter_resident": True}),
    "block": ("n3c24h17w27k40r3s3st2pad1,0,2,1", {"mapping": "block", "tile": (1, 3, 16), "row_bytes": 64}),
    "cluster": ("n1c72h9w11k40r3s3", {"cluster_k": 4}),
    "runs": ("n9c72h9w11k40r3s3/nchw", {"tile": (16, 2, 9), "store_groups": 36, "row_bytes": 64}),
    "runs that others copy": (
        "n9c72h9w11k136r3s3/nchw",
        {
            "tile": (8, 2, 9), "split": "filters", "num_consumer_warpgroups": 2, "stored_by_producers": True,
            "row_bytes": 64,
        },
    ),
    "odd runs over buffers": ("n9c72h9w11k40r3s3/nhwc-nchw", {"tile": (8, 3, 9), "staging_over_buffers": True}),
    "joined rows of NCHW": ("n3c72h9w11k40r3s3/nchw", {"tile": (2, 4, 9), "joined_rows": 2}),
    "filters": ("n1c40h15w19k136r4s4st3dil2", {"split": "filters", "num_consumer_warpgroups": 2, "patch_stages": 4}),
    "pixels": (
        "n1c40h15w29k136r3s3st2x3dil2x1",
        {"split": "pixels", "num_consumer_warpgroups": 3, "tile": (1, 6, 4), "store_groups": 1},
    ),
}  # fmt: skip


@pytest.mark.parametrize("precision", ["fp16", "tf32"])
@pytest.mark.parametrize("name", GEOMETRIES)
def test_the_kernel_derives_the_same_geometry(name: str, precision: str) -> None:
    shape, changes = GEOMETRIES[name]
    shape, _, layout = shape.partition("/")
    problem = ConvProblem.parse(shape, precision=precision, layout=layout or "nhwc")
    if precision == "tf32" and "split" in changes and changes["split"] == "filters":
        changes = changes | {"patch_stages": 2}
    config = config_of(problem, **changes)
    geometry = WgmmaGeometry(problem=problem, config=config)
    claims = {
        "PATCH_H": geometry.patch_h, "PATCH_W": geometry.patch_w, "PLANES": geometry.planes, "CHUNKS": geometry.chunks,
        "(CHUNKS - 1) * STEPS + LAST_STEPS": geometry.steps, "ROW_BYTES": geometry.row_bytes,
        "PATCH_BYTES": geometry.patch_bytes, "FILTER_BYTES": geometry.filter_bytes, "GROUPS_N": geometry.groups_n,
        "FILTER_BUFFERS": geometry.filter_buffers, "OWN_SUBTILES": config.own_subtiles, "SUBTILES": config.subtiles,
        "OWN_SUBTILES * WGMMA_N / 2": geometry.num_accumulators, "BLOCK_N": config.block_n, "THREADS": config.threads,
        "TILES_K": geometry.tiles_k, "TILE_COUNT": geometry.tiles, "kRuns": int(geometry.runs),
        "STAGING_BYTES": geometry.staging_bytes, "SUM_GROUPS": geometry.sum_groups,
        BYTES: geometry.smem_bytes,
    }  # fmt: skip
    lines = [f'static_assert({text} == {value}, "{text}");' for text, value in claims.items()]
    for tap, (axis, letter) in itertools.product(range(3), (("Vertical", "h"), ("Horizontal", "w"))):
        side, taps = (problem.pad_top, problem.r) if letter == "h" else (problem.pad_left, problem.s)
        numbers = {"stride": getattr(problem, f"stride_{letter}"), "dilation": getattr(problem, f"dilation_{letter}")}
        wanted = Axis(**numbers, pad=side, taps=taps)
        lines.append(f'static_assert({axis}::shift({tap}) == {wanted.place(tap)[1]}, "shift");')
        lines.append(f'static_assert({axis}::USED == {wanted.used_planes}, "planes");')
    source = convolution(problem, config)
    compile_ptx(Source(source.kernel, source.text + "\n".join(lines) + "\n"), "sm_90a")


# ---- rules and static_asserts ----

RULES_SHAPE = "n4c72h20w21k40r3s3"
CLUSTER_SHAPE = "n1c72h6w9k40r3s3"
BLOCK: dict[str, Any] = {"mapping": "block"}
TWO: dict[str, Any] = {"num_consumer_warpgroups": 2}
FILTERS: dict[str, Any] = {"num_consumer_warpgroups": 3, "split": "filters"}
TILES: dict[str, Any] = TWO | {"split": "tiles", "filter_resident": True, "ordered": True}
RULE_CASES: list[tuple[str, str, dict[str, Any], dict[str, Any], str | None]] = [
    # the sentence's beginning, shape, a legal config, what breaks the rule, words of what then refuses to go on
    ("arithmetic is split for fp32", RULES_SHAPE, {}, {"arithmetic": "split"}, None),
    ("promotion_taps is at most 4", RULES_SHAPE, {}, {"promotion_taps": 2}, None),
    ("num_producer_warpgroups is", RULES_SHAPE, TWO, {"num_producer_warpgroups": 2}, "has nothing to do"),
    ("input_staging is tma", RULES_SHAPE, {}, {"input_staging": "transposed"}, "an NHWC x needs no transposition"),
    ("early_packing needs", RULES_SHAPE, {}, {"early_packing": True}, None),
    ("num_consumer_warpgroups is from", RULES_SHAPE, {}, {"num_consumer_warpgroups": 4, "tile_p": 4}, None),
    ("block_k is", RULES_SHAPE, {}, {"block_k": 16}, "one swizzle span"),
    ("block_k is", RULES_SHAPE, {}, {"block_k": 128}, "tensor map of x"),
    ("block mapping is for one image", RULES_SHAPE, BLOCK, {"tile_n": 2}, "a subtile is WGMMA_N pixels"),
    ("block mapping is for one image", RULES_SHAPE, BLOCK, {"tile_q": 12}, "a subtile is WGMMA_N pixels"),
    ("block mapping is for one image", RULES_SHAPE, BLOCK, {"joined_rows": 2}, "a subtile is WGMMA_N pixels"),
    ("joined_rows divides tile_p", RULES_SHAPE, {"tile": (1, 3, 5)}, {"joined_rows": 2}, "a subtile is WGMMA_N pixels"),
    ("a subtile has at most 256 pixels", "n1c8h3w300k8r1s1", {}, {"tile_n": 2, "tile_q": 129, "store_groups": 33},
     "the N of wgmma"),
    ("a patch has at most 256 rows", "n1c8h3w600k8r1s249", BLOCK, {"tile_q": 16}, "tensor map of x"),
    ("split pixels gives each consumer", RULES_SHAPE, {"tile": (1, 3, 5)}, TWO, "as many subtiles"),
    ("one consumer has nothing to split", RULES_SHAPE, {}, {"split": "filters"}, None),
    ("no consumer computes channels beyond K", RULES_SHAPE, {}, TWO | {"split": "filters"}, None),
    ("patch_stages is", RULES_SHAPE, {}, {"patch_stages": 1}, "a buffer is given back"),
    ("patch_stages is", RULES_SHAPE, {}, {"filter_stages": 1}, "a buffer is given back"),
    ("split tiles needs a resident filter", RULES_SHAPE, TILES, {"filter_resident": False, "filter_stages": 3},
     "do not share filter stages"),
    ("split tiles is ordered, or", RULES_SHAPE, TILES, {"ordered": False}, None),
    ("promotion is for fp8", RULES_SHAPE, {}, {"promotion": True}, "need no promotion"),
    ("ordered is for split tiles", RULES_SHAPE, {}, {"ordered": True}, "turns are for consumers"),
    ("a resident filter has", "n1c8h9w9k72r3s3", {},
     {"filter_resident": True, "filter_stages": 1, "tile_order": "zigzag"}, "resident filters are those of one tile"),
    ("turned input staging is for", "n1c24h9w9k40r3s3/nchw", {}, {"input_staging": "turned", "piece_stages": 2},
     "each must be a multiple of 16"),
    ("piece_stages is", RULES_SHAPE, {}, {"piece_stages": 2}, None),
    ("bulk_store is", RULES_SHAPE + "/nchw", {"tile": (1, 2, 10)}, {"bulk_store": True}, "whole rows of an image"),
    ("bulk_store is", "n4c72h9w12k40r3s3pad1/nchw", {"tile": (1, 2, 12)}, {"bulk_store": True}, "unpadded x"),
    ("a resident filter has", RULES_SHAPE, {"filter_resident": True}, {"filter_stages": 2}, None),
    ("cluster_k is", CLUSTER_SHAPE, {"cluster_k": 2}, {"cluster_k": 3}, None),
    ("a cluster streams its filter", CLUSTER_SHAPE, {"cluster_k": 2}, {"filter_resident": True, "filter_stages": 1},
     "stream what they multiply"),
    ("a cluster has no more CTAs", "n1c8h6w9k40r1s1", {}, {"cluster_k": 2}, "each CTA of a cluster has a tap"),
    ("clusters are for grids", RULES_SHAPE, {}, {"cluster_k": 2}, None),
    ("stored_by_producers is", RULES_SHAPE, {}, {"stored_by_producers": True}, "copy an NCHW y, nothing else"),
    ("stored_by_producers is", RULES_SHAPE + "pad1/nchw", {}, {"stored_by_producers": True}, "copy an NCHW y"),
    ("staging_over_buffers is", RULES_SHAPE, {}, {"staging_over_buffers": True}, None),
    ("staging_over_buffers is", "n1c24h6w9k40r3s3", TILES, {"staging_over_buffers": True},
     "done with the buffers together"),
    # one subtile and a half of the two
    ("store_groups divides", "n8c8h6w8k8r3s3/nchw", {"tile": (8, 2, 6)}, {"store_groups": 9},
     "stored alone is whole pixels"),
    ("store_groups of a cluster", CLUSTER_SHAPE, {"cluster_k": 2}, {"store_groups": 2}, "stores its share"),
    # 24 columns of one image are 3 groups; the last group of 20 is not whole; joined rows have pixels between them
    ("store_groups divides", RULES_SHAPE, {"tile": (1, 2, 24)}, {"store_groups": 2}, "stored alone is whole pixels"),
    ("store_groups divides", RULES_SHAPE, {"tile": (1, 2, 20)}, {"store_groups": 1}, "stored alone is whole pixels"),
    ("store_groups divides", RULES_SHAPE, {"tile": (1, 2, 5), "joined_rows": 2}, {"store_groups": 1}, "whole pixels"),
    # groups of 8 pixels cut the 16 images of a column
    ("store_groups divides", "n16c8h9w9k8r3s3", {"tile": (16, 1, 4)}, {"store_groups": 1}, "tensor map of y"),
    ("l2_promotion_bytes is", RULES_SHAPE, {}, {"l2_promotion_bytes": 32}, None),
    ("the accumulators fit a consumer's", RULES_SHAPE, {"tile": (1, 2, 19)}, {"tile_p": 20}, None),
    # 124 accumulators fit the 160 registers that a consumer asks for, not the 128 that it begins with
    ("the accumulators of one wgmma fit", "n1c8h3w300k200r1s1", FILTERS | {"tile": (1, 1, 200)},
     {"tile_q": 248, "store_groups": 31}, None),
    ("filters, patches and staging fit", RULES_SHAPE, {}, {"filter_stages": 30}, None),
    ("there are at most 2^30 tiles", "n500000000c8h3w3k8r1s1", {}, {"tile_p": 1}, None),
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "shape", "legal", "broken", "words"), RULE_CASES, ids=str)
def test_a_rule_breaks(
    sentence: str, shape: str, legal: dict[str, Any], broken: dict[str, Any], words: str | None
) -> None:
    shape, _, layout = shape.partition("/")
    problem = ConvProblem.parse(shape, layout=layout or "nhwc")
    config = replace(config_of(problem, **legal), **broken)
    assert any(found.startswith(sentence) for found in WGMMA.broken_rules(problem, TARGET, config))
    if words is not None:
        with pytest.raises((CompileError, ValueError), match=words):
            compile_ptx(convolution(problem, config), "sm_90a")


def test_every_rule_has_a_case() -> None:
    for rule in RULES:
        if rule not in SPLIT_RULES:  # test_wgmma_split.py
            assert any(rule.sentence.startswith(case[0]) for case in RULE_CASES), rule.sentence


# ---- machine code ----


@pytest.mark.parametrize("layer", ["cv4", "cv5", "cv6", "cv8", "cv9", "cv10", "cv11", "cv12"])
def test_the_default_compiles_to_tensor_core_code_without_spills(layer: str) -> None:
    problem = ConvProblem.parse(layer)
    config = WGMMA.default(problem, TARGET)
    assert isinstance(config, WgmmaConfig)
    cubin = compile_cubin(convolution(problem, config), "sm_90a")
    counts = instruction_counts(cubin)
    assert counts["HGMMA"] >= config.own_subtiles
    assert counts["UTMALDG"] >= 2
    assert config.cluster_k > 1 or counts["UTMASTG"] >= 1  # a cluster's CTAs store by themselves
    assert not {"LDL", "STL", "HMMA"} & counts.keys()
    assert cubin.spill_bytes == 0
    assert cubin.num_regs <= TARGET.regs_per_sm // config.threads
    assert cubin.smem_bytes <= 1024  # all else is dynamic; 1 KiB is the system's


def test_bias_is_asked_for_before_the_products_and_relu_is_part_of_the_rounding() -> None:
    problem = ConvProblem.parse("cv9", epilogue="bias_relu")
    config = WGMMA.default(problem, TARGET)
    cubin = compile_cubin(convolution(problem, config), "sm_90a")
    assert not {"FMNMX", "FSEL"} & instruction_counts(cubin).keys()
    sass = disassemble(cubin)
    assert sass.index("LDG.E.U16") < sass.index("HGMMA")


@pytest.mark.parametrize("shape", ["n1c512h7w7k512r3s3", "n8c512h7w7k512r3s3"])
def test_the_default_of_few_tiles_is_a_cluster_without_spills(shape: str) -> None:
    problem = ConvProblem.parse(shape)
    config = WGMMA.default(problem, TARGET)
    assert isinstance(config, WgmmaConfig)
    launch = WGMMA.plan(problem, TARGET, config).launches[-1]
    assert launch.cluster == config.cluster_k > 1
    assert launch.grid[0] == launch.cluster * WgmmaGeometry(problem=problem, config=config).tiles
    cubin = compile_cubin(render(launch), "sm_90a")
    counts = instruction_counts(cubin)
    assert counts["UCGABAR"] == 4  # two arrivals, two waits
    assert counts["HGMMA"] >= config.own_subtiles
    assert not {"LDL", "STL", "UTMASTG"} & counts.keys()
    assert cubin.spill_bytes == 0


@pytest.mark.parametrize("layer", ["cv5", "cv8", "cv9", "cv10"])
def test_producers_that_copy_do_not_spill(layer: str) -> None:
    problem = ConvProblem.parse(layer, layout="nchw")
    config = next(config for config in shapes(problem, TARGET).values() if config.stored_by_producers)
    cubin = compile_cubin(convolution(problem, config), "sm_90a")
    counts = instruction_counts(cubin)
    assert counts["STG"] >= 1
    assert not {"LDL", "STL", "UTMASTG"} & counts.keys()
    assert cubin.spill_bytes == 0


def test_an_early_launch_waits_before_it_reads() -> None:
    problem = ConvProblem.parse("cv9")
    listing = disassemble(compile_cubin(convolution(problem, config_of(problem, programmatic_launch=True)), "sm_90a"))
    assert "PREEXIT" in listing  # griddepcontrol.launch_dependents
    before, wait, after = listing.partition("ACQBULK")  # griddepcontrol.wait
    assert wait
    assert "UTMALDG" not in before
    assert "UTMALDG" in after
