"""What every family owes: configs as stored values, a search space that replays, a legal default, sound plans."""

import dataclasses
import functools
import itertools
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import pytest
from family_problems import problems
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from im2wingen.cpu_target import CPU_PRESETS
from im2wingen.errors import UnsupportedError, UsageError
from im2wingen.families import FAMILIES, families_for, family_named
from im2wingen.families.base import Config, Family, Launch, Plan, Rule
from im2wingen.nvrtc import compile_ptx
from im2wingen.problem import ConvProblem
from im2wingen.render import Source, render
from im2wingen.target import Target, preset

T = TypeVar("T")
TARGET = preset("sm_90a")
PRECISIONS = {
    "simt": ("fp32", "fp64"), "mma": ("fp16", "bf16", "tf32", "fp32", "fp64"),
    "wgmma": ("fp16", "bf16", "tf32", "fp32"), "wgmma_rows": ("fp16", "bf16", "tf32", "fp32"),
    "wgmma_pointwise": ("fp16", "bf16", "tf32"),
}  # fmt: skip
SHAPES = ("cv1", "cv5", "cv12", "n1c1h1w1k1r1s1", "n3c40h8w12k70r1s1", "n3c17h9w40k33r3s2st2x1pad1,0,2,1dil1x2")
OWN_SHAPES = {"wgmma_rows": ("cv1", "nhwc"), "wgmma_pointwise": ("n1c16h4w4k16r1s1", "nchw")}  # else cv5 in NHWC
WITHOUT_TIME = settings(deadline=None, derandomize=True, max_examples=40, suppress_health_check=list(HealthCheck))

GPU_FAMILIES = {name: family for name, family in FAMILIES.items() if name != "simd"}  # whose tests are test_simd.py

each_family = pytest.mark.parametrize("family", GPU_FAMILIES.values(), ids=lambda family: family.name)
each_arch = pytest.mark.parametrize(
    ("family", "arch"),
    [pytest.param(family, arch, id=f"{name}-{arch}") for name, family in GPU_FAMILIES.items() for arch in family.archs],
)


@functools.cache
def problems_of(family: Family) -> tuple[ConvProblem, ...]:
    """Every shape in every layout that the family takes, the precisions in turn; one with the other filter layout."""
    precisions = itertools.cycle(PRECISIONS[family.name])
    every = [
        ConvProblem.parse(shape, precision=next(precisions), layout=layout)
        for shape in SHAPES
        for layout in ("nhwc", "nchw", "nchw-nhwc")
    ]
    able = [problem for problem in every if family.unsupported(problem, TARGET) is None]
    return *able, dataclasses.replace(able[-1], w_layout="krsc" if able[-1].w_layout == "kcrs" else "kcrs")


def legal(family: Family, problem: ConvProblem, target: Target, count: int, seed: int = 0) -> list[Config]:
    configs = itertools.islice(family.random_configs(problem, target, seed), 3000)
    return list(itertools.islice((c for c in configs if not family.broken_rules(problem, target, c)), count))


# ---- the table ----


def test_families_by_name() -> None:
    names = ["simt", "mma", "wgmma", "wgmma_rows", "wgmma_pointwise", "simd"]
    assert [family.name for family in FAMILIES.values()] == list(FAMILIES) == names
    assert family_named("mma") is FAMILIES["mma"]
    with pytest.raises(
        UsageError, match=r"^family is 'wgmma2'; allowed are simt, mma, wgmma, wgmma_rows, wgmma_pointwise, simd$"
    ):
        family_named("wgmma2")


@pytest.mark.parametrize(
    ("precision", "names"), [("fp32", ["simt", "mma", "wgmma"]), ("tf32", ["mma", "wgmma"]), ("fp16", ["mma", "wgmma"])]
)
def test_families_that_can(precision: str, names: list[str]) -> None:
    problem = ConvProblem.parse("cv5", precision=precision)
    assert [family.name for family in families_for(problem, TARGET)] == names


