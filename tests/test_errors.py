"""Exit codes, and that every error keeps its type, its words and its facts on the way between processes."""

import concurrent.futures
import importlib
import multiprocessing
import pickle
import pkgutil
from collections.abc import Iterator

import pytest

import im2wingen
from im2wingen import errors
from im2wingen.errors import CompileError, DeviceError, Im2wingenError, UnsupportedError

EXIT_CODES = {
    "Im2wingenError": 1,
    "UsageError": 2,
    "ArrayError": 2,
    "UnsupportedError": 3,
    "NoDeviceError": 4,
    "NotStoredError": 5,
    "CompileError": 1,
    "CompileTimeoutError": 1,
    "DeviceError": 1,
    "DatabaseError": 1,
    "CacheError": 1,
    "EmulatorError": 1,
}


def _package_errors() -> Iterator[type[Im2wingenError]]:
    """Every error class that a module of the package defines."""
    for found in pkgutil.walk_packages(im2wingen.__path__, "im2wingen."):
        if not found.name.startswith(("im2wingen.__main__", "im2wingen.db.migrations")):
            importlib.import_module(found.name)
    pending: list[type[Im2wingenError]] = [Im2wingenError]
    while pending:
        error = pending.pop()
        if error.__module__.startswith("im2wingen."):
            yield error
        pending += error.__subclasses__()


def _example(error: type[Im2wingenError]) -> Im2wingenError:
    if issubclass(error, UnsupportedError):
        return error("n1c1h1w1k1r1s1/fp32", {"mma": "no fp32", "simt": "no groups"})
    if issubclass(error, CompileError):
        return error("mma", "mma.cu(3): error: no", ">    3 | no")
    if issubclass(error, DeviceError):
        return error("cuMemAlloc", "CUDA_ERROR_OUT_OF_MEMORY", "2 GiB")
    return error("one sentence")


ALL = sorted(_package_errors(), key=lambda error: error.__name__)


def test_exit_codes_are_the_documented_ones() -> None:
    own = {name: value.exit_code for name, value in vars(errors).items() if isinstance(value, type)
           and issubclass(value, Im2wingenError)}  # fmt: skip
    assert own == EXIT_CODES


@pytest.mark.parametrize("error", ALL, ids=lambda error: error.__name__)
def test_errors_pickle(error: type[Im2wingenError]) -> None:
    raised = _example(error)
    copied = pickle.loads(pickle.dumps(raised))
    assert type(copied) is error
    assert str(copied) == str(raised)
    assert vars(copied) == vars(raised)


def _raise(error: type[Im2wingenError]) -> None:
    raise _example(error)


def test_errors_travel_between_processes() -> None:
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        for error in (UnsupportedError, CompileError, DeviceError, errors.EmulatorError):
            with pytest.raises(error) as caught:
                pool.submit(_raise, error).result(timeout=120)
            assert str(caught.value) == str(_example(error))


def test_unsupported_gives_each_familys_reason() -> None:
    error = UnsupportedError("cv1", {"mma": "no fp32", "simt": "no groups"})
    assert str(error) == "cv1 is not supported: mma: no fp32; simt: no groups"
    assert error.reasons == {"mma": "no fp32", "simt": "no groups"}


def test_device_errors_say_which_call_and_how() -> None:
    error = DeviceError("cuLaunchKernel", "CUDA_ERROR_ILLEGAL_ADDRESS")
    assert str(error) == "cuLaunchKernel failed with CUDA_ERROR_ILLEGAL_ADDRESS"
    assert (error.call, error.code) == ("cuLaunchKernel", "CUDA_ERROR_ILLEGAL_ADDRESS")
    assert str(DeviceError("a", "b", "c")) == "a failed with b: c"


def test_compile_errors_show_log_and_source() -> None:
    assert str(CompileError("mma", " log \n", "> 3 | x")) == "mma does not compile:\nlog\n> 3 | x"
    assert str(CompileError("mma", "log")) == "mma does not compile:\nlog"
