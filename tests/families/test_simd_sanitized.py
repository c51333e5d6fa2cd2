"""Family simd under the address and undefined-behaviour sanitizers: every array has exactly its size."""

import subprocess
from pathlib import Path

import pytest

from im2wingen.cpu.data import array_forms
from im2wingen.cpu_compiler import compiler_for, cpu_flags_of
from im2wingen.cpu_target import cpu_preset
from im2wingen.families.base import Launch
from im2wingen.families.simd import SIMD
from im2wingen.host_compiler import compile_text
from im2wingen.render import render
from tests.families.simd_cases import ARCHS, AVX2, problem_of, small

_SANITIZERS = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
_MAIN = """
#include <cstdio>
#include <cstdlib>
template <class T>
static T* array(long bytes) {
  T* const made = static_cast<T*>(std::malloc(bytes));
  for (long i = 0; i < bytes / long(sizeof(T)); ++i) made[i] = T(i % 7);
  return made;
}
int main() { KERNEL(ARRAYS); std::puts("ran"); }
"""
_TYPES = {"x": "Element", "w": "Element", "window": "Element", "packed": "Word", "bias": "Output", "y": "Output"}
CASES = {
    "channels last": ("n2c7h7w17k30r3s3pad1", "nhwc", {"tile_p": 1, "tile_q": 6, "block_c": 3}),
    "planes, staged": ("n2c7h7w17k30r3s3pad1", "nchw", {"tile_q": 6, "store": "staged", "window": "copied"}),
    "rows": ("n2c7h7w19k30r3s3", "nchw", {"vector_of": "pixels", "tile_q": 3, "block_c": 3}),
    "window": ("n2c5h7w9k9r3s3st2x1pad1,2,2,1dil2x1", "nhwc", {"window": "explicit", "block_c": 3, "tile_q": 5}),
    "images": ("n37c10h9w9k9r3s3pad1", "chwn", {"window": "copied", "tile_n": 2, "vectors_k": 3, "tile_q": 1}),
    "last images": ("n11c5h6w7k7r3s2pad1", "chwn", {"tile_n": 2, "vectors_k": 3, "tile_q": 1}),
    "blocks": ("n19c5h7w9k9r3s3st2pad1,2,2,1", "chwn8", {"window": "explicit", "vectors_k": 2, "tile_q": 5}),
    "words": ("n2c7h7w17k30r3s3st2x1pad1,0,2,1", "nchw-nhwc",
              {"product": "madd", "tile_q": 6, "block_c": 6, "window": "copied"}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_touched_outside_the_arrays(name: str, tmp_path: Path) -> None:
    if "x86-64-avx2" not in ARCHS:
        pytest.skip("the cases' tiles are cut for vectors of 8, which this machine's instructions lack")
    shape, layout, config = CASES[name]
    product = config.get("product", "fma")
    problem = problem_of(shape, layout, "bias_relu", "int8" if product == "madd" else "fp32")
    choice = small(problem, **config)
    broken = SIMD.broken_rules(problem, AVX2, choice)
    assert not broken, broken
    plan = SIMD.plan(problem, cpu_preset("x86-64-avx2"), choice)
    sizes = {name: form.size_bytes for name, form in array_forms(problem).items()} | dict(plan.workspace)
    for launch in plan.launches:
        check(launch, sizes, tmp_path)


def check(launch: Launch, sizes: dict[str, int], folder: Path) -> None:
    arrays = ", ".join(f"array<{_TYPES[str(name)]}>({sizes[str(name)]})" for name in launch.arguments)
    source = render(launch)
    text = source.text + _MAIN.replace("KERNEL", source.kernel).replace("ARRAYS", arrays)
    flags = [flag for flag in cpu_flags_of("x86-64-avx2") if flag not in ("-O3", "-fPIC")]
    image, _ = compile_text(compiler_for("x86-64-avx2"), text, (*flags, *_SANITIZERS), name=source.kernel)
    program = folder / source.kernel
    program.write_bytes(image)
    program.chmod(0o700)
    environment = {"OMP_NUM_THREADS": "2", "ASAN_OPTIONS": "detect_leaks=0"}
    ran = subprocess.run([str(program)], env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "ran\n"
