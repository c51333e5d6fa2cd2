"""A cuDNN entry: PyTorch's conv2d with benchmark on, as a program would call it."""

from typing import Any

from im2wingen.bench.buffers import as_nchw
from im2wingen.bench.contestant import Contestant, Session
from im2wingen.bench.optional import PeerUnavailableError
from im2wingen.bench.result import CUDNN


def contestant(session: Session) -> Contestant:
    """conv2d over views with the channels second; its outputs are its own, one kept a buffer set."""
    torch, problem, buffers = session.torch, session.problem, session.buffers
    if problem.element_bytes == 1:
        raise PeerUnavailableError("PyTorch has no convolution of 8-bit elements on a GPU")
    torch.backends.cudnn.benchmark = True
    xs = [as_nchw(x, problem.x_layout) for x in buffers.x]
    ws = [as_nchw(w, problem.w_layout) for w in buffers.w]
    outputs: list[Any] = [None] * buffers.sets
    conv2d, pad = torch.nn.functional.conv2d, torch.nn.functional.pad
    symmetric = problem.pad_top == problem.pad_bottom and problem.pad_left == problem.pad_right
    pads = (problem.pad_left, problem.pad_right, problem.pad_top, problem.pad_bottom)
    stride, dilation = (problem.stride_h, problem.stride_w), (problem.dilation_h, problem.dilation_w)
    padding = (problem.pad_top, problem.pad_left) if symmetric else (0, 0)

    def launch(j: int) -> None:
        outputs[j] = None  # its memory is free for the next one
        x = xs[j] if symmetric else pad(xs[j], pads)
        outputs[j] = conv2d(x, ws[j], stride=stride, padding=padding, dilation=dilation, groups=problem.groups)

    return Contestant(
        name="torch",
        peer=CUDNN,
        detail="torch.nn.functional.conv2d, benchmark=True",
        launch=launch,
        output=lambda j: outputs[j],
        workspace_bytes=0,
        allocates_output=True,
    )
