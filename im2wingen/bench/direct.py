"""Peer `direct`: the plain direct convolution kernel of templates/direct.cu.j2."""

from im2wingen.bench.buffers import as_nchw
from im2wingen.bench.contestant import Contestant, Session
from im2wingen.bench.optional import PeerUnavailableError
from im2wingen.families.base import Launch, Plan
from im2wingen.families.support import ceil_div, problem_values
from im2wingen.kernel import LoadedPlan
from im2wingen.nvrtc import compile_cubin
from im2wingen.problem import ConvProblem
from im2wingen.render import render

_THREADS = 256
_OUTPUTS = 4


def plan(problem: ConvProblem) -> Plan:
    """The one launch; PeerUnavailableError for groups and elements of 8 bits."""
    if problem.groups > 1:
        raise PeerUnavailableError("the direct kernel has no groups")
    if problem.element_bytes == 1:
        raise PeerUnavailableError("the direct kernel has no elements of 8 bits")
    lanes, across = (problem.k, problem.q) if problem.y_layout == "nhwc" else (problem.q, problem.k)
    threads = problem.n * problem.p * ceil_div(across, _OUTPUTS) * lanes
    launch = Launch(
        template="direct", values={**problem_values(problem), "THREADS": _THREADS, "OUTPUTS": _OUTPUTS},
        grid=(ceil_div(threads, _THREADS), 1, 1), block=_THREADS, smem_bytes=0, arguments=("x", "w", "bias", "y"),
        pipe="ffma", flops=problem.flops,
    )  # fmt: skip
    return Plan(launches=(launch,))


def contestants(session: Session) -> list[Contestant]:
    """One contestant, compiled now."""
    direct = plan(session.problem)
    loaded = LoadedPlan(direct, [compile_cubin(render(launch), session.target.arch) for launch in direct.launches])
    buffers, stream = session.buffers, int(session.torch.cuda.current_stream().cuda_stream)
    pointers = [
        {"x": x.data_ptr(), "w": w.data_ptr(), "bias": 0, "y": y.data_ptr()}
        for x, w, y in zip(buffers.x, buffers.w, buffers.y, strict=True)
    ]
    return [
        Contestant(
            name="direct",
            peer="direct",
            detail=f"{_OUTPUTS} outputs a thread",
            launch=lambda j: loaded.launch(pointers[j], stream),
            output=lambda j: as_nchw(buffers.y[j], session.problem.y_layout),
            workspace_bytes=0,
        )
    ]
