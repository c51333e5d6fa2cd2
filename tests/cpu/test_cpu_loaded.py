"""A plan's shared objects in a process: what they compute, their threads, and that nothing is left behind."""

import ctypes
import threading
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from cpu_kernels import ARCH, PROBLEM, cubins, plan

from im2wingen.compilers import compile_kernel
from im2wingen.cpu.loaded import LoadedCpuPlan, LoadError
from im2wingen.families.base import Launch, Plan
from im2wingen.reference import conv_reference
from im2wingen.render import Source

_THREADS = Source(
    "count",
    'extern "C" int omp_get_thread_num();\n'
    'extern "C" void count(int* seen) {\n#pragma omp parallel\n  seen[omp_get_thread_num()] = 1;\n}\n',
)
_COUNT = Plan(launches=(Launch(template="count", values={}, grid=(1, 1, 1), block=1, smem_bytes=0, arguments=("y",)),))


@pytest.fixture
def loaded() -> Iterator[LoadedCpuPlan]:
    loaded = LoadedCpuPlan(plan(), cubins(), 2)
    yield loaded
    loaded.unload()


def test_it_computes_the_convolution(loaded: LoadedCpuPlan) -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in (PROBLEM.x_shape, PROBLEM.w_shape))
    y, packed = np.empty(PROBLEM.y_shape, np.float32), np.empty(w.size, np.float32)
    arrays = {"x": x, "w": w, "y": y, "packed": packed}
    loaded.launch({"bias": 0} | {name: array.ctypes.data for name, array in arrays.items()})
    np.testing.assert_allclose(y, conv_reference(PROBLEM, x, w), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_regions_have_the_threads_asked_for_and_the_setting_comes_back(threads: int) -> None:
    counting = LoadedCpuPlan(_COUNT, (compile_kernel(_THREADS, ARCH),), threads)
    runtime = ctypes.CDLL("libgomp.so.1")
    before = runtime.omp_get_max_threads()
    seen = np.zeros(64, np.int32)
    counting.launch({"y": seen.ctypes.data})
    assert seen.sum() == threads
    assert runtime.omp_get_max_threads() == before
    counting.unload()


def test_threads_of_python_may_share_it(loaded: LoadedCpuPlan) -> None:
    x, w = np.ones(PROBLEM.x_shape, np.float32), np.ones(PROBLEM.w_shape, np.float32)
    expected = conv_reference(PROBLEM, x, w)
    wrong: list[int] = []

    def work() -> None:
        y, packed = np.empty(PROBLEM.y_shape, np.float32), np.empty(w.size, np.float32)
        arrays = {"x": x, "w": w, "y": y, "packed": packed}
        for i in range(20):
            loaded.launch({"bias": 0} | {name: array.ctypes.data for name, array in arrays.items()})
            if not np.array_equal(y, expected):
                wrong.append(i)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_kernels_of_one_name_do_not_get_mixed_up() -> None:
    for fill in (1, 2, 3):
        text = f'extern "C" void count(int* y) {{ *y = {fill}; }}\n'
        one = LoadedCpuPlan(_COUNT, (compile_kernel(Source("count", text), ARCH),), 1)
        y = np.zeros(1, np.int32)
        one.launch({"y": y.ctypes.data})
        assert y[0] == fill
        one.unload()


def test_what_cannot_be_loaded_says_why() -> None:
    right = cubins()
    with pytest.raises(LoadError, match="plain_pack can't be loaded"):
        LoadedCpuPlan(plan(), (replace(right[0], image=b"no ELF"), right[1]), 1)
    with pytest.raises(LoadError, match='no extern "C" function other'):
        LoadedCpuPlan(plan(), (right[0], replace(right[1], kernel="other")), 1)
