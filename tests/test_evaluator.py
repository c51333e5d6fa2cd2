"""Verify, probe and measure on a fake device: every line but the hardware's.

The kernel under test is a Python function; the support kernels run in the emulator.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from fake_cuda.fake import FakeCuda, run_with_fake
from numpy.typing import NDArray

from im2wingen.cache import CubinCache
from im2wingen.device_data import FILL_LAUNCH
from im2wingen.dtypes import STORAGE_DTYPE, to_storage
from im2wingen.errors import DeviceError
from im2wingen.evaluator import DeviceEvaluator
from im2wingen.families.base import Launch, Plan
from im2wingen.nvrtc import Cubin
from im2wingen.outcome import Candidate, Outcome
from im2wingen.problem import ConvProblem
from im2wingen.reference import conv_reference
from im2wingen.render import render
from im2wingen.settings import read_settings
from im2wingen.verify import COMPARE_LAUNCH, reference_launch

ILLEGAL_ADDRESS, OUT_OF_MEMORY, LAUNCH_FAILED = 700, 2, 719
CUBIN = Cubin(
    kernel="conv", arch="sm_90a", image=b"\x7fELF", log="", num_regs=0, spill_bytes=0, stack_bytes=0, smem_bytes=0,
    compile_s=0.0, nvrtc_version="13.0",
)  # fmt: skip
ARGUMENTS = ("x", "w", "bias", "y", "scratch")
LAUNCH = Launch(template="conv", values={}, grid=(1, 1, 1), block=32, smem_bytes=100_000, arguments=ARGUMENTS)
PLAN = Plan(launches=(LAUNCH,), workspace={"scratch": 1000})
CANDIDATE = Candidate(family="fake", config_digest="0" * 16, plan=PLAN, cubins=(CUBIN,))


class Kernel:
    """A right convolution, but for `flaw`."""

    def __init__(self, problem: ConvProblem) -> None:
        self.problem, self.flaw = problem, ""

    def __call__(self, x: Any, w: Any, bias: Any, y: Any, scratch: Any) -> None:
        problem = self.problem
        image, taps = self._array(x, problem.x_shape), self._array(w, problem.w_shape)
        added = None if problem.epilogue == "none" else self._array(bias, (problem.k,))
        out, target = (
            to_storage(conv_reference(problem, image, taps, added), problem.precision),
            self._array(y, problem.y_shape),
        )
        if self.flaw == "leaves the last element":
            target.flat[:-1] = out.flat[:-1]
            return
        target[...] = out
        if self.flaw == "one element":
            target.flat[3] = to_storage(np.array([77.0]), problem.precision)[0]
        elif self.flaw == "past y":
            y[target.nbytes] = 1
        elif self.flaw == "past the workspace":
            scratch[1002] = 1
        elif self.flaw == "spoils x":
            image[...] = 0
            target[...] = 0

    def _array(self, memory: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[Any]:
        dtype = STORAGE_DTYPE[self.problem.precision]
        return memory[: int(np.prod(shape)) * dtype.itemsize].view(dtype).reshape(shape)


def evaluator_for(problem: ConvProblem, fake: FakeCuda) -> tuple[DeviceEvaluator, Kernel]:
    kernel = Kernel(problem)
    fake.stand_in("conv", kernel, arity=5)
    return DeviceEvaluator(problem, 0, 0), kernel


def right_kernels_pass(problem: ConvProblem, fake: FakeCuda) -> None:
    evaluator, _ = evaluator_for(problem, fake)
    answer = evaluator.evaluate(CANDIDATE, None)
    assert answer.outcome is Outcome.OK, answer.reason
    assert answer.timing is not None
    assert answer.timing.samples == 7
    assert answer.timing.median_us > 0
    assert answer.error is not None
    assert answer.error.norm_error < 2.0**-8
    cache = CubinCache(read_settings().cache_dir)  # the next worker need not compile our own kernels
    for launch in (FILL_LAUNCH, COMPARE_LAUNCH, reference_launch(problem)):
        assert cache.get(render(launch), "sm_90a") is not None
    evaluator.close()
    assert fake.live_blocks() == 0


@pytest.mark.parametrize(
    ("shape", "precision", "layout", "epilogue"),
    [
        ("n2c5h9w8k7r3s2", "fp32", "nhwc", "none"),
        ("n1c3h9w8k70r3s3st2pad1", "fp16", "nchw", "bias_relu"),
        ("n2c20h6w7k8r3s3pad1,0,2,1dil2g4", "bf16", "nhwc-nchw", "bias"),
        ("n1c4h6w7k4r3s3st1x2pad1g4", "tf32", "nchw-nhwc", "none"),
    ],
)
def test_right_kernels_pass(shape: str, precision: str, layout: str, epilogue: str) -> None:
    problem = ConvProblem.parse(shape, precision=precision, layout=layout, epilogue=epilogue)
    run_with_fake(partial(right_kernels_pass, problem))


PROBLEM = ConvProblem.parse("n2c5h9w8k7r3s2", precision="fp32")


def flaws_are_found(fake: FakeCuda) -> None:
    evaluator, kernel = evaluator_for(PROBLEM, fake)
    for flaw, outcome, reason in (
        (
            "one element",
            Outcome.WRONG_RESULT,
            "1 of 686 elements of y are wrong on integer data; the worst, at n=0 k=3",
        ),
        ("leaves the last element", Outcome.WRONG_RESULT, "the worst, at n=1 k=6 p=6 q=6, is 1.3"),
        ("past y", Outcome.ILLEGAL_ACCESS, "a kernel wrote outside y: 1 bytes after its 2744 bytes"),
        ("past the workspace", Outcome.ILLEGAL_ACCESS, "outside workspace scratch: 3 bytes after its 1000 bytes"),
        ("spoils x", Outcome.WRONG_RESULT, "elements of y are wrong"),
    ):
        kernel.flaw = flaw
        answer = evaluator.evaluate(CANDIDATE, None)
        assert answer.outcome is outcome, answer
        assert reason in answer.reason, answer
        assert evaluator.usable
        kernel.flaw = ""
        assert evaluator.evaluate(CANDIDATE, None).outcome is Outcome.OK, flaw
    evaluator.close()
    assert fake.live_blocks() == 0


def test_flaws_are_found_and_harm_nobody_else() -> None:
    run_with_fake(flaws_are_found)


def slow_ones_are_not_measured(fake: FakeCuda) -> None:
    evaluator, _ = evaluator_for(PROBLEM, fake)
    answer = evaluator.evaluate(CANDIDATE, 1e-3)
    assert answer.outcome is Outcome.SLOWER
    assert answer.error is not None
    assert answer.timing is not None
    assert answer.timing.samples == 1
    first, second = evaluator.playoff([CANDIDATE, CANDIDATE], 0.1)
    assert first is not None
    assert second is not None
    assert first.samples >= 2
    assert second.samples >= 2
    evaluator.close()
    assert fake.live_blocks() == 0


def test_slow_ones_are_not_measured() -> None:
    run_with_fake(slow_ones_are_not_measured)


def driver_errors(fake: FakeCuda) -> None:
    evaluator, _ = evaluator_for(PROBLEM, fake)
    for refused in (
        replace(CANDIDATE, cubins=(replace(CUBIN, image=b"no cubin"),)),
        replace(CANDIDATE, plan=replace(PLAN, launches=(replace(LAUNCH, smem_bytes=300_000),))),
        replace(CANDIDATE, plan=replace(PLAN, launches=(replace(LAUNCH, block=2048),))),
    ):
        answer = evaluator.evaluate(refused, None)
        assert answer.outcome is Outcome.LAUNCH_ERROR, answer
        assert evaluator.usable
    answer = evaluator.evaluate(replace(CANDIDATE, plan=replace(PLAN, workspace={"scratch": 2 << 30})), None)
    assert (answer.outcome, evaluator.usable) == (Outcome.LAUNCH_ERROR, True)
    assert answer.reason == (
        "its workspace of 2147483648 bytes does not fit into the device's free memory, 1073741824 bytes"
    )
    fake.set_fault(ILLEGAL_ADDRESS)
    answer = evaluator.evaluate(CANDIDATE, None)
    assert answer.outcome is Outcome.ILLEGAL_ACCESS
    assert not evaluator.usable
    fake.set_fault(OUT_OF_MEMORY)
    with pytest.raises(DeviceError, match="CUDA_ERROR_OUT_OF_MEMORY"):  # our own trouble, no outcome
        evaluator.evaluate(CANDIDATE, None)
    fake.set_fault(LAUNCH_FAILED)
    assert evaluator.playoff([CANDIDATE, CANDIDATE], 0.1) == [None, None]
    assert not evaluator.usable


def test_driver_errors_are_outcomes_or_raised() -> None:
    run_with_fake(driver_errors)


def a_context_dies_in_the_kernel(fake: FakeCuda) -> None:
    evaluator, _ = evaluator_for(PROBLEM, fake)
    fake.stand_in("conv", lambda *arguments: fake.set_fault(LAUNCH_FAILED), arity=5)
    answer = evaluator.evaluate(CANDIDATE, None)
    assert answer.outcome is Outcome.LAUNCH_ERROR
    assert "cuStreamSynchronize failed with CUDA_ERROR_LAUNCH_FAILED" in answer.reason
    assert not evaluator.usable


def test_a_fault_surfaces_at_the_next_wait() -> None:
    run_with_fake(a_context_dies_in_the_kernel)
