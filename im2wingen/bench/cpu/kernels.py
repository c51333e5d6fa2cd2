"""Kernels of the benchmark's own, compiled through the cache and loaded."""

from im2wingen.cache import CubinCache
from im2wingen.cpu.loaded import LoadedCpuPlan
from im2wingen.cpu_target import CpuTarget
from im2wingen.families.base import Launch, Plan, TemplateValue
from im2wingen.render import plan_sources
from im2wingen.settings import read_settings


def loaded_kernel(
    template: str, values: dict[str, TemplateValue], arguments: tuple[str, ...], target: CpuTarget
) -> LoadedCpuPlan:
    """One C++ template, with the flags that every kernel for this CPU gets, on the target's cores."""
    launch = Launch(
        template=template, values=values, grid=(1, 1, 1), block=1, smem_bytes=0, arguments=arguments
    )  # fmt: skip
    return loaded_plan(Plan(launches=(launch,)), target)


def loaded_plan(plan: Plan, target: CpuTarget) -> LoadedCpuPlan:
    """All kernels of a plan, likewise."""
    cache = CubinCache(read_settings().cache_dir)
    cubins = [cache.get_or_compile(source, target.arch) for source in plan_sources(plan)]
    return LoadedCpuPlan(plan, cubins, target.cores)
