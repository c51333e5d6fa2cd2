"""Convolution: a loaded kernel that checks each kind of arrays once and launches on the caller's stream."""

import threading
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from im2wingen.arrays import TORCH, Framework, framework_of
from im2wingen.errors import ArrayError, NoDeviceError
from im2wingen.families.base import Plan
from im2wingen.host_arrays import HOST_TORCH, host_framework_of
from im2wingen.problem import ConvProblem
from im2wingen.render import Source
from im2wingen.runtime.modules import LoadedKernels
from im2wingen.runtime.operands import ALIGNMENT, Operands, check_alignment, check_overlap
from im2wingen.runtime.provenance import Provenance
from im2wingen.runtime.serving_cpu import ServingCpu
from im2wingen.runtime.serving_device import ServingDevice
from im2wingen.runtime.workspace import Workspace

_MAX_SIGNATURES = 256  # kinds of arrays that are remembered as accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedFilter:
    """A filter in the order that a convolution's kernels want; keeps `w` and the packed bytes alive.

    It serves every convolution that packs by the same kernel. It is a copy: pack again after changing `w`. Use it on
    the stream that it was packed on, or after that stream was waited for.
    """

    w: Any
    scratch: Any
    pointers: Mapping[str, int]  # of w and of the packed workspace
    kernel_key: Hashable


