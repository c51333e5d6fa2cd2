"""The CPU as serving uses it, in the place of a ServingDevice: kernels run in the caller's thread and are done then."""

from collections.abc import Mapping, Sequence

from im2wingen.cpu.loaded import LoadedCpuPlan
from im2wingen.cpu_target import CpuTarget
from im2wingen.families.base import Plan
from im2wingen.nvrtc import Cubin


class ServingCpu:
    """This machine's CPU, of which `target.cores` cores serve."""

    ordinal = None  # as ArrayFacts have it for host memory

    def __init__(self, target: CpuTarget) -> None:
        self.name, self.target = target.name, target

    def load(self, plan: Plan, cubins: Sequence[Cubin]) -> LoadedCpuPlan:
        return LoadedCpuPlan(plan, cubins, self.target.cores)

    def unload(self, plan: LoadedCpuPlan) -> None:
        plan.unload()

    def launch(self, plan: LoadedCpuPlan, pointers: Mapping[str, int], stream: int, *, follows: bool = False) -> None:
        plan.launch(pointers)
