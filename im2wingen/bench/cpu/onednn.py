"""Peer `onednn`: PyTorch's oneDNN convolution, by every way that keeps the layer's layouts; the fastest counts.

oneDNN has no way to write to an output of ours, so PyTorch allocates y; the one before is freed first, and with
`keep_freed_memory` its pages come back.
"""

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from im2wingen.bench.cpu.contestant import CpuContestant, CpuSession
from im2wingen.bench.cpu.result import ONEDNN
from im2wingen.bench.optional import PeerUnavailableError, import_cpu_torch
from im2wingen.problem import ConvProblem

Convolve = Callable[[], Any]  # gives y as a tensor with the channels second


def contestants(session: CpuSession) -> list[CpuContestant]:
    """Plain filters in all cases; with `prepacked` also filters that oneDNN has brought into its own order before."""
    torch, problem = import_cpu_torch(), session.problem
    if problem.x_layout != problem.y_layout:
        raise PeerUnavailableError("oneDNN is called for x and y of one layout alone")
    torch.set_grad_enabled(False)
    torch.set_num_threads(session.target.cores)
    if problem.precision == "int8":
        ways = _quantized_ways(torch, session)
    else:
        ways = _nhwc_ways(torch, session) if problem.x_layout == "nhwc" else _nchw_ways(torch, session)
    return [_contestant(torch, problem, name, detail, convolve) for name, (detail, convolve) in ways.items()]


def _nhwc_ways(torch: Any, session: CpuSession) -> dict[str, tuple[str, Convolve]]:
    problem = session.problem
    x = _tensor(torch, session.arrays.x).permute(0, 3, 1, 2)
    w = _tensor(torch, session.arrays.w).permute(0, 3, 1, 2)
    ways = {"onednn": ("conv2d, channels_last", _plain(torch, problem, x, w))}
    if session.prepacked:
        ways["onednn packed"] = ("_convolution_pointwise, channels_last, packed", _packed(torch, problem, x, w))
    return ways


def _nchw_ways(torch: Any, session: CpuSession) -> dict[str, tuple[str, Convolve]]:
    """With oneDNN's own reorders, and by way of channels_last with PyTorch's copies; all end in an NCHW y."""
    problem = session.problem
    x, w, y = (_tensor(torch, array) for array in (session.arrays.x, session.arrays.w, session.arrays.y))
    last = torch.empty_like(x, memory_format=torch.channels_last)
    last_w = w.contiguous(memory_format=torch.channels_last)

    def by_way_of(convolve: Convolve) -> Convolve:
        def run() -> Any:
            last.copy_(x)
            return y.copy_(convolve())

        return run

    plain = _plain(torch, problem, last, last_w)
    ways = {
        "onednn": ("conv2d, contiguous", _plain(torch, problem, x, w)),
        "onednn channels_last": ("copy to channels_last, conv2d, copy back", by_way_of(plain)),
    }
    if session.prepacked:
        packed = _packed(torch, problem, last, w)
        ways["onednn packed"] = (
            "copy to channels_last, _convolution_pointwise packed, copy back", by_way_of(packed)
        )  # fmt: skip
        ways["onednn blocked"] = ("to_mkldnn, conv2d packed, to_dense", _blocked(torch, problem, x, w))
    return ways


def _quantized_ways(torch: Any, session: CpuSession) -> dict[str, tuple[str, Convolve]]:
    """PyTorch's quantized convolution: packed filters, x as uint8 with 128 for zero, y as fp32.

    It takes no int8 x and gives no int32 y. Bringing x into that form is not in the time.
    """
    problem = session.problem
    if problem.x_layout != "nhwc" or not session.prepacked or _pads_differ(problem):
        raise PeerUnavailableError("oneDNN's int8 is called for NHWC, equal pads and packed filters alone")
    x = torch.from_numpy((session.arrays.x.astype("int16") + 128).astype("uint8")).permute(0, 3, 1, 2)
    w = torch.from_numpy(session.arrays.w).permute(0, 3, 1, 2)
    stride, dilation = [problem.stride_h, problem.stride_w], [problem.dilation_h, problem.dilation_w]
    padding = [problem.pad_top, problem.pad_left]
    ones, zeros = torch.ones(problem.k), torch.zeros(problem.k, dtype=torch.int)
    ops, groups, zero = torch.ops.onednn, problem.groups, 128
    packed = ops.qconv_prepack(w, ones, 1.0, zero, stride, padding, dilation, groups, list(x.shape))

    def run() -> Any:
        return ops.qconv2d_pointwise(
            x, 1.0, zero, packed, ones, zeros, None, stride, padding, dilation, groups, 1.0, 0, torch.float32, "none",
            [], "",
        )  # fmt: skip

    return {"onednn packed": ("qconv2d_pointwise, channels_last, packed, uint8 x with zero point, fp32 y", run)}


