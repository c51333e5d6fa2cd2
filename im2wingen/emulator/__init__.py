"""Runs the CUDA text that NVRTC gets on the CPU, and says what a device would punish or hide."""

from im2wingen.emulator.kernel import EmulatedKernel
from im2wingen.emulator.plan import run_plan

__all__ = ["EmulatedKernel", "run_plan"]
