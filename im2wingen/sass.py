"""What the machine code of a cubin holds: its text, its instructions, its resources; needs no GPU."""

import re
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

from cuda import pathfinder

from im2wingen.errors import Im2wingenError
from im2wingen.nvrtc import Cubin

# /*0a10*/  @!P0 HMMA.16816.F32 R4, R8, R12, R4 ;
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P[0-9T]\s+)?([A-Z][A-Z0-9]*)", re.MULTILINE)


def disassemble(cubin: Cubin) -> str:
    """nvdisasm's listing of every function in the image; Im2wingenError names the pip package where it's missing."""
    nvdisasm = pathfinder.find_nvidia_binary_utility("nvdisasm")
    if nvdisasm is None:
        raise Im2wingenError("nvdisasm is not installed: pip install nvidia-cuda-nvdisasm")
    with tempfile.TemporaryDirectory(prefix="im2wingen-") as folder:
        path = Path(folder) / f"{cubin.kernel}.cubin"
        path.write_bytes(cubin.image)
        done = subprocess.run([nvdisasm, "-c", path], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Im2wingenError(f"nvdisasm can't read {cubin.kernel} for {cubin.arch}: {done.stderr.strip()}")
    return done.stdout


def instruction_counts(cubin: Cubin) -> dict[str, int]:
    """How often each instruction stands in the code, by its name without suffixes (HMMA, LDGSTS, STL), most first."""
    return dict(Counter(_INSTRUCTION.findall(disassemble(cubin))).most_common())


def usage_summary(cubin: Cubin) -> str:
    """One line on the kernel's static resources; shared memory is what the source declares, the launch adds its own."""
    return (
        f"{cubin.kernel} ({cubin.arch}): {cubin.num_regs} registers, {cubin.spill_bytes} bytes spilled, "
        f"{cubin.stack_bytes} bytes stack, {cubin.smem_bytes} bytes static shared memory, "
        f"image {len(cubin.image)} bytes, NVRTC {cubin.nvrtc_version}, compiled in {cubin.compile_s:.2f} s"
    )
