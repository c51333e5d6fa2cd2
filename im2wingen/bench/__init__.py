"""Benchmarks: im2wingen beside cuDNN, im2col + cuBLAS and a direct kernel, in one process, under one protocol."""
