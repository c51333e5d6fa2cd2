"""Clusters in the emulator: CTAs that run together and read each other's shared memory."""

import numpy as np
import pytest
from emulated import nvrtc_log, one_kernel

from im2wingen.emulator import EmulatedKernel
from im2wingen.errors import EmulatorError
from im2wingen.nvrtc import compile_cubin
from im2wingen.render import Source
from im2wingen.sass import instruction_counts

CLUSTER, THREADS = 4, 64
BARRIER = "ptx::barrier_cluster_arrive();\n  ptx::barrier_cluster_wait();"
READ = BARRIER.replace("arrive", "arrive_relaxed")
# Each thread adds up what the threads of its number have written.
BODY = f"""
  IM2WINGEN_DYNAMIC_SMEM(memory);
  float* mine = reinterpret_cast<float*>(memory) + threadIdx.x * 4;
  for (int i = 0; i < 4; ++i) mine[i] = (1 + blockIdx.x) * 1000 + threadIdx.x * 4 + i;
  {BARRIER}  // written
  float sum[4] = {{}};
  uint32_t v[4];
  for (int peer = 0; peer < CLUSTER; ++peer) {{
    ptx::ld_shared_cluster_v4(v, ptx::mapa(mine, peer));
    for (int i = 0; i < 4; ++i) sum[i] += __uint_as_float(v[i]);
  }}
  {READ}  // read
  for (int i = 0; i < 4; ++i) y[(blockIdx.x * blockDim.x + threadIdx.x) * 4 + i] = sum[i] + ptx::cluster_ctarank();
"""


def kernel(body: str = BODY) -> Source:
    return one_kernel("float* y", body, includes=("ptx/cluster.cuh",), CLUSTER=CLUSTER)


def run(source: Source, seed: int, *, ctas: int = 2 * CLUSTER, cluster: int = CLUSTER) -> np.ndarray:
    y = np.zeros((ctas, THREADS, 4), np.float32)
    EmulatedKernel(source).launch((ctas, 1, 1), THREADS, THREADS * 16, [y], seed, cluster=cluster)
    return y


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_ctas_read_what_their_peers_wrote(seed: int) -> None:
    own = np.arange(1, 2 * CLUSTER + 1)[:, None, None] * 1000 + np.arange(THREADS * 4).reshape(THREADS, 4)
    sums = own.reshape(2, CLUSTER, THREADS, 4).sum(1, keepdims=True).repeat(CLUSTER, 1)
    wanted = sums + np.arange(CLUSTER)[:, None, None]
    np.testing.assert_array_equal(run(kernel(), seed), wanted.reshape(-1, THREADS, 4))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (f"{BARRIER}  // written", "", "before any barrier of the cluster"),
        (f"{READ}  // read", "", "of the cluster, which has ended"),
        ("mapa(mine, peer)", "mapa(mine, peer + 1)", "rank 4 of a cluster of 4 CTAs"),
        ("arrive();", "arrive_relaxed();", "before any barrier of the cluster"),
        ("ptx::barrier_cluster_arrive();\n", "", "the thread has not arrived"),
        ("ptx::barrier_cluster_wait();  // read", "", "between its arrival at the cluster's barrier and its wait"),
        ("ptx::barrier_cluster_wait();  // read", "ptx::barrier_cluster_arrive();", "has not waited since"),
    ],
    ids=str,
)
def test_misuse_is_told(old: str, new: str, words: str) -> None:
    with pytest.raises(EmulatorError, match=words):
        run(kernel(BODY.replace(old, new, 1)), 2)


def test_what_is_written_after_the_barrier_reaches_no_peer() -> None:
    late = BODY.replace("  // written", "  // written\n  mine[1] = 7;")
    y = run(kernel(late), 0)
    assert np.isnan(y).any()  # where it was not read before


@pytest.mark.parametrize(("ctas", "cluster"), [(6, 4), (9, 9)])
def test_a_cluster_divides_the_grid(ctas: int, cluster: int) -> None:
    with pytest.raises(EmulatorError, match=f"a cluster of {cluster} CTAs in a grid of {ctas}"):
        run(kernel(), 0, ctas=ctas, cluster=cluster)


def test_it_compiles() -> None:
    assert nvrtc_log(kernel(), "sm_90") == ""
    counts = instruction_counts(compile_cubin(kernel(), "sm_90a"))
    assert counts["UCGABAR"] == 4
    assert counts["MEMBAR"] == 1  # of the first arrival
