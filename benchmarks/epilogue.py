"""What a fused bias and ReLU cost: the stored kernels of the twelve layers with and without them, side by side.

    python benchmarks/epilogue.py [LAYER ...] [--precision fp16] [--layout nhwc] [--batch N] [--db PATH] [--out FILE]

Each layer's best stored configuration runs with the epilogues none, bias and bias_relu, by the benchmark's protocol:
CUDA graphs over rotating buffer sets, settled clocks, interleaved rounds.
"""

import argparse
import json
import statistics
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from im2wingen import ConvProblem, load
from im2wingen.bench.buffers import allocate, set_count
from im2wingen.bench.environment import versions
from im2wingen.bench.timing import GraphTimer, time_interleaved
from im2wingen.device import open_device
from im2wingen.layers import IM2WIN_SUITE

EPILOGUES = ("none", "bias", "bias_relu")


def measure(problem: ConvProblem, device: Any, *, rounds: int, db: str | None) -> dict[str, object]:
    """Microseconds with each epilogue and their ratios to none; raises RuntimeError if they'd be different kernels."""
    buffers = allocate(torch, problem, set_count(problem, device.target.l2_bytes), seed=1)
    bias = torch.randn(problem.k, device="cuda").to(buffers.x[0].dtype)
    timers, configs = {}, set()
    for epilogue in EPILOGUES:
        conv = load(replace(problem, epilogue=epilogue), db=db)
        configs.add((conv.provenance.family, str(conv.provenance.config)))
        extra = {} if epilogue == "none" else {"bias": bias}

        def launch(j: int, conv: Any, extra: dict[str, Any]) -> None:
            conv(buffers.x[j], buffers.w[j], out=buffers.y[j], **extra)

        timers[epilogue] = GraphTimer(torch, partial(launch, conv=conv, extra=extra), sets=buffers.sets)
    if len(configs) > 1:
        raise RuntimeError(f"{problem.key}: the epilogues are served by different configurations")
    timings = time_interleaved(timers, rounds=rounds, clock_mhz=device.clock_mhz)
    for timer in timers.values():
        timer.close()
    us = {name: timing.median_us for name, timing in timings.items()}
    return {"problem": problem.key, "us": us, "ratio": {name: us[name] / us["none"] for name in EPILOGUES}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("layers", nargs="*", default=list(IM2WIN_SUITE))
    parser.add_argument("--precision", default="fp16")
    parser.add_argument("--layout", default="nhwc")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--db", help="tuning database, as for im2wingen --db")
    parser.add_argument("--out", type=Path, help="JSON file for the report")
    options = parser.parse_args()
    rows = []
    with closing(open_device(0)) as device, torch.cuda.stream(torch.cuda.Stream()):
        for layer in options.layers:
            problem = ConvProblem.parse(layer, precision=options.precision, layout=options.layout, batch=options.batch)
            rows.append(row := measure(problem, device, rounds=options.rounds, db=options.db))
            print(layer, *(f"{name} {row['us'][name]:.2f} us ({row['ratio'][name]:.3f})" for name in EPILOGUES))
            torch.cuda.empty_cache()
        report = {"device": device.name, "versions": versions(torch, device.driver_version), "rows": rows}
    for name in EPILOGUES[1:]:
        print(f"geometric mean of {name}: {statistics.geometric_mean(row['ratio'][name] for row in rows):.3f}")
    if options.out:
        options.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