def _tensor(torch: Any, array: NDArray[Any]) -> Any:
    found = torch.from_numpy(array)
    return found.view(torch.bfloat16) if array.dtype == "uint16" else found


def _contestant(torch: Any, problem: ConvProblem, name: str, detail: str, convolve: Convolve) -> CpuContestant:
    held: list[Any] = [None]

    def launch() -> None:
        held[0] = None  # its memory is free for the next one
        held[0] = convolve()

    def output() -> NDArray[Any]:
        y = held[0].permute(0, 2, 3, 1) if problem.y_layout == "nhwc" else held[0]
        if not y.is_contiguous():
            raise PeerUnavailableError(f"wrong result: y has the strides {held[0].stride()}, not {problem.y_layout}'s")
        found: NDArray[Any] = (y.view(torch.uint16) if y.dtype == torch.bfloat16 else y).numpy()
        return found

    return CpuContestant(
        name=name, peer=ONEDNN, detail=detail, launch=launch, output=output, workspace_bytes=None
    )  # fmt: skip


def _plain(torch: Any, problem: ConvProblem, x: Any, w: Any) -> Convolve:
    padded, padding, stride, dilation = _geometry(torch, problem, x)
    conv2d, groups = torch.nn.functional.conv2d, problem.groups
    return lambda: conv2d(padded(), w, stride=stride, padding=padding, dilation=dilation, groups=groups)


def _packed(torch: Any, problem: ConvProblem, x: Any, w: Any) -> Convolve:
    """What PyTorch's own compiler calls for frozen filters."""
    padded, padding, stride, dilation = _geometry(torch, problem, x)
    packed = _reordered(torch, problem, w, padding, stride, dilation, list(padded().shape))
    convolve, groups = torch.ops.mkldnn._convolution_pointwise, problem.groups
    return lambda: convolve(padded(), packed, None, padding, stride, dilation, groups, "none", [], "")


def _blocked(torch: Any, problem: ConvProblem, x: Any, w: Any) -> Convolve:
    """By oneDNN's opaque tensors."""
    padded, padding, stride, dilation = _geometry(torch, problem, x)
    packed = _reordered(torch, problem, w, padding, stride, dilation, list(padded().shape))
    conv2d, groups = torch.nn.functional.conv2d, problem.groups
    return lambda: conv2d(
        padded().to_mkldnn(), packed, stride=stride, padding=padding, dilation=dilation, groups=groups
    ).to_dense()  # fmt: skip


def _reordered(
    torch: Any, problem: ConvProblem, w: Any, padding: list[int], stride: list[int], dilation: list[int], shape: Any
) -> Any:
    try:
        reorder = torch.ops.mkldnn._reorder_convolution_weight
    except AttributeError as error:
        raise PeerUnavailableError(f"PyTorch {torch.__version__} has no packing of filters for oneDNN") from error
    return reorder(w.contiguous(), padding, stride, dilation, problem.groups, shape)


def _geometry(torch: Any, problem: ConvProblem, x: Any) -> tuple[Convolve, list[int], list[int], list[int]]:
    """x as oneDNN gets it, at each call, and padding, stride, dilation; PyTorch pads where the pads differ."""
    stride, dilation = [problem.stride_h, problem.stride_w], [problem.dilation_h, problem.dilation_w]
    if not _pads_differ(problem):
        return lambda: x, [problem.pad_top, problem.pad_left], stride, dilation
    pads = (problem.pad_left, problem.pad_right, problem.pad_top, problem.pad_bottom)
    return lambda: torch.nn.functional.pad(x, pads), [0, 0], stride, dilation


def _pads_differ(problem: ConvProblem) -> bool:
    return problem.pad_top != problem.pad_bottom or problem.pad_left != problem.pad_right


def onednn_version(torch: Any) -> str:
    """As PyTorch's configuration names it, 3.12.0."""
    _, _, rest = str(torch.__config__.show()).partition("MKL-DNN v")
    return rest.split()[0] if rest else "unknown"
