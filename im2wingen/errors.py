"""Every error that im2wingen raises on purpose; `exit_code` is what the command line ends with."""

from collections.abc import Mapping
from typing import Self


class Im2wingenError(Exception):
    """Root of the package's errors; its text is one sentence that a user can act on."""

    exit_code = 1


class UsageError(Im2wingenError):
    """A value from the user is not allowed; the sentence names the field and what is allowed."""

    exit_code = 2


class UnsupportedError(Im2wingenError):
    """No family can run the problem on the target; `reasons` maps each family to its sentence."""

    exit_code = 3

    def __init__(self, subject: str, reasons: Mapping[str, str]) -> None:
        self.subject, self.reasons = subject, dict(reasons)
        super().__init__(f"{subject} is not supported: " + "; ".join(f"{k}: {v}" for k, v in self.reasons.items()))

    def __reduce__(self) -> tuple[type[Self], tuple[str, dict[str, str]]]:
        return type(self), (self.subject, self.reasons)  # it travels between processes


class NoDeviceError(Im2wingenError):
    """A CUDA device is needed and none can be used."""

    exit_code = 4


class NotStoredError(Im2wingenError):
    """The tuning database holds nothing that answers the question."""

    exit_code = 5


class CompileError(Im2wingenError):
    """NVRTC or the host compiler refused a source; `excerpt` is the numbered source around the first error."""

    def __init__(self, kernel: str, log: str, excerpt: str = "") -> None:
        self.kernel, self.log, self.excerpt = kernel, log, excerpt
        super().__init__(f"{kernel} does not compile:\n{log.strip()}" + (f"\n{excerpt}" if excerpt else ""))

    def __reduce__(self) -> tuple[type[Self], tuple[str, str, str]]:
        return type(self), (self.kernel, self.log, self.excerpt)  # it travels between processes


class CompileTimeoutError(Im2wingenError):
    """A compilation ran longer than its limit in seconds and was killed."""


class DeviceError(Im2wingenError):
    """A CUDA driver call failed; `call` and `code` (as CUresult names it) say which and how."""

    def __init__(self, call: str, code: str, detail: str = "") -> None:
        self.call, self.code, self.detail = call, code, detail
        super().__init__(f"{call} failed with {code}" + (f": {detail}" if detail else ""))

    def __reduce__(self) -> tuple[type[Self], tuple[str, str, str]]:
        return type(self), (self.call, self.code, self.detail)


class ArrayError(UsageError):
    """An array handed to a kernel has a wrong shape, dtype, layout or device."""


class DatabaseError(Im2wingenError):
    """The tuning database can't be used as it is (corrupt, locked, read-only, full, newer); nothing was lost."""


class CacheError(Im2wingenError):
    """The compiled-kernel cache can't be used as it is."""


class EmulatorError(Im2wingenError):
    """A kernel did in the emulator what a device would punish, or hide: the text says which thread and how."""
