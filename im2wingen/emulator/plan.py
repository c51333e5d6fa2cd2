"""A whole plan in the emulator: every launch rendered, compiled and run in order over one set of arrays."""

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from im2wingen.emulator.arena import Arena
from im2wingen.emulator.kernel import EmulatedKernel, Maps, Pointer, Poison, copy_in, copy_out, read_only
from im2wingen.errors import EmulatorError
from im2wingen.families.base import Plan
from im2wingen.render import render


def run_plan(
    plan: Plan,
    arrays: Mapping[str, NDArray[Any]],
    *,
    seed: int = 0,
    sanitize: bool = False,
    poison: Poison = "nan",
    timeout_s: float = 300.0,
) -> None:
    """Run a plan on `arrays` (`x`, `w`, `bias`, `y`), which change in place where they are writeable.

    bf16 comes as uint16, fp8 as uint8. Workspaces are allocated here, filled with NaN. `seed`, `poison` and
    `timeout_s` (of one launch) are those of EmulatedKernel.launch. Raises CompileError and EmulatorError; after the
    latter the arrays are as they were.
    """
    wanted = {name for launch in plan.launches for name in launch.array_names}
    if missing := sorted(wanted - arrays.keys() - plan.workspace.keys()):
        raise EmulatorError(f"the plan needs arrays that are not given: {', '.join(missing)}")
    given = {name: arrays[name] for name in sorted(wanted & arrays.keys())}
    with Arena({name: array.nbytes for name, array in given.items()} | dict(plan.workspace)) as arena:
        copy_in(arena, given)
        constant = read_only(given)
        for launch in plan.launches:
            kernel = EmulatedKernel(render(launch), sanitize=sanitize)
            arguments = [
                Pointer(name=argument, writable=argument not in constant)
                if isinstance(argument, str)
                else Maps(maps=argument, read_only=constant)
                for argument in launch.arguments
            ]
            kernel.launch_in(
                arena,
                launch.grid,
                launch.block,
                launch.smem_bytes,
                arguments,
                seed,
                cluster=launch.cluster,
                poison=poison,
                timeout_s=timeout_s,
            )
        copy_out(arena, given)
