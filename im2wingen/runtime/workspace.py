"""The workspace of a call: named pieces of one allocation of the caller's framework."""

import threading
from collections.abc import Iterable
from typing import Any

from im2wingen.arrays import Framework
from im2wingen.families.base import Plan

_WORKSPACE_ALIGNMENT = 256  # bytes


class Workspace:
    """Named pieces of one allocation."""

    def __init__(self, plan: Plan, names: Iterable[str]) -> None:
        self.offsets: dict[str, int] = {}
        self.n_bytes = 0
        for name in names:
            self.offsets[name] = self.n_bytes
            self.n_bytes += -(-plan.workspace[name] // _WORKSPACE_ALIGNMENT) * _WORKSPACE_ALIGNMENT

    def place(
        self,
        library: Framework,
        like: Any,
        stream: int,
        pointers: dict[str, int],
        reused: threading.local | None = None,
    ) -> Any:
        """Allocate, and add the pieces' addresses to `pointers`; returns what keeps them alive, or None.

        `reused` keeps the allocation for this thread's next call.
        """
        if not self.n_bytes:
            return None
        base, scratch = getattr(reused, "kept", {}).get(self, (0, None))
        if scratch is None:
            scratch = library.scratch(like, self.n_bytes, stream)
            base = library.pointer(scratch)
            if reused is not None:
                reused.kept = {self: (base, scratch)}
        for name, offset in self.offsets.items():
            pointers[name] = base + offset
        return scratch
