"""im2wingen itself: what `load` serves for the problem, from the tuning database or a default."""

from im2wingen.bench.buffers import as_nchw
from im2wingen.bench.contestant import Contestant, Session
from im2wingen.bench.result import OURS
from im2wingen.runtime import load


def contestant(session: Session) -> Contestant:
    """Packing and transform are in the time, packing not with `prepacked`. Errors are load's."""
    problem, buffers = session.problem, session.buffers
    convolution = load(problem, device=session.torch.cuda.current_device(), db=session.db, cores=session.cores)
    filters = [convolution.pack(w) for w in buffers.w] if session.prepacked else list(buffers.w)

    def launch(j: int) -> None:
        convolution(buffers.x[j], filters[j], out=buffers.y[j])

    return Contestant(
        name=OURS,
        peer=OURS,
        detail=str(convolution.provenance),
        launch=launch,
        output=lambda j: as_nchw(buffers.y[j], problem.y_layout),
        workspace_bytes=convolution.provenance.workspace_bytes,
    )
