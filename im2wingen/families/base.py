"""What a kernel family is: a value that turns a problem, a target and a config into kernels to launch."""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar, cast, get_args, get_origin, get_type_hints

from im2wingen.cpu_target import CpuTarget
from im2wingen.errors import UsageError
from im2wingen.families.tensor_map import TensorMap as TensorMap
from im2wingen.problem import ConvProblem
from im2wingen.target import Target

T = TypeVar("T")
TemplateValue = int | bool | str
Pipe = Literal["memory", "ffma", "mma"]
Cores = Literal["cuda", "tensor"]  # of a GPU
# direct: elements are multiplied as they are, or as their precision says. split: fp32 elements as sums of two numbers
# of 11 bits, by several products on tensor cores. scaled: tf32 elements as fp16 numbers, of 11 bits too, with scales.
Arithmetic = Literal["direct", "split", "scaled"]
AnyTarget = Target | CpuTarget  # a family runs on one of both kinds; `unsupported` alone takes either


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Root of the families' configs: every field is an int, a bool or one of a Literal's strings."""

    def to_dict(self) -> dict[str, TemplateValue]:
        return dataclasses.asdict(self)

    def digest(self) -> str:
        """16 hex digits of the config's canonical JSON; ties between configs break by it."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()[:16]


class Choose(Protocol):
    """Picks one of `choices` for a config field.

    `name` is the field's name, or `field.condition` where the choices depend on an earlier pick. Fields that are picked
    together are named with commas (`tile_n,tile_p,tile_q`) and their values joined by `x` ("1x8x16"). The choices
    under one name depend on the problem and the target alone (Optuna demands it).
    """

    def __call__(self, name: str, choices: Sequence[T], /) -> T: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A legality predicate; `sentence` says what must hold and is what the user reads when it does not."""

    sentence: str
    holds: Callable[[ConvProblem, Any, Any], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One kernel of a plan: which template with which constants, and how it is launched.

    `arguments` are in the kernel's order. A name (`x`, `w`, `bias`, `y` or one of the plan's `workspace`) is a device
    pointer; a tuple of maps is one struct that holds them in order, by value (`const __grid_constant__`).
    """

    template: str  # file name under templates/ without .cu.j2; also the kernel's extern "C" name
    values: Mapping[str, TemplateValue]
    grid: tuple[int, int, int]
    block: int  # threads per CTA
    smem_bytes: int  # dynamic shared memory
    arguments: tuple[str | tuple[TensorMap, ...], ...]
    programmatic: bool = False  # may begin while the launch before it in the stream ends (sm_90 and later)
    cluster: int = 1  # CTAs of a cluster, neighbours along x (sm_90 and later); divides grid[0], at most 8
    beside: bool = False  # runs beside the plan's launch before it, and ends after that one (likewise)
    # what the cost model reads
    pipe: Pipe = "memory"
    flops: int = 0  # executed, the waste of partial tiles included
    l2_bytes: int = 0  # requested by all CTAs together, re-reads included
    ctas_per_sm_by_threads: int = 0  # by threads and their registers; 0: no limit known before the compile
    busy_cycles: float = 0.0  # of an SM for one CTA: its scarcest pipe; 0: from flops and l2_bytes
    idle_cycles: float = 0.0  # of one CTA, that the other CTAs of the SM may hide
    hidden_cycles: float = 0.0  # of the launch, that pass within the gap before it

    @property
    def array_names(self) -> frozenset[str]:
        """The arrays that the kernel is given, as pointers or by tensor maps."""
        maps = (one for argument in self.arguments if not isinstance(argument, str) for one in argument)
        pointers = (argument for argument in self.arguments if isinstance(argument, str))
        return frozenset(pointers) | {one.array for one in maps}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The launches that compute y, in order, and the workspace they share (name -> bytes)."""

    launches: tuple[Launch, ...]
    workspace: Mapping[str, int] = field(default_factory=dict)
    arithmetic: Arithmetic = "direct"

    @property
    def workspace_bytes(self) -> int:
        return sum(self.workspace.values())

    def halves(self) -> tuple[list[int], list[int]]:
        """Indices of the launches that read the filter alone (packing), and of the others."""
        pack = [i for i, launch in enumerate(self.launches) if launch.array_names - set(self.workspace) == {"w"}]
        return pack, [i for i in range(len(self.launches)) if i not in pack]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A kernel family as a table row; the functions are pure and free of any device."""

    name: str
    cores: Cores | None  # that multiply; None: the CPU's
    config_type: type[Config]
    templates: tuple[str, ...]  # every template its plans may use
    archs: tuple[str, ...]  # every arch that its templates are compiled for in the tests
    unsupported: Callable[[ConvProblem, AnyTarget], str | None]  # the sentence why not, or None
    suggest: Callable[[ConvProblem, Any, Choose], Config]
    rules: tuple[Rule, ...]
    default: Callable[[ConvProblem, Any], Config]  # legal wherever the family is supported
    plan: Callable[[ConvProblem, Any, Any], Plan]

    def broken_rules(self, problem: ConvProblem, target: AnyTarget, config: Config) -> list[str]:
        """The sentences of the rules that the config breaks; empty for a legal config.

        Every number of a config is a count. One below 1 is told alone: the rules divide by them.
        """
        counts = [(name, value) for name, value in config.to_dict().items() if type(value) is int]
        below = [f"{name} must be at least 1" for name, value in counts if value < 1]
        return below or [rule.sentence for rule in self.rules if not rule.holds(problem, target, config)]

    def config_from_dict(self, stored: Mapping[str, object]) -> Config:
        """A config from untrusted stored values; UsageError names the field that does not fit its type."""
        hints = get_type_hints(self.config_type)
        names = [f.name for f in dataclasses.fields(self.config_type)]
        if set(stored) != set(names):
            wrong = sorted(set(stored) ^ set(names))
            raise UsageError(f"config of family {self.name}: fields {', '.join(wrong)} are missing or unknown")
        for name in names:
            _check_type(f"config field {name}", stored[name], hints[name])
        return self.config_type(**stored)

    def choices_of(self, problem: ConvProblem, target: AnyTarget, config: Config) -> dict[str, Any] | None:
        """The names and values that `suggest` would pick to arrive at `config`, or None if it can't."""
        picked: dict[str, Any] = {}

        def replay(name: str, choices: Sequence[T], /) -> T:
            values = [getattr(config, field_name) for field_name in name.partition(".")[0].split(",")]
            value: Any = values[0] if len(values) == 1 else "x".join(map(str, values))
            if value not in choices:
                raise LookupError(name)
            picked[name] = value
            return cast(T, value)

        try:
            return picked if self.suggest(problem, target, replay) == config else None
        except LookupError:
            return None

    def random_configs(self, problem: ConvProblem, target: AnyTarget, seed: int) -> Iterator[Config]:
        """Endless legal and illegal picks from the search space, for tests and for model-ranked seeding."""
        import random

        rng = random.Random(seed)

        def pick(name: str, choices: Sequence[T], /) -> T:
            return rng.choice(choices)

        while True:
            yield self.suggest(problem, target, pick)


def _check_type(field_name: str, value: object, hint: Any) -> None:
    if get_origin(hint) is Literal:
        if not any(value == allowed and type(value) is type(allowed) for allowed in get_args(hint)):
            raise UsageError(f"{field_name} is {value!r}; allowed are {', '.join(map(str, get_args(hint)))}")
    elif type(value) is not hint:
        raise UsageError(f"{field_name} is {value!r}; allowed is a value of type {hint.__name__}")
