"""Serves every layer, precision and layout that the tuning database holds, from PyTorch and CuPy, and checks y.

    python benchmarks/serve.py [--db PATH] [--out FILE.json]

Run it in a process of its own after tuning: kernels are loaded in mode `frozen`, so nothing is compiled. y is compared
with PyTorch's float64 convolution on the first, middle and last image; CuPy's y must equal PyTorch's bit for bit, and
so must the y of a replayed CUDA graph. bf16 goes through PyTorch alone, since CuPy has no such type; without CuPy
everything does.
"""

import argparse
import json
import time
from pathlib import Path

import torch
import torch.nn.functional as F

from im2wingen import ConvProblem, load
from im2wingen.errors import NotStoredError
from im2wingen.layers import IM2WIN_SUITE

try:
    import cupy
except ImportError:
    cupy = None

DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
LIMITS = {"fp32": 5e-6, "tf32": 5e-4, "fp16": 5e-4, "bf16": 4e-3}  # norm-relative
LAYOUTS = ("nhwc", "nchw")


def serve(problem: ConvProblem, db: str | None) -> dict[str, object]:
    """One line of the report; raises NotStoredError where nothing is stored for the problem itself."""
    started = time.perf_counter()
    conv = load(problem, mode="frozen", db=db)
    loaded_s = time.perf_counter() - started
    record = conv.provenance.record
    if conv.provenance.level != "exact" or record is None or record.predicted:
        raise NotStoredError(f"{problem.key} has no measured record of its own")
    torch.manual_seed(1)
    memory_format = torch.channels_last if problem.x_layout == "nhwc" else torch.contiguous_format
    dtype = DTYPES[problem.precision]
    x = torch.randn(problem.n, problem.c, problem.h, problem.w, device="cuda").to(dtype).to(memory_format=memory_format)
    w = torch.randn(problem.k, problem.c, problem.r, problem.s, device="cuda").mul_(problem.gemm_k**-0.5).to(dtype)
    w = w.to(memory_format=memory_format)
    y = conv(x, w)
    images = [0, problem.n // 2, problem.n - 1]
    stride = (problem.stride_h, problem.stride_w)
    want = F.conv2d(x[images].double(), w.double(), stride=stride)
    error = float((y[images].double() - want).norm() / want.norm())
    row: dict[str, object] = {
        "problem": problem.key, "layer": problem.layer_name, "family": conv.provenance.family, "norm_error": error,
        "finite": bool(torch.isfinite(y).all()), "tuned_us": record.median_us, "origin": conv.provenance.origin,
        "load_s": round(loaded_s, 3), "workspace_bytes": conv.workspace_bytes,
    }  # fmt: skip
    y_graph = torch.empty_like(y)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        conv(x, w, out=y_graph)
    y_graph.fill_(float("nan"))
    graph.replay()
    row["graph_equal"] = torch.equal(y_graph, y)
    if cupy is not None and dtype is not torch.bfloat16:
        order = (0, 2, 3, 1) if problem.x_layout == "nhwc" else (0, 1, 2, 3)
        cupy_y = conv(cupy.from_dlpack(x.permute(order)), cupy.from_dlpack(w.permute(order)))
        row["cupy_equal"] = isinstance(cupy_y, cupy.ndarray) and torch.equal(
            torch.from_dlpack(cupy_y), y.permute(order)
        )
    row["right"] = error < LIMITS[problem.precision] and all(
        row[name] is not False for name in ("finite", "graph_equal", "cupy_equal") if name in row
    )
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--db", help="tuning database, as for im2wingen --db")
    parser.add_argument("--out", type=Path, help="JSON file for the report")
    options = parser.parse_args()
    rows, missing = [], []
    for precision in DTYPES:
        for layout in LAYOUTS:
            for layer in IM2WIN_SUITE:
                problem = ConvProblem.parse(layer, precision=precision, layout=layout)
                try:
                    rows.append(serve(problem, options.db))
                except NotStoredError:
                    missing.append(problem.key)
                torch.cuda.empty_cache()
    for row in rows:
        right, origin = row["right"], row["origin"]
        print(f"{row['problem']:55s} {row['family']:5s} error {row['norm_error']:.1e} right {right} {origin}")
    wrong = [row["problem"] for row in rows if not row["right"]]
    print(f"{len(rows)} served, {len(wrong)} wrong, {len(missing)} not stored")
    if options.out:
        device = torch.cuda.get_device_name()
        report = {
            "device": device,
            "torch": torch.__version__,
            "cupy": cupy.__version__ if cupy else None,
            "rows": rows,
            "missing": missing,
        }
        options.out.write_text(json.dumps(report, indent=1) + "\n")
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
