"""What one field of a problem costs: the stored kernels of the twelve layers with each of its values, side by side.

    python benchmarks/side_by_side.py [LAYER ...] [--vary epilogue none bias bias_relu] [--vary precision fp16 bf16]
                                      [--vary db mine.sqlite other.sqlite]
                                      [--precision fp16] [--layout nhwc] [--batch N] [--db PATH] [--out FILE]

What is served for each value runs by the benchmark's protocol: CUDA graphs over rotating buffer sets, settled clocks,
interleaved rounds. Each round begins with another value, and a chip at its power limit slows down within one: the
number of rounds should be a multiple of theirs. `--vary db` serves one problem from several databases; a path where
there is none means the shipped records.
"""

import argparse
import json
import statistics
from collections.abc import Sequence
from contextlib import closing
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


def timer_of(problem: ConvProblem, device: Any, db: str | None) -> tuple[GraphTimer, str]:
    """A timer of what is served for the problem, and the kernel's family and configuration."""
    buffers = allocate(torch, problem, set_count(problem, device.target.l2_bytes), seed=1)
    extra = {} if problem.epilogue == "none" else {"bias": torch.randn(problem.k, device="cuda").to(buffers.y[0].dtype)}
    conv = load(problem, db=db)

    def launch(j: int) -> None:
        conv(buffers.x[j], buffers.w[j], out=buffers.y[j], **extra)

    served = f"{conv.provenance.family} {conv.provenance.config_digest}"
    return GraphTimer(torch, launch, sets=buffers.sets), served


def measure(problems: dict[str, tuple[ConvProblem, str | None]], device: Any, *, rounds: int) -> dict[str, object]:
    """Microseconds of each value's problem, served from its database, and their ratios to the first's."""
    made = {value: timer_of(problem, device, db) for value, (problem, db) in problems.items()}
    timings = time_interleaved(
        {value: timer for value, (timer, _) in made.items()}, rounds=rounds, clock_mhz=device.clock_mhz
    )
    for timer, _ in made.values():
        timer.close()
    us = {value: timing.median_us for value, timing in timings.items()}
    first = next(iter(us.values()))
    return {
        "problems": {value: problem.key for value, (problem, _) in problems.items()},
        "served": {value: served for value, (_, served) in made.items()},
        "us": us,
        "ratio": {value: time / first for value, time in us.items()},
    }


def report_on(field: str, values: Sequence[str], options: argparse.Namespace, device: Any) -> list[dict[str, object]]:
    rows: list[dict[str, Any]] = []
    for layer in options.layers:
        parse = partial(ConvProblem.parse, layer, batch=options.batch)
        fields = {"precision": options.precision, "layout": options.layout, "db": options.db}
        problems: dict[str, tuple[ConvProblem, str | None]] = {}
        for value in values:
            varied = {**fields, field: value}
            db = varied.pop("db")
            problems[value] = (parse(**varied), db)
        rows.append(row := measure(problems, device, rounds=options.rounds))
        print(
            layer, *(f"{value} {row['us'][value]:.2f} us ({row['ratio'][value]:.3f})" for value in values), flush=True
        )
        torch.cuda.empty_cache()
    for value in values[1:]:
        print(f"geometric mean of {value}: {statistics.geometric_mean(row['ratio'][value] for row in rows):.3f}")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("layers", nargs="*", default=list(IM2WIN_SUITE))
    parser.add_argument("--vary", nargs="+", action="append", metavar=("FIELD", "VALUE"), help="may be given again")
    parser.add_argument("--precision", default="fp16")
    parser.add_argument("--layout", default="nhwc")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--db", help="tuning database, as for im2wingen --db")
    parser.add_argument("--out", type=Path, help="JSON file for the report")
    options = parser.parse_args()
    with closing(open_device(0)) as device, torch.cuda.stream(torch.cuda.Stream()):
        report: dict[str, Any] = {"device": device.name, "versions": versions(torch, device.driver_version)}
        for field, *values in options.vary or [["epilogue", "none", "bias", "bias_relu"]]:
            report[field] = report_on(field, values, options, device)
            if options.out:
                options.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
