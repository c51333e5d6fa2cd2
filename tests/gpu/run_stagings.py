"""Runs a legal config of every family, precision and way to stage on small padded problems, for a sanitizer.

`python run_stagings.py [--raw] [FAMILY[:PRECISION] ...]`; prints a line a kernel. With --raw each kernel runs once on
arrays of its own, without the verifier's kernels beside it. Without a family's name, all of them.
"""

import sys
from concurrent.futures import ThreadPoolExecutor

from im2wingen.device import Device, open_device
from im2wingen.device_data import Filler, input_sizes, output_bytes
from im2wingen.families import FAMILIES, Family
from im2wingen.families.base import Config, Plan
from im2wingen.kernel import LoadedPlan
from im2wingen.nvrtc import Cubin, compile_cubin
from im2wingen.problem import ConvProblem
from im2wingen.render import render
from im2wingen.target import Target
from im2wingen.verify import Verifier

PROBLEMS = (  # shape, layout
    ("n3c20h9w11k24r3s3st2pad1,0,2,1", "nhwc"),
    ("n2c3h15w17k21r5s5st2pad1", "nhwc"),  # few channels: column and run order
    ("n2c3h15w17k21r5s5st2pad1", "nchw"),
    ("n2c3h15w33k72r5s5st2pad1", "nhwc"),  # and channels as rows
    ("n2c3h15w33k72r5s5st2pad1", "nchw"),
    ("n1c40h6w7k16r3s3pad1dil2", "nhwc-nchw"),
    ("n3c72h10w12k40r3s3pad1", "nhwc"),
    ("n3c72h10w22k72r3s3st2pad1", "nhwc"),
    ("n3c72h10w16k72r3s3pad1", "nchw"),
    ("n9c136h12w16k72r3s3", "nchw"),  # scaled tf32 in all its ways, an unpadded y in bulk
    ("n3c144h10w12k72r3s3st2pad1", "nhwc"),  # 8-bit elements: 16 bytes of channels in a second chunk
)
POINTWISE = (  # for the family of that alone
    ("n3c72h12w16k72r1s1", "nchw"),
    ("n3c72h12w16k40r1s1", "nchw-nhwc"),
    ("n2c72h12w24k40r1s1st2", "nchw"),
)
PRECISIONS = {
    "simt": ("fp32", "fp64"), "mma": ("fp16", "bf16", "tf32", "fp32", "fp64"),
    "wgmma": ("fp16", "bf16", "tf32", "fp32", "int8", "e4m3"), "wgmma_rows": ("fp16", "bf16", "tf32", "fp32"),
    "wgmma_pointwise": ("fp16", "bf16", "tf32"),
}  # fmt: skip
WAYS = (  # fields of configs
    "staging", "window_order", "mapping", "split", "input_staging", "num_producer_warpgroups", "slot_order",
    "row_order", "bulk_store", "channel_rows", "scaled", "arithmetic", "subtiles",
)  # fmt: skip
_TRIES = 4000


def kinds_of_config(family: Family, problem: ConvProblem, target: Target) -> dict[str, Config]:
    """The first legal random config of each way to stage."""
    kinds: dict[str, Config] = {}
    for _, config in zip(range(_TRIES), family.random_configs(problem, target, seed=3), strict=False):
        fields = config.to_dict()
        kind = " ".join(str(fields[way]) for way in WAYS if way in fields)
        if kind not in kinds and not family.broken_rules(problem, target, config):
            kinds[kind] = config
    return kinds


def run_once(device: Device, filler: Filler, problem: ConvProblem, plan: Plan, loaded: LoadedPlan) -> None:
    pointers = {"bias": 0, "y": device.alloc(output_bytes(problem))}
    for name, size in input_sizes(problem).items():
        pointers[name] = device.alloc(size)
        filler.fill_input(problem, name, "normal", pointers[name], size, 1)
    pointers |= {name: device.alloc(size) for name, size in plan.workspace.items()}
    loaded.launch(pointers, device.stream)
    device.synchronize()
    for name, pointer in pointers.items():
        if pointer or name != "bias":
            device.free(pointer)


def compiled(plan: Plan, arch: str) -> list[Cubin]:
    return [compile_cubin(render(launch), arch) for launch in plan.launches]


def asked_for(names: list[str]) -> list[tuple[Family, str]]:
    """Each family with each of its precisions, of those that are named."""
    pairs = [(name, precision) for name, precisions in PRECISIONS.items() for precision in precisions]
    return [(FAMILIES[f], p) for f, p in pairs if not names or f in names or f"{f}:{p}" in names]


def main() -> None:
    raw, wanted = "--raw" in sys.argv[1:], [name for name in sys.argv[1:] if name != "--raw"]
    device = open_device()
    filler = Filler(device)
    pool = ThreadPoolExecutor()
    for family, precision in asked_for(wanted):
        for shape, layout in POINTWISE if family.name == "wgmma_pointwise" else PROBLEMS:
            problem = ConvProblem.parse(shape, precision=precision, layout=layout, epilogue="bias_relu")
            if family.unsupported(problem, device.target) is not None:
                continue
            verifier = None if raw else Verifier(problem, device, filler)
            kinds = kinds_of_config(family, problem, device.target)
            plans = [family.plan(problem, device.target, config) for config in kinds.values()]
            cubins = pool.map(compiled, plans, len(plans) * [device.target.arch])
            for kind, plan, images in zip(kinds, plans, cubins, strict=True):
                loaded = LoadedPlan(plan, images)
                if verifier is None:
                    run_once(device, filler, problem, plan, loaded)
                else:
                    verifier.check(loaded)
                loaded.unload()
                print(f"{family.name} {precision} {shape} {layout}: {kind}", flush=True)
            if verifier is not None:
                verifier.close()
    pool.shutdown()
    filler.close()
    device.close()


if __name__ == "__main__":
    main()
