"""The CPU as a device: kernels loaded into a process, verified there between guards, and timed."""
