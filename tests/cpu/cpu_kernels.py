"""C++ kernels for the CPU as they would be rendered: a plain convolution, and ones that are broken in a known way."""

from im2wingen.compilers import compile_kernel
from im2wingen.families.base import Launch, Plan
from im2wingen.nvrtc import Cubin
from im2wingen.outcome import Candidate
from im2wingen.problem import ConvProblem
from im2wingen.render import Source

ARCH = "generic"
PROBLEM = ConvProblem.parse("n3c5h7w6k4r3s2pad1", precision="fp32", layout="nhwc")  # no extent is a vector's

_PLAIN = """
#include <cstddef>
constexpr int N = %(n)d, C = %(c)d, H = %(h)d, W = %(w)d, K = %(k)d, R = %(r)d, S = %(s)d, P = %(p)d, Q = %(q)d;
extern "C" void plain(const float* x, const float* packed, const float* bias, float* y) {
  #pragma omp parallel for collapse(2)
  for (int n = 0; n < N; ++n) for (int p = 0; p < P; ++p)
    for (int q = 0; q < Q; ++q) for (int k = 0; k < K; ++k) {
      float sum = bias ? bias[k] : 0.0f;
      for (int r = 0; r < R; ++r) for (int s = 0; s < S; ++s) {
        int h = p + r - %(pad)d, w = q + s - %(pad)d;
        if (h < 0 || h >= H || w < 0 || w >= W) continue;
        for (int c = 0; c < C; ++c)
          sum += x[((n * H + h) * W + w) * C + c] * packed[((r * S + s) * C + c) * K + k];
      }
      y[((n * P + p) * Q + q) * K + k] = sum;
    }
  %(fault)s
}
"""
_PACK = """
constexpr int C = %(c)d, K = %(k)d, RS = %(r)d * %(s)d;
extern "C" void plain_pack(const float* w, float* packed) {
  for (int k = 0; k < K; ++k) for (int rs = 0; rs < RS; ++rs) for (int c = 0; c < C; ++c)
    packed[(rs * C + c) * K + k] = w[(k * RS + rs) * C + c];
  %(fault)s
}
"""
# What a broken kernel does after it has computed y; volatile, so that no compiler drops it.
FAULTS = {
    "none": "",
    "wrong": "y[N * P * Q * K - 1] += 1.0f;",
    "unwritten": "y[0] = __builtin_nanf(\"\");",
    "segfault": "*(volatile float*)nullptr = 1.0f;",
    "hang": "for (volatile int i = 0; ; i = i) {}",
    "abort": "__builtin_abort();",
    "writes past y": "((volatile float*)y)[N * P * Q * K] = 0.0f;",
    "reads past x": "if (((volatile const float*)x)[N * H * W * C] == 3.0f) y[0] = 0.0f;",
    "writes before y": "((volatile float*)y)[-1] = 0.0f;",
    "writes past packed": "((volatile float*)packed)[R * S * C * K] = 0.0f;",
    "spoils x": "((volatile float*)x)[0] = 0.0f;",
    "slow": "for (volatile long i = 0; i < 20000000; i = i + 1) {}",
}  # fmt: skip


def sources(problem: ConvProblem = PROBLEM, fault: str = "none") -> tuple[Source, Source]:
    sizes = {name: getattr(problem, name) for name in ("n", "c", "h", "w", "k", "r", "s", "p", "q")}
    values = {**sizes, "pad": problem.pad_top}
    of_packing, of_plain = (FAULTS["slow"], "") if fault == "slow packing" else ("", FAULTS[fault])
    return Source("plain_pack", _PACK % {**values, "fault": of_packing}), Source(
        "plain", _PLAIN % {**values, "fault": of_plain}
    )


def plan(problem: ConvProblem = PROBLEM) -> Plan:
    def launch(template: str, *arguments: str) -> Launch:
        return Launch(template=template, values={}, grid=(1, 1, 1), block=1, smem_bytes=0, arguments=arguments)

    return Plan(
        launches=(launch("plain_pack", "w", "packed"), launch("plain", "x", "packed", "bias", "y")),
        workspace={"packed": 4 * problem.k * problem.gemm_k},
    )


def cubins(problem: ConvProblem = PROBLEM, fault: str = "none") -> tuple[Cubin, ...]:
    return tuple(compile_kernel(source, ARCH) for source in sources(problem, fault))


def candidate(fault: str = "none", problem: ConvProblem = PROBLEM) -> Candidate:
    return Candidate(family="plain", config_digest=fault, plan=plan(problem), cubins=cubins(problem, fault))
