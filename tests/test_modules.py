"""The LRU of loaded kernels: one loading a key, safe among threads, unloading outside of captures."""

import gc
import threading
import time

import pytest

from im2wingen.errors import DeviceError
from im2wingen.families.base import Launch, Plan
from im2wingen.runtime.modules import LoadedKernels, ModuleCache


def kernels():
    return LoadedKernels(pack=object(), main=object())


def test_a_key_is_loaded_once():
    cache = ModuleCache(4, unload=lambda plan: None)
    first = cache.get("a", kernels)
    assert cache.get("a", lambda: pytest.fail("loaded again")) is first
    assert cache.get("b", kernels) is not first


def test_threads_share_one_loading():
    cache, loadings, barrier = ModuleCache(4, unload=lambda plan: None), [], threading.Barrier(8)
    found = []

    def load():
        loadings.append(1)
        time.sleep(0.02)
        return kernels()

    def work():
        barrier.wait()
        found.append(cache.get("a", load))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(loadings) == 1
    assert len(set(map(id, found))) == 1


def test_different_keys_load_side_by_side():
    cache, both = ModuleCache(4, unload=lambda plan: None), threading.Barrier(2, timeout=5)

    def load():
        both.wait()  # breaks unless two loadings are going on at once
        return kernels()

    threads = [threading.Thread(target=cache.get, args=(key, load)) for key in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not both.broken


def test_a_failed_loading_is_tried_again():
    cache = ModuleCache(4, unload=lambda plan: None)

    def fail():
        raise DeviceError("cuModuleLoadData", "CUDA_ERROR_OUT_OF_MEMORY")

    with pytest.raises(DeviceError):
        cache.get("a", fail)
    assert cache.get("a", kernels) is cache.get("a", kernels)


def test_what_nobody_holds_is_unloaded_at_the_next_loading():
    unloaded = []
    cache = ModuleCache(1, unload=unloaded.append)
    held, dropped = cache.get("a", kernels), cache.get("b", kernels)
    cache.get("c", kernels)  # a and b left the LRU, but are held
    assert unloaded == []
    halves = {id(dropped.pack), id(dropped.main)}
    del dropped
    gc.collect()
    assert unloaded == []  # never from a collection
    assert len(cache) == 1
    cache.get("d", kernels)  # c leaves the LRU and nobody holds it
    assert halves < set(map(id, unloaded))
    assert len(unloaded) == 4
    assert held.main not in unloaded


def test_recently_used_stays():
    cache = ModuleCache(2, unload=lambda plan: None)
    first = cache.get("a", kernels)
    cache.get("b", kernels)
    cache.get("a", kernels)
    cache.get("c", kernels)  # b is the least recently used
    assert cache.get("a", lambda: pytest.fail("a was dropped")) is first


def launch(*arguments):
    return Launch(template="t", values={}, grid=(1, 1, 1), block=32, smem_bytes=0, arguments=arguments)


def test_a_launch_that_reads_the_filter_alone_is_packing():
    plan = Plan(
        launches=(launch("x", "window"), launch("w", "packed"), launch("window", "packed", "bias", "y", "x", "w")),
        workspace={"window": 64, "packed": 32},
    )
    assert plan.halves() == ([1], [0, 2])
    assert Plan(launches=(launch("x", "w", "bias", "y"),)).halves() == ([], [0])
