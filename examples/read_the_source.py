"""Look at the kernel that a layer gets on a GPU that need not be here: its rule, launches, source and resources."""

from im2wingen import ConvProblem, load
from im2wingen.nvrtc import compile_cubin

problem = ConvProblem.parse("cv12", batch=8, precision="fp16", layout="nhwc")
conv = load(problem, arch="sm_80")
print("chosen:", conv.provenance)
print("configuration:", dict(conv.provenance.config))

for source in conv.sources:
    lines = source.text.splitlines()
    print(f"\nkernel {source.kernel}: {len(lines)} lines of CUDA, which begin with")
    print("\n".join(f"    {line}" for line in lines[:12]))
    cubin = compile_cubin(source, "sm_80")
    print(
        f"NVRTC {cubin.nvrtc_version} makes {len(cubin.image)} bytes of sm_80 code of it: {cubin.num_regs} registers, "
        f"{cubin.spill_bytes} bytes spilled"
    )
print("\nthe whole text: im2wingen inspect cv12 --batch 8 --arch sm_80 --source")