def test_families_asked_for_by_name() -> None:
    problem = ConvProblem.parse("cv5", precision="fp16")
    assert [family.name for family in families_for(problem, TARGET, ["simt", "mma", "mma"])] == ["mma"]
    with pytest.raises(UnsupportedError) as caught:
        families_for(problem, TARGET, ["simt"])
    assert set(caught.value.reasons) == {"simt"}
    with pytest.raises(UsageError, match="family is 'three'"):
        families_for(problem, TARGET, ["mma", "three"])


def test_no_family_gives_every_reason() -> None:
    problem = ConvProblem.parse("n1c4h4w4k4r1s1g2")
    with pytest.raises(UnsupportedError) as caught:
        families_for(problem, TARGET)
    assert set(caught.value.reasons) == set(FAMILIES)
    assert all(caught.value.reasons.values())
    assert problem.key in str(caught.value)


@pytest.mark.parametrize("arch", CPU_PRESETS)
def test_a_cpu_and_a_gpu_have_families_of_their_own(arch: str) -> None:
    problem = ConvProblem.parse("cv5", precision="fp32")
    assert [family.name for family in families_for(problem, CPU_PRESETS[arch])] == ["simd"]
    with pytest.raises(UnsupportedError) as caught:
        families_for(ConvProblem.parse("cv5"), CPU_PRESETS[arch])
    wanted = f"needs a CUDA GPU, the target is {CPU_PRESETS[arch].name}"
    assert [caught.value.reasons[name] for name in GPU_FAMILIES] == len(GPU_FAMILIES) * [wanted]
    assert FAMILIES["simd"].unsupported(problem, TARGET) == f"simd runs on the CPU, the target is {TARGET.name}"


@each_family
@pytest.mark.parametrize("precision", ["fp32", "tf32", "fp16", "bf16"])
def test_an_unsupported_precision_is_named(family: Family, precision: str) -> None:
    shape, layout = OWN_SHAPES.get(family.name, ("cv5", "nhwc"))
    reason = family.unsupported(ConvProblem.parse(shape, precision=precision, layout=layout), TARGET)
    assert (reason is None) == (precision in PRECISIONS[family.name])
    assert reason is None or (precision in reason and "\n" not in reason)


@each_family
def test_groups_are_refused_with_a_sentence(family: Family) -> None:
    layout = OWN_SHAPES.get(family.name, ("cv5", "nhwc"))[1]
    problem = ConvProblem.parse("n1c16h4w4k16r1s1g2", precision=PRECISIONS[family.name][0], layout=layout)
    reason = family.unsupported(problem, TARGET)
    assert reason is not None
    assert "groups" in reason


@pytest.mark.parametrize(
    ("name", "shape", "word"),
    [
        ("simt", "n1c65536h256w256k1r1s1", "image"),  # 2^32 elements of one image
        ("mma", "n1c65536h256w256k1r1s1", "image"),
        ("wgmma", "n64c65536h256w256k8r1s1", "array"),  # 2^38 elements of all images
    ],
)
def test_giants_are_refused_with_a_sentence(name: str, shape: str, word: str) -> None:
    reason = FAMILIES[name].unsupported(ConvProblem.parse(shape, precision=PRECISIONS[name][0]), TARGET)
    assert reason is not None
    assert word in reason


def test_mma_says_which_arch_it_needs() -> None:
    old = dataclasses.replace(TARGET, arch="sm_75")
    assert FAMILIES["mma"].unsupported(ConvProblem.parse("cv5"), old) == "needs sm_80 or later, the target is sm_75"


# ---- a small family of the tests' own ----


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallConfig(Config):
    size: int
    fast: bool
    order: Literal["linear", "zigzag"]
    lanes: Literal[1, 2, 4]


