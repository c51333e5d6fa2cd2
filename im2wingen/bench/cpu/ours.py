"""im2wingen itself: what `load` serves for the problem on this CPU, from the tuning database or a default."""

from im2wingen.bench.cpu.clock import ClockProbe
from im2wingen.bench.cpu.contestant import CpuContestant, CpuSession
from im2wingen.bench.cpu.kernels import loaded_plan
from im2wingen.bench.result import OURS
from im2wingen.cpu.memory import aligned_bytes
from im2wingen.cpu_target import CpuTarget
from im2wingen.families import family_named
from im2wingen.families.simd_config import SimdConfig, SimdGeometry
from im2wingen.problem import ConvProblem
from im2wingen.runtime import Provenance, load


def contestant(session: CpuSession) -> CpuContestant:
    """Packing and window are in the time, packing not with `prepacked`. Errors are load's."""
    problem, arrays = session.problem, session.arrays
    convolution = load(problem, backend="cpu", threads=session.target.cores, db=session.db)
    w = convolution.pack(arrays.w) if session.prepacked else arrays.w

    def launch() -> None:
        convolution(arrays.x, w, out=arrays.y)

    return CpuContestant(
        name=OURS,
        peer=OURS,
        detail=str(convolution.provenance),
        launch=launch,
        output=lambda: arrays.y,
        workspace_bytes=convolution.provenance.workspace_bytes,
        window_bytes=window_bytes(problem, session.target, convolution.provenance),
        clock=_clock(session, convolution.provenance),
    )


def _clock(session: CpuSession, provenance: Provenance) -> ClockProbe:
    """Of the same kernel, loaded once more with a workspace of its own."""
    family, arrays = family_named(provenance.family), session.arrays
    plan = family.plan(session.problem, session.target, family.config_from_dict(provenance.config))
    loaded = loaded_plan(plan, session.target)
    workspace = {name: aligned_bytes(size) for name, size in plan.workspace.items()}
    held = workspace | {"x": arrays.x, "w": arrays.w, "y": arrays.y}
    pointers = {"bias": 0} | {name: array.ctypes.data for name, array in held.items()}
    loaded.launch(pointers)
    return ClockProbe(loaded, pointers, session.target, held)


def window_bytes(problem: ConvProblem, target: CpuTarget, provenance: Provenance) -> int:
    """Copies of x that the kernel makes: the im2win tensor, the rows that each thread copies, or none."""
    config = family_named(provenance.family).config_from_dict(provenance.config)
    if not isinstance(config, SimdConfig):
        return 0
    if config.window == "explicit":
        return problem.im2win_bytes
    return target.cores * SimdGeometry.of(problem, target, config).copied_bytes
