"""Peer `direct`: the plain direct convolution of templates/cpu_direct.cpp.j2."""

from im2wingen.bench.cpu.contestant import CpuContestant, CpuSession
from im2wingen.bench.cpu.kernels import loaded_kernel
from im2wingen.bench.optional import PeerUnavailableError
from im2wingen.families.support import problem_values


def contestants(session: CpuSession) -> list[CpuContestant]:
    """One contestant, compiled now with the flags that our kernels get."""
    problem, arrays = session.problem, session.arrays
    if problem.precision != "fp32":
        raise PeerUnavailableError("direct is written for fp32")
    loaded = loaded_kernel("cpu_direct", problem_values(problem), ("x", "w", "bias", "y"), session.target)
    pointers = {"x": arrays.x.ctypes.data, "w": arrays.w.ctypes.data, "bias": 0, "y": arrays.y.ctypes.data}
    return [
        CpuContestant(
            name="direct",
            peer="direct",
            detail="loops as the definition has them",
            launch=lambda: loaded.launch(pointers),
            output=lambda: arrays.y,
            workspace_bytes=0,
        )
    ]
