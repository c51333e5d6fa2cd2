"""Run a convolution on PyTorch tensors and compare it with PyTorch's own.

Needs PyTorch and a GPU. Without them it says which kernel an H200 would get.
"""

import importlib.util

from im2wingen import ConvProblem, load
from im2wingen.device import device_count

PROBLEM = ConvProblem.parse("n32c64h56w56k64r3s3pad1", precision="fp16", layout="nhwc", epilogue="bias_relu")


def run() -> None:
    import torch

    conv = load(PROBLEM)
    print("kernel:", conv.provenance)
    print(f"workspace: {conv.workspace_bytes} bytes")

    x = torch.randn(32, 64, 56, 56, device="cuda", dtype=torch.float16).contiguous(memory_format=torch.channels_last)
    layer = torch.nn.Conv2d(64, 64, 3, padding=1, device="cuda", dtype=torch.float16)
    layer = layer.to(memory_format=torch.channels_last)
    w, bias = layer.weight.detach(), layer.bias.detach()  # no gradient flows through a kernel of im2wingen

    y = conv(x, w, bias)  # on the current stream, in memory of PyTorch's allocator
    packed = conv.pack(w)  # where weights stay, pack them once
    same = conv(x, packed, bias)
    reference = torch.nn.functional.conv2d(x.double(), w.double(), bias.double(), padding=1).relu()
    print(f"y: {tuple(y.shape)}, channels last: {y.is_contiguous(memory_format=torch.channels_last)}")
    print(f"largest difference from float64: {(y.double() - reference).abs().max().item():.2e}")
    print(f"with the packed filter the same: {torch.equal(y, same)}")

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = conv(x, packed, bias)
    graph.replay()
    torch.cuda.synchronize()
    print(f"replayed from a CUDA graph the same: {torch.equal(y, captured)}")


if device_count() == 0 or importlib.util.find_spec("torch") is None:
    print("no GPU or no PyTorch here; an H200 would get:")
    print(load(PROBLEM, arch="sm_90a").provenance)
else:
    run()
