"""LoadedCpuPlan: a plan's shared objects in this process, called in order on addresses."""

import _ctypes
import ctypes
import os
from collections.abc import Mapping, Sequence
from typing import Any

from im2wingen.errors import Im2wingenError
from im2wingen.families.base import Plan
from im2wingen.nvrtc import Cubin


class LoadError(Im2wingenError):
    """A shared object can't be loaded, or lacks its kernel."""


class LoadedCpuPlan:
    """The plan's kernels, one shared object a launch, run by `threads` OpenMP threads; raises LoadError.

    Thread safe. Kernels run with the GIL released, and a fault in one ends the process.
    """

    def __init__(self, plan: Plan, cubins: Sequence[Cubin], threads: int) -> None:
        self.plan = plan
        self._threads = threads
        self._objects: dict[str, _SharedObject] = {}
        self._calls: list[tuple[Any, tuple[str, ...]]] = []
        self._openmp: _SharedObject | None = None  # of the plan's objects one that is linked with OpenMP
        try:
            for launch, cubin in zip(plan.launches, cubins, strict=True):
                loaded = self._objects.get(cubin.sha256)
                if loaded is None:
                    loaded = self._objects[cubin.sha256] = _SharedObject(cubin)
                names = tuple(name for name in launch.arguments if isinstance(name, str))
                if len(names) != len(launch.arguments):
                    raise LoadError(f"{cubin.kernel} takes tensor maps, which only a GPU has")
                self._calls.append((loaded.function(cubin.kernel, len(names)), names))
                self._openmp = self._openmp or (loaded if loaded.set_threads else None)
        except BaseException:
            self.unload()
            raise

    def launch(self, pointers: Mapping[str, int], stream: int = 0, *, some: Sequence[int] | None = None) -> None:
        """Run all kernels, or some in order, and return when they are done; `pointers` maps arrays' names to addresses.

        The number of threads is a setting of the calling thread and is what it was afterwards.
        """
        calls = self._calls if some is None else [self._calls[i] for i in some]
        openmp = self._openmp
        before = self._threads if openmp is None else openmp.get_threads()
        if openmp is not None and before != self._threads:
            openmp.set_threads(self._threads)
        try:
            for function, names in calls:
                function(*[pointers[name] for name in names])
        finally:
            if openmp is not None and before != self._threads:
                openmp.set_threads(before)

    def last_call(self, pointers: Mapping[str, int]) -> tuple[int, tuple[int, ...]]:
        """Address and arguments of the last kernel, for who calls it from C; the plan must stay loaded meanwhile."""
        function, names = self._calls[-1]
        address = ctypes.cast(function, ctypes.c_void_p).value
        assert address is not None
        return address, tuple(pointers[name] for name in names)

    def unload(self) -> None:
        """Give the shared objects back; no launch may be running."""
        self._calls.clear()
        self._openmp = None
        for loaded in self._objects.values():
            loaded.close()
        self._objects.clear()


class _Place(ctypes.Structure):
    """The Dl_info of dladdr."""

    _fields_ = (
        ("path", ctypes.c_char_p), ("base", ctypes.c_void_p), ("symbol", ctypes.c_char_p), ("address", ctypes.c_void_p)
    )  # fmt: skip


_runtimes: dict[bytes, ctypes.CDLL] = {}


def _keep_runtime(function: Any) -> None:
    """Keep the library of an OpenMP function loaded for good: its idle threads would fall into the void."""
    place = _Place()
    if ctypes.CDLL(None).dladdr(ctypes.cast(function, ctypes.c_void_p), ctypes.byref(place)) and place.path:
        path = bytes(place.path)
        _runtimes.setdefault(path, ctypes.CDLL(os.fsdecode(path)))


class _SharedObject:
    """A shared object from memory: the bytes that were verified are those that run, and no file is left."""

    def __init__(self, cubin: Cubin) -> None:
        self._file = os.memfd_create(f"{cubin.kernel}.so")  # stays open: the loader knows objects by their path
        try:
            with open(self._file, "wb", closefd=False) as file:
                file.write(cubin.image)
            self._library = ctypes.CDLL(f"/proc/self/fd/{self._file}")
        except OSError as error:
            os.close(self._file)
            raise LoadError(f"{cubin.kernel} can't be loaded: {error}") from error
        # Those of the OpenMP runtime that this object is linked with; there may be others in the process.
        self.get_threads: Any = getattr(self._library, "omp_get_max_threads", None)
        self.set_threads: Any = getattr(self._library, "omp_set_num_threads", None)
        if self.set_threads is not None:
            _keep_runtime(self.set_threads)

    def function(self, name: str, arguments: int) -> Any:
        try:
            found = getattr(self._library, name)
        except AttributeError as error:
            raise LoadError(f'the shared object has no extern "C" function {name}') from error
        found.argtypes, found.restype = (ctypes.c_void_p,) * arguments, None
        return found

    def close(self) -> None:
        _ctypes.dlclose(self._library._handle)
        os.close(self._file)
