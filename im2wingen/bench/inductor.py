"""Peer `inductor`: PyTorch's compiler, which tunes a Triton convolution kernel for the layer."""

from typing import Any

from im2wingen.bench.buffers import as_nchw
from im2wingen.bench.contestant import Contestant, Session
from im2wingen.bench.optional import PeerUnavailableError


def contestants(session: Session) -> list[Contestant]:
    """One contestant, tuned now (seconds); cuDNN is not among what it may choose."""
    torch, problem, buffers = session.torch, session.problem, session.buffers
    if problem.pad_top != problem.pad_bottom or problem.pad_left != problem.pad_right:
        raise PeerUnavailableError("inductor is called for symmetric pads alone")
    if problem.element_bytes == 1:
        raise PeerUnavailableError("PyTorch has no convolution of 8-bit elements on a GPU")
    options = {"max_autotune": True, "max_autotune_conv_backends": "TRITON", "triton.cudagraphs": False}
    stride, dilation = (problem.stride_h, problem.stride_w), (problem.dilation_h, problem.dilation_w)
    padding = (problem.pad_top, problem.pad_left)

    def convolution(x: Any, w: Any) -> Any:
        return torch.nn.functional.conv2d(
            x, w, stride=stride, padding=padding, dilation=dilation, groups=problem.groups
        )

    torch.compiler.reset()
    compiled = torch.compile(convolution, dynamic=False, options=options)
    xs = [as_nchw(x, problem.x_layout) for x in buffers.x]
    ws = [as_nchw(w, problem.w_layout) for w in buffers.w]
    outputs: list[Any] = [None] * buffers.sets

    def launch(j: int) -> None:
        outputs[j] = None
        outputs[j] = compiled(xs[j], ws[j])

    return [
        Contestant(
            name="inductor",
            peer="inductor",
            detail="torch.compile, max_autotune, Triton alone",
            launch=launch,
            output=lambda j: outputs[j],
            workspace_bytes=0,
            allocates_output=True,
        )
    ]