def _suggest(problem: ConvProblem, target: Target, choose: Any) -> SmallConfig:
    order = choose("order", ("linear", "zigzag"))
    lanes, size = map(int, choose("lanes,size", ("1x8", "2x8", "4x16")).split("x"))
    return SmallConfig(
        size=size,
        fast=choose(f"fast.{order}", (True, False) if order == "linear" else (False,)),
        order=order,
        lanes=lanes,  # type: ignore[arg-type]
    )


SMALL = Family(
    name="small",
    cores="cuda",
    config_type=SmallConfig,
    templates=(),
    archs=(),
    unsupported=lambda problem, target: None,
    suggest=_suggest,
    rules=(
        Rule(sentence="size must not exceed 8", holds=lambda problem, target, config: config.size <= 8),
        Rule(sentence="fast needs linear", holds=lambda p, t, config: not config.fast or config.order == "linear"),
    ),
    default=lambda problem, target: SmallConfig(size=8, fast=True, order="linear", lanes=1),
    plan=lambda problem, target, config: Plan(launches=()),
)
STORED = {"size": 8, "fast": True, "order": "linear", "lanes": 2}
PROBLEM = ConvProblem.parse("n1c1h1w1k1r1s1")


def test_a_config_comes_back_from_json() -> None:
    config = SMALL.config_from_dict(json.loads(json.dumps(STORED)))
    assert config == SmallConfig(size=8, fast=True, order="linear", lanes=2)
    assert config.to_dict() == STORED


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"size": True}, "config field size is True; allowed is a value of type int"),
        ({"size": 8.0}, "config field size is 8.0; allowed is a value of type int"),
        ({"size": "8"}, "config field size is '8'; allowed is a value of type int"),
        ({"size": None}, "config field size is None; allowed is a value of type int"),
        ({"fast": 1}, "config field fast is 1; allowed is a value of type bool"),
        ({"order": "spiral"}, "config field order is 'spiral'; allowed are linear, zigzag"),
        ({"order": ["linear"]}, "config field order is ['linear']; allowed are linear, zigzag"),
        ({"lanes": 3}, "config field lanes is 3; allowed are 1, 2, 4"),
        ({"lanes": True}, "config field lanes is True; allowed are 1, 2, 4"),
        ({"lanes": 2.0}, "config field lanes is 2.0; allowed are 1, 2, 4"),
        ({"colour": 1}, "config of family small: fields colour are missing or unknown"),
    ],
)
def test_a_stored_value_that_does_not_fit_is_named(change: dict[str, object], sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        SMALL.config_from_dict(STORED | change)
    assert str(caught.value) == sentence


def test_missing_fields_are_named() -> None:
    with pytest.raises(UsageError, match="fields fast, size are missing or unknown"):
        SMALL.config_from_dict({"order": "linear", "lanes": 1})


def test_broken_rules_are_sentences() -> None:
    bad = SmallConfig(size=16, fast=True, order="zigzag", lanes=1)
    assert SMALL.broken_rules(PROBLEM, TARGET, bad) == ["size must not exceed 8", "fast needs linear"]
    assert SMALL.broken_rules(PROBLEM, TARGET, SMALL.default(PROBLEM, TARGET)) == []


def test_choices_name_what_was_picked() -> None:
    config = SmallConfig(size=16, fast=False, order="zigzag", lanes=4)
    assert SMALL.choices_of(PROBLEM, TARGET, config) == {
        "order": "zigzag", "lanes,size": "4x16", "fast.zigzag": False,
    }  # fmt: skip


def test_a_config_outside_the_space_has_no_choices() -> None:
    assert SMALL.choices_of(PROBLEM, TARGET, SmallConfig(size=8, fast=False, order="linear", lanes=4)) is None
    assert SMALL.choices_of(PROBLEM, TARGET, SmallConfig(size=16, fast=True, order="zigzag", lanes=4)) is None


def test_a_digest_is_of_the_values_alone() -> None:
    config = SmallConfig(size=8, fast=True, order="linear", lanes=2)
    assert config.digest() == "6d442090f1ab83d8"
    assert config.digest() == SMALL.config_from_dict(dict(reversed(STORED.items()))).digest()
    assert dataclasses.replace(config, fast=False).digest() != config.digest()


def test_a_plan_adds_up_its_workspace() -> None:
    launch = Launch(template="t", values={}, grid=(1, 1, 1), block=32, smem_bytes=0, arguments=())
    assert Plan(launches=(launch,)).workspace_bytes == 0
    assert Plan(launches=(launch,), workspace={"packed": 3, "window": 4}).workspace_bytes == 7


# ---- every family's space ----


@each_family
def test_every_field_checks_its_type(family: Family) -> None:
    problem = problems_of(family)[0]
    stored = family.default(problem, TARGET).to_dict()
    assert family.config_from_dict(stored) == family.default(problem, TARGET)
    for name, value in stored.items():
        wrong: tuple[object, ...] = (None, 1.5, "no such word", [value], not value if isinstance(value, bool) else True)
        for other in wrong[:4] if isinstance(value, bool) else wrong:
            with pytest.raises(UsageError, match=f"config field {name} is"):
                family.config_from_dict(stored | {name: other})


@each_family
def test_random_configs_replay_and_come_back_from_json(family: Family) -> None:
    for problem in problems_of(family):
        for config in itertools.islice(family.random_configs(problem, TARGET, 1), 25):
            picked = family.choices_of(problem, TARGET, config)
            assert picked is not None

            def replay(name: str, choices: Sequence[T], /, values: dict[str, Any] = picked) -> T:
                value: T = choices[choices.index(values[name])]
                return value

            assert family.suggest(problem, TARGET, replay) == config
            assert family.config_from_dict(json.loads(json.dumps(config.to_dict()))) == config


@each_family
def test_random_configs_depend_on_the_seed_alone(family: Family) -> None:
    problem = problems_of(family)[-1]
    first, again, other = (
        list(itertools.islice(family.random_configs(problem, TARGET, seed), 20)) for seed in (5, 5, 6)
    )
    assert first == again
    assert first != other


@each_family
def test_a_name_always_has_the_same_choices(family: Family) -> None:
    # Optuna demands it of categorical parameters
    for problem in problems_of(family):
        seen: dict[str, tuple[Any, ...]] = {}
        rng = random.Random(0)

        def pick(
            name: str, choices: Sequence[T], /, seen: dict[str, tuple[Any, ...]] = seen, rng: random.Random = rng
        ) -> T:
            assert len(choices) > 0, name
            assert len(set(choices)) == len(choices), name
            assert all(type(choice) in (int, bool, str) for choice in choices), name
            assert seen.setdefault(name, tuple(choices)) == tuple(choices), name
            return rng.choice(choices)

        for _ in range(150):
            family.suggest(problem, TARGET, pick)


@each_family
def test_a_fair_share_of_the_space_is_legal(family: Family) -> None:
    for problem in problems_of(family):
        if problem.gemm_m == 1:  # so small that hardly any tile fits
            continue
        configs = list(itertools.islice(family.random_configs(problem, TARGET, 2), 300))
        assert sum(not family.broken_rules(problem, TARGET, config) for config in configs) >= 5, problem.key


@each_family
def test_rules_are_sentences_that_differ(family: Family) -> None:
    sentences = [rule.sentence for rule in family.rules]
    assert len(set(sentences)) == len(sentences)
    assert all(" " in sentence and not sentence.endswith(".") and "\n" not in sentence for sentence in sentences)


@each_family
@pytest.mark.parametrize("value", [0, -1])
def test_a_count_below_one_is_named(family: Family, value: int) -> None:
    # stored configs may hold any integers; the rules divide by them
    problem = problems_of(family)[0]
    default = family.default(problem, TARGET)
    for name, usual in default.to_dict().items():
        if type(usual) is int:
            broken = family.broken_rules(problem, TARGET, dataclasses.replace(default, **{name: value}))
            assert broken == [f"{name} must be at least 1"]


# ---- defaults and plans ----


def check_plan(problem: ConvProblem, target: Target, plan: Plan) -> None:
    """What holds for every legal plan."""
    assert plan.launches
    for launch in plan.launches:
        assert 1 <= launch.grid[0] <= 2**31 - 1
        assert launch.grid[1:] == (1, 1)
        assert 32 <= launch.block <= 1024
        assert launch.block % 32 == 0
        assert 0 <= launch.smem_bytes <= target.smem_per_block_bytes
        assert launch.array_names <= {"x", "w", "bias", "y"} | set(plan.workspace)
        assert all(type(value) in (int, bool, str) for value in launch.values.values())
    assert "y" in plan.launches[-1].array_names
    assert plan.launches[-1].flops >= problem.flops
    assert all(size > 0 for size in plan.workspace.values())
    used = {name for launch in plan.launches for name in launch.array_names}
    assert set(plan.workspace) <= used


@each_family
def test_templates_name_all_that_plans_use(family: Family) -> None:
    used = set()
    for problem in problems_of(family):
        for config in legal(family, problem, TARGET, 15):
            plan = family.plan(problem, TARGET, config)
            check_plan(problem, TARGET, plan)
            used |= {launch.template for launch in plan.launches}
    assert used == set(family.templates)


# Shared memory and grid, from the constants of the kernels' own texts.
TILED_GRID = "constexpr int64_t GRID = int64_t((N + TILE_N - 1) / TILE_N) * kTilesP * kTilesQ * kTilesN;"
OWN_CONSTANTS = {
    "simt": f"""
constexpr int kBytes = sizeof(Element), kPlan = kHasPlan ? int(sizeof(PatchCopy)) * PLACES : 0;
constexpr int kPipeline = kBytes * kNumStages * STAGE_ELEMENTS + kPlan;
constexpr int kPitch = kStore == Store::shared ? PIXELS_PITCH : RUNS_PITCH;
constexpr int kFilters = kStore == Store::bulk ? BLOCK_N : STORE_N * THREADS_N;
constexpr int kOutputs = kStore == Store::registers ? 0 : kBytes * kFilters * kPitch;
constexpr int kSums = kBytes * (SLICES - 1) * SLICE_THREADS * THREAD_M * THREAD_N;
constexpr int kAfter = kOutputs > kSums ? kOutputs : kSums;
constexpr int SMEM_BYTES = kPipeline > OUTPUTS_OFFSET + kAfter ? kPipeline : OUTPUTS_OFFSET + kAfter;
constexpr int64_t kResident = {TARGET.sm_count} * kCtasPerSm;
constexpr int64_t GRID = kPersistent && kCtas > kResident ? kResident : kCtas;
""",
    "mma": f"""
constexpr int kStages = A_ELEMENTS + B_ELEMENTS, kOut = (kOutputChannelsLast ? BLOCK_M : BLOCK_N) * OUT_PITCH;
constexpr int kSums = WARPS_K > 1 ? BLOCK_M * BLOCK_N * 4 / int(sizeof(Element)) : 0;
constexpr int kMost = kStages > kOut ? (kStages > kSums ? kStages : kSums) : kOut > kSums ? kOut : kSums;
constexpr int SMEM_BYTES = (UNIT + kMost) * int(sizeof(Element)) + (kRunOrder ? 4 * RUN_WORDS : 0);
{TILED_GRID}
""",
    "wgmma": f"""
constexpr int kPairs = kPatchStages + kFilterStages + (kStoredByProducers ? STAGING_PARTS : 0);  // of barriers
constexpr int kFlags = int(sizeof(int)) * 2 * kConsumers;
constexpr int SMEM_BYTES = BARRIERS_AT + int(sizeof(uint64_t)) * 2 * kPairs + kFlags;
constexpr int64_t GRID = kClusterK > 1 || TILE_COUNT < {TARGET.sm_count} ? TILE_COUNT * kClusterK : {TARGET.sm_count};
""",
    "wgmma_split": f"""
constexpr int kPairs = kPatchStages + FILTER_RINGS * kFilterStages + 1;  // of barriers
constexpr int kSplitting = kPatchStages * int(sizeof(uint64_t) + sizeof(float)) + 8 * SPLITTERS_WARPS;
constexpr int kFlags = int(sizeof(int)) * 2 * kConsumers;
constexpr int kEnd = (BARRIERS_AT + int(sizeof(uint64_t)) * 2 * kPairs + kFlags + kSplitting + 127) / 128 * 128;
constexpr int kStaged = kStagedGroups || kBulkStores ? kConsumers * 4 * WARP_STAGING : 0;
constexpr int kLanded = kTransposed ? LANDED_STAGE : 0;
constexpr int kNumbers = STAGING_BEGIN > 0 || kStaged == 0 ? kStaged + kLanded : kStaged > kLanded ? kStaged : kLanded;
constexpr int SMEM_BYTES = kEnd + kNumbers * int(sizeof(float));
constexpr int64_t GRID = TILE_COUNT < {TARGET.sm_count} ? TILE_COUNT : {TARGET.sm_count};
""",
    "wgmma_rows": f"""
constexpr int kArrays = RING_BYTES + RAW_BUFFERS * RAW_BYTES + FILTER_BYTES + STAGING_GAP + STAGING_BYTES;
constexpr int kBuffers = kArrays + BIAS_BYTES + SCALE_BYTES;
constexpr int kBarriers = 2 * kRingBlocks + 2 * RAW_BUFFERS + kConsumers + 1 + 2 * kStagedItems;
constexpr int SMEM_BYTES = kBuffers + int(sizeof(uint64_t)) * kBarriers;
constexpr int64_t kShare = {TARGET.sm_count} / K_BLOCKS > 1 ? {TARGET.sm_count} / K_BLOCKS : 1;
constexpr int64_t kPieces = kRowOrder == UNITS ? Walk::UNIT_COUNT : Walk::OUTPUT_ROWS;
constexpr int64_t GRID = (kPieces < kShare ? kPieces : kShare) * K_BLOCKS;
""",
    "wgmma_pointwise": f"""
constexpr int kResident = kFilterResident ? BLOCKS_K * CHUNKS * FILTER_BYTES : 0;
constexpr int SMEM_BYTES = kStages * STAGE_BYTES + kResident + int(sizeof(uint64_t)) * (2 * kStages + 1);
constexpr int64_t GRID = TILE_COUNT < {TARGET.sm_count} ? TILE_COUNT : {TARGET.sm_count};
""",
}
COMPILED_SHAPES = (
    "cv1",
    "cv12",
    "n3c130h9w9k33r3s3pad1",
    "n2c40h17w9k70r1s1st2",
    "n5c8h9w3k8r3s3",
    "n3c40h8w12k70r1s1",
)


def compiled_cases() -> list[Any]:
    """Families with each shape and layout that they take."""
    return [
        pytest.param(family, shape, layout, id=f"{family.name}-{shape}-{layout}")
        for family, shape, layout in itertools.product(GPU_FAMILIES.values(), COMPILED_SHAPES, ("nhwc", "nchw"))
        if family.unsupported(
            ConvProblem.parse(shape, precision=PRECISIONS[family.name][0], layout=layout), TARGET
        ) is None
    ]  # fmt: skip


@pytest.mark.parametrize(("family", "shape", "layout"), compiled_cases())
def test_what_the_rules_allow_compiles_to_the_launch_that_is_planned(family: Family, shape: str, layout: str) -> None:
    for number, precision in enumerate(PRECISIONS[family.name]):
        problem = ConvProblem.parse(shape, precision=precision, layout=layout)
        for config in legal(family, problem, TARGET, 2, seed=number):
            launch = family.plan(problem, TARGET, config).launches[-1]
            source = render(launch)
            claims = f"""{OWN_CONSTANTS.get(launch.template, OWN_CONSTANTS[family.name])}
static_assert(SMEM_BYTES == {launch.smem_bytes}, "shared memory");
static_assert(THREADS == {launch.block}, "threads");
static_assert(GRID == {launch.grid[0]}, "grid");
"""
            compile_ptx(Source(source.kernel, source.text + claims), family.archs[0])


@each_arch
def test_the_default_is_legal_for_the_suite(family: Family, arch: str) -> None:
    target = preset(arch)
    for problem in problems_of(family)[::2]:
        config = family.default(problem, target)
        assert family.broken_rules(problem, target, config) == [], problem.key
        check_plan(problem, target, family.plan(problem, target, config))


def drawn(family: Family, values: st.DataObject) -> tuple[ConvProblem, Target]:
    """A problem that the family takes, and a target."""
    any_problem = problems(PRECISIONS[family.name], channel_unit=8 if family.name == "wgmma" else 1)
    problem, target = values.draw(any_problem), preset(values.draw(st.sampled_from(family.archs)))
    if family.name == "wgmma_pointwise":
        pads = {f"pad_{side}": 0 for side in ("top", "bottom", "left", "right")}
        strides = {"stride_h": problem.stride_h % 2 + 1, "stride_w": problem.stride_h % 2 + 1}
        sizes = {"c": 8 * problem.c, "h": 4 * problem.h, "w": 4 * problem.w, "r": 1, "s": 1}
        problem = dataclasses.replace(problem, x_layout="nchw", **pads, **strides, **sizes)
    assume(family.unsupported(problem, target) is None)
    return problem, target


@each_family
def test_the_default_is_legal(family: Family) -> None:
    @settings(parent=WITHOUT_TIME, max_examples=8 if family.name == "wgmma" else 40)  # wgmma's take half a second each
    @given(values=st.data())
    def check(values: st.DataObject) -> None:
        problem, target = drawn(family, values)
        config = family.default(problem, target)
        assert family.broken_rules(problem, target, config) == []
        check_plan(problem, target, family.plan(problem, target, config))

    check()


@pytest.mark.slow
@each_family
@settings(parent=WITHOUT_TIME, max_examples=1500)
@given(values=st.data())
def test_the_default_is_legal_for_many(family: Family, values: st.DataObject) -> None:
    problem, target = drawn(family, values)
    assert family.broken_rules(problem, target, family.default(problem, target)) == []


LIMITS = (
    "n1c1h1w1073741800k1r1s3",  # one row of a billion columns
    "n1c1h1073741800w1k1r3s1",  # one column of a billion rows
    "n2000000000c1h1w1k1r1s1",  # two billion images of a pixel
    "n1c1000000h1w1k1000000r1s1",  # a matrix-vector product
    "n1c3h4000w4000k1r1023s1023",  # a million taps
)
LIMITS_IN_UNITS = (  # likewise; channels in whole units
    "n1c8h1w1073741800k8r1s3",
    "n1c8h1073741800w1k8r3s1",
    "n2000000000c8h1w1k8r1s1",
    "n1c1000000h1w1k1000000r1s1",
    "n1c8h4000w4000k8r1s249",  # a patch of 256 columns for 8 outputs
)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        *itertools.product(("simt", "mma"), LIMITS),
        *itertools.product(("wgmma",), LIMITS_IN_UNITS),
    ],
)
def test_the_default_is_legal_at_the_limits(name: str, shape: str) -> None:
    family, problem = FAMILIES[name], ConvProblem.parse(shape, precision=PRECISIONS[name][0])
    assert family.unsupported(problem, TARGET) is None
    config = family.default(problem, TARGET)
    assert family.broken_rules(problem, TARGET, config) == []
    check_plan(problem, TARGET, family.plan(problem, TARGET, config))
