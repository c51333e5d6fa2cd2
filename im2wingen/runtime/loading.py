"""load(): the best known kernel of a problem, ready to be called."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import get_args

from im2wingen.backends import Backend, resolve_backend
from im2wingen.cache import CubinCache
from im2wingen.cpu.devices import cpu_with
from im2wingen.db import LayeredRecords, TuningDatabase, open_records
from im2wingen.errors import UsageError
from im2wingen.families import family_names
from im2wingen.families.base import AnyTarget, Cores, Plan
from im2wingen.nvrtc import Cubin
from im2wingen.problem import ConvProblem
from im2wingen.runtime.choice import Choice, choose
from im2wingen.runtime.convolution import Convolution
from im2wingen.runtime.cubins import obtain_cubins
from im2wingen.runtime.modules import LoadedKernels, ModuleCache
from im2wingen.runtime.provenance import Provenance
from im2wingen.runtime.serving_cpu import ServingCpu
from im2wingen.runtime.serving_device import ServingDevice, serving_device
from im2wingen.settings import Mode, read_settings
from im2wingen.target import Target, preset

_MAX_LOADED = 256  # loaded kernels a device keeps beyond those that convolutions hold
_modules: dict[int | tuple[str, int], ModuleCache] = {}  # by CUDA ordinal, or ("cpu", threads)


def load(
    problem: ConvProblem,
    *,
    mode: Mode | None = None,
    device: int | None = None,
    db: str | None = None,
    arch: str | None = None,
    backend: Backend | None = None,
    threads: int | None = None,
    cores: Cores | None = None,
) -> Convolution:
    """The best known kernel for `problem`, by the levels exact, batch, shape, default.

    `backend`: `cuda` or `cpu`; None means a GPU or, where there is none, the CPU if it can run the problem. `threads`:
    of the CPU, one a core if None. `cores`: only kernels that multiply on `cuda` or on `tensor` cores; None:
    the faster.

    `mode`: `frozen` never compiles, `cache` compiles what the kernel cache lacks, `tune` tunes a problem that has no
    record of its own, within IM2WINGEN_TUNE_BUDGET seconds. `device`: CUDA ordinal, 0 if None. `db`: path or URL of the
    tuning database. `arch` without `device`: provenance and sources alone, on any machine. None means the environment's
    IM2WINGEN_MODE and IM2WINGEN_DB. Raises UnsupportedError, NoDeviceError, NotStoredError (frozen), DatabaseError.
    """
    settings = read_settings()
    mode, url = mode or settings.mode, db or settings.db_url
    if mode not in get_args(Mode):
        raise UsageError(f"mode is {mode!r}; allowed are {', '.join(get_args(Mode))}")
    families = family_names(None, cores)
    asks_for_gpu = arch is not None or device is not None or cores is not None
    if resolve_backend(problem, backend, threads=threads, asks_for_gpu=asks_for_gpu, families=families) == "cpu":
        return _served(problem, mode, url, ServingCpu(cpu_with(threads)), None)
    if arch is not None and device is None:
        return _for_arch(problem, preset(arch), url, families)
    serving = serving_device(device or 0)
    if arch is not None and preset(arch).arch != serving.target.arch:
        raise UsageError(f"arch is {arch!r}; device {serving.ordinal} ({serving.name}) has {serving.target.arch}")
    return _served(problem, mode, url, serving, families)


def _served(
    problem: ConvProblem,
    mode: Mode,
    url: str,
    serving: ServingDevice | ServingCpu,
    families: Sequence[str] | None,
) -> Convolution:
    settings = read_settings()
    choice = look_up(problem, serving.target, url, families=families)
    if mode == "tune" and (choice.record is None or choice.level != "exact" or choice.record.predicted):
        from im2wingen.tune import tune  # brings Optuna along

        if isinstance(serving, ServingCpu):
            tune(
                problem, time_budget_s=settings.tune_budget_s, db=url, backend="cpu", threads=serving.target.cores
            )  # fmt: skip
        else:
            tune(problem, time_budget_s=settings.tune_budget_s, db=url, devices=(serving.ordinal,), families=families)
        choice = look_up(problem, serving.target, url, families=families)
    cache = CubinCache(settings.cache_dir)
    cubins, origin = obtain_cubins(choice, serving.target.arch, cache, may_compile=mode != "frozen")
    kernels = _loaded(problem, choice, cubins, serving)
    provenance = Provenance.of(problem, serving.target, choice, cubins, origin, device_name=serving.name)
    return Convolution(problem, choice.plan, choice.sources, provenance, device=serving, kernels=kernels)


def look_up(problem: ConvProblem, target: AnyTarget, url: str, *, families: Sequence[str] | None = None) -> Choice:
    """`choose` on the database at `url` and the shipped records; the target's name counts as the device's."""
    with opened_records(url) as records:
        return choose(problem, target, records, device_name=target.name, families=families)


@contextmanager
def opened_records(url: str) -> Iterator[LayeredRecords]:
    """The user's database, where there is one, and the shipped records; closed afterwards."""
    records = open_records(url)
    try:
        yield records
    finally:
        for source in records.sources:
            if isinstance(source, TuningDatabase):
                source.close()


def _for_arch(problem: ConvProblem, target: Target, url: str, families: Sequence[str] | None) -> Convolution:
    choice = look_up(problem, target, url, families=families)
    provenance = Provenance.of(problem, target, choice, (), "none", device_name=None)
    return Convolution(problem, choice.plan, choice.sources, provenance, device=None, kernels=None)


def _loaded(
    problem: ConvProblem, choice: Choice, cubins: tuple[Cubin, ...], serving: ServingDevice | ServingCpu
) -> LoadedKernels:
    """The cubins on the device, from its LRU; the key holds all that a launch depends on."""
    place = ("cpu", serving.target.cores) if isinstance(serving, ServingCpu) else serving.ordinal
    modules = _modules.setdefault(place, ModuleCache(_MAX_LOADED, serving.unload))
    key = (problem.key, choice.family, choice.config.digest(), tuple(cubin.sha256 for cubin in cubins))
    return modules.get(key, lambda: _load_halves(choice.plan, cubins, serving))


def _load_halves(plan: Plan, cubins: tuple[Cubin, ...], serving: ServingDevice | ServingCpu) -> LoadedKernels:
    pack, main = (
        (Plan(launches=tuple(plan.launches[i] for i in half)), tuple(cubins[i] for i in half)) for half in plan.halves()
    )
    return LoadedKernels(pack=serving.load(*pack) if pack[1] else None, main=serving.load(*main))