class Convolution:
    """y = conv(x, w, bias, out) for one problem, its batch included; made by `load`.

    Arrays may come from PyTorch, CuPy or any exporter of DLPack or `__cuda_array_interface__`, on the CPU from PyTorch,
    NumPy or any exporter of DLPack or Python's buffers, and are never copied. For NHWC problems x is [N,C,H,W] in
    channels-last strides or [N,H,W,C] contiguous, w likewise [K,C,R,S] or [K,R,S,C]; for the others both are
    contiguous, x as `problem.x_shape` has it. y comes in the order that x came in. y and bias are int32 where x and w
    are int8, float16 where they are fp8: PyTorch's float8_e4m3fn or float8_e5m2, or uint8 that holds the bits. Likewise
    bf16 may come as uint16, and y is uint16 then.
    Everything runs on the current stream of x's framework (CUDA's default stream for exporters), and that framework
    allocates y and the workspace, so calls can be captured in a CUDA graph; keep the Convolution as long as the graph.
    No gradient flows through it. Threads may share it. On the CPU a call returns when y is there, and each thread keeps
    its workspace for its next call.
    """

    def __init__(
        self,
        problem: ConvProblem,
        plan: Plan,
        sources: tuple[Source, ...],
        provenance: Provenance,
        *,
        device: ServingDevice | ServingCpu | None,
        kernels: LoadedKernels | None,
    ) -> None:
        self.problem = problem
        self.provenance = provenance
        self.sources = sources
        self.workspace_bytes = plan.workspace_bytes
        self._device, self._kernels = device, kernels
        on_cpu = isinstance(device, ServingCpu)
        self._framework_of = host_framework_of if on_cpu else framework_of
        self._alignment = problem.element_bytes if on_cpu else ALIGNMENT
        self._reused = threading.local() if on_cpu else None
        self._operands = Operands.of(problem, device.ordinal if device else 0)
        self._sizes_bytes = self._operands.sizes_bytes()
        self._new_dtype = None if problem.element_bytes > 1 else self._operands.y_dtype  # None: y's is that of x
        self._accepted: dict[Hashable, bool] = {}  # signature -> whether x came in logical order
        pack, _ = plan.halves()
        packed = {name for i in pack for name in plan.launches[i].array_names if name != "w"}
        rest = [name for name in plan.workspace if name not in packed]
        self._all_workspace = Workspace(plan, (*sorted(packed), *rest))
        self._packed_workspace = Workspace(plan, sorted(packed))
        self._rest_workspace = Workspace(plan, rest)
        sha256 = provenance.cubin_sha256
        self._pack_key = (
            self._operands.device, self._operands.w, problem.precision, tuple(sha256[i] for i in pack if sha256),
            tuple((name, plan.workspace[name]) for name in sorted(packed)),
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"Convolution({self.provenance})"

    def __call__(self, x: Any, w: Any, bias: Any = None, out: Any = None) -> Any:
        """y, which is `out` where given. `w` may be a PackedFilter.

        ArrayError says which array has a wrong shape, dtype, layout, device or alignment; NoDeviceError if this was
        loaded for an arch alone.
        """
        device, kernels = self._on_device()
        library = self._framework_of(x, "x")
        stream = library.current_stream(device.ordinal or 0)
        packed = w if isinstance(w, PackedFilter) else None
        x = library.adopt(x, "x", stream)
        pointers = {"x": library.pointer(x), "bias": 0}
        signature: list[Hashable] = [library.signature(x)]
        held = []  # exporters' views live until the launch
        for role, array in (("w", None if packed else w), ("bias", bias), ("out", out)):
            if array is None:
                signature.append(None)
                continue
            owner = self._framework_of(array, role)
            view = owner.adopt(array, role, stream)
            pointers[role] = owner.pointer(view)
            signature.append(owner.signature(view))
            held.append((role, owner, view))
        if packed is not None:
            if packed.kernel_key != self._pack_key:
                raise ArrayError("w was packed for other kernels; pack it with this convolution")
            pointers.update(packed.pointers)
        key = tuple(signature)
        logical = self._accepted.get(key)
        if logical is None:
            logical = self._accept(key, library, x, [("x", library, x), *held], needs_w=packed is None)
        if out is None:
            out = library.empty(x, *self._y_form(logical), stream, self._new_dtype)
            pointers["y"] = library.pointer(out)
        else:
            pointers["y"] = pointers["out"]
            check_overlap({role: pointers[role] for role in ("x", "w", "bias", "out")}, self._sizes_bytes)
        if (pointers["x"] | pointers["w"] | pointers["bias"] | pointers["y"]) % self._alignment:
            check_alignment(pointers, self._alignment)
        workspace = self._all_workspace if packed is None else self._rest_workspace
        scratch = workspace.place(library, x, stream, pointers, self._reused)
        pack = kernels.pack if packed is None else None
        if pack is not None:
            device.launch(pack, pointers, stream)
        device.launch(kernels.main, pointers, stream, follows=pack is not None)
        del scratch  # given back in stream order, now that the kernels are in the stream
        return out

    def pack(self, w: Any) -> PackedFilter:
        """Run the plan's packing of `w` once; where the plan has none, the result just holds `w`."""
        device, kernels = self._on_device()
        library = self._framework_of(w, "w")
        stream = library.current_stream(device.ordinal or 0)
        view = library.adopt(w, "w", stream)
        self._operands.check_w(library.facts(view))
        pointers = {"w": library.pointer(view)}
        check_alignment(pointers, self._alignment)
        scratch = self._packed_workspace.place(library, view, stream, pointers)
        if kernels.pack is not None:
            device.launch(kernels.pack, pointers, stream)
        return PackedFilter(w=view, scratch=scratch, pointers=pointers, kernel_key=self._pack_key)

    def _on_device(self) -> tuple[ServingDevice | ServingCpu, LoadedKernels]:
        if self._device is None or self._kernels is None:
            raise NoDeviceError(
                f"this convolution was loaded for {self.provenance.arch} without a device, to be looked at; "
                "load it without arch to run it"
            )
        return self._device, self._kernels

    def _accept(
        self, key: Hashable, library: Framework, x: Any, arrays: list[tuple[str, Framework, Any]], *, needs_w: bool
    ) -> bool:
        """Check arrays of a kind that was not seen before; returns whether x came in logical order."""
        facts = {role: owner.facts(view) for role, owner, view in arrays}
        logical = self._operands.check_x(facts["x"], prefer_logical=library in (TORCH, HOST_TORCH))
        if needs_w:
            if "w" not in facts:
                raise ArrayError("w is missing")
            self._operands.check_w(facts["w"])
        self._operands.check_bias(facts.get("bias"))
        if "out" in facts:
            self._operands.check_out(facts["out"])
        if len(self._accepted) >= _MAX_SIGNATURES:
            self._accepted.clear()
        self._accepted[key] = logical
        return logical

    def _y_form(self, logical: bool) -> tuple[tuple[int, ...], bool]:
        """Shape of y, and whether its strides are channels last, in the order that x came in."""
        if logical:
            p = self.problem
            return (p.n, p.k, p.p, p.q), p.y_layout == "nhwc"
        return self.problem.y_shape, False
