"""Tune layer cv9 of the im2win papers for 20 seconds and say how much that gained over the default configuration.

With a GPU the numbers are measured. Without one, kernels are compiled for an H200 all the same, their times are the
cost model's estimates, and the finalists are verified in the CPU emulator (needs g++).
"""

from im2wingen import ConvProblem, tune
from im2wingen.device import device_count
from im2wingen.report import speed_sentence
from im2wingen.target import DEFAULT_ARCH, preset

PROBLEM = ConvProblem.parse("cv9", precision="fp16", layout="nhwc")


def main() -> None:
    target = None if device_count() else preset(DEFAULT_ARCH)  # None: the device that is here
    print(f"tuning {PROBLEM.key} for 20 s {'by prediction' if target else 'on the GPU'}")
    result = tune(PROBLEM, target=target, time_budget_s=20, db=":memory:")

    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in result.counts.items())
    print(f"{result.trials} configurations tried on {result.target.name}: {outcomes}")
    if result.best is None or result.best.median_us is None:
        print("none of them ran")
        return
    print("best:", speed_sentence(PROBLEM, result.target, result.best.median_us, predicted=result.best.predicted))
    print("its configuration:", dict(result.best.config))
    if result.gain is not None:
        print(f"that is {result.gain:.2f} times as fast as the default configuration of family {result.best.family}")


if __name__ == "__main__":
    main()
