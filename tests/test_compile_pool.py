"""The pool with real compilations and with compile functions that misbehave; those run in the pool's processes."""

import concurrent.futures
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from im2wingen.cache import CubinCache
from im2wingen.compile_pool import CompilePool
from im2wingen.errors import CompileError, CompileTimeoutError, Im2wingenError, UsageError
from im2wingen.nvrtc import Cubin, compile_cubin
from im2wingen.render import Source

LONG_S = 60.0  # no test waits that long: it would mean a hang


def fake_cubin(source: Source, arch: str) -> Cubin:
    return Cubin(
        kernel=source.kernel, arch=arch, image=source.text.encode(), log="", num_regs=1, spill_bytes=0, stack_bytes=0,
        smem_bytes=0, compile_s=0.0, nvrtc_version=str(os.getpid()),
    )  # fmt: skip


def misbehave(source: Source, arch: str) -> Cubin:
    """Does what the kernel's name says; `mark` notes each call in the file that the text names."""
    match source.kernel:
        case "hang":
            time.sleep(10 * LONG_S)
        case "deaf":  # a hang that nothing but SIGKILL ends
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            time.sleep(10 * LONG_S)
        case "exit":
            os._exit(7)
        case "segfault":
            ctypes.string_at(0)
        case "bug":
            raise ZeroDivisionError("a bug in the compile function")
        case "refuse":
            raise CompileError("refuse", "error: no", ">    1 | no")
        case "usage":
            raise UsageError("arch is odd")
        case "missing":
            raise Im2wingenError("NVRTC is not installed")
        case "mark":
            with open(source.text, "a") as file:
                file.write(f"{os.getpid()}\n")
            time.sleep(0.3)
        case "count":  # how often it had the time to, within what is left of two seconds of its own
            child = subprocess.Popen(["sh", "-c", f"while :; do echo x >> {source.text}; sleep 0.02; done"])
            time.sleep(2.0)
            child.kill()
        case "print":
            print("noise on stdout")
    return fake_cubin(source, arch)


def fine(text: str = "fine") -> Source:
    return Source("fine", text)


def kernel(name: str) -> Source:
    return Source(name, f'extern "C" __global__ void {name}(float* y) {{ y[0] = 1.f; }}')


def test_real_kernels_come_back_in_order_and_fill_the_cache(tmp_path: Path) -> None:
    cache = CubinCache(tmp_path / "kernels")
    sources = (kernel("a"), kernel("b"), kernel("a"))
    with CompilePool(2, LONG_S, cache) as pool:
        cubins = pool.submit(sources, "sm_80").result(LONG_S)
    assert [cubin.kernel for cubin in cubins] == ["a", "b", "a"]
    assert cubins[0].image == compile_cubin(kernel("a"), "sm_80").image
    assert cache.get(kernel("b"), "sm_80") == cubins[1]


def test_real_error_carries_the_excerpt() -> None:
    with CompilePool(1, LONG_S) as pool, pytest.raises(CompileError, match="nowhere") as caught:
        pool.submit((Source("bad", 'extern "C" __global__ void bad() { nowhere(); }'),), "sm_80").result(LONG_S)
    assert caught.value.excerpt.startswith(">    1 |")


def test_cached_sources_start_no_process(tmp_path: Path) -> None:
    cache = CubinCache(tmp_path / "kernels")
    cache.put(fine(), fake_cubin(fine(), "sm_80"))
    with CompilePool(1, LONG_S, cache, compile_function=misbehave) as pool:
        future = pool.submit((fine(),), "sm_80")
        assert future.done()
        assert future.result()[0].nvrtc_version == str(os.getpid())
        assert pool.submit((), "sm_80").result(LONG_S) == ()


def test_unusable_cache_is_no_obstacle(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "kernels").mkdir(mode=0o700)
    (tmp_path / "kernels").chmod(0o777)
    with CompilePool(1, LONG_S, CubinCache(tmp_path / "kernels"), compile_function=misbehave) as pool:
        assert pool.submit((fine(), fine("2")), "sm_80").result(LONG_S)
    assert caplog.text.count("compiling without the kernel cache") == 1


@pytest.mark.parametrize("name", ["hang", "deaf"])
def test_hung_compile_fails_alone(name: str) -> None:
    with CompilePool(1, 1.0, compile_function=misbehave) as pool:
        hung = pool.submit((Source(name, ""),), "sm_80")
        after = pool.submit((fine(),), "sm_80")
        with pytest.raises(CompileTimeoutError, match=f"{name} took longer than 1 s to compile for sm_80"):
            hung.result(LONG_S)
        assert after.result(LONG_S)[0].kernel == "fine"


@pytest.mark.parametrize(
    ("name", "words"), [("exit", "exited with code 7"), ("segfault", "ended by SIGSEGV"), ("bug", "exited with code 1")]
)
def test_crash_fails_alone(name: str, words: str) -> None:
    with CompilePool(1, LONG_S, compile_function=misbehave) as pool:
        before, crash, after = (pool.submit((Source(n, ""),), "sm_80") for n in ("fine", name, "fine2"))
        with pytest.raises(CompileError, match=words):
            crash.result(LONG_S)
        assert before.result(LONG_S)[0].nvrtc_version != after.result(LONG_S)[0].nvrtc_version  # a new process


@pytest.mark.parametrize(
    ("name", "kind"), [("refuse", CompileError), ("usage", UsageError), ("missing", Im2wingenError)]
)
def test_errors_keep_their_kind_and_the_process(name: str, kind: type[Im2wingenError]) -> None:
    with CompilePool(1, LONG_S, compile_function=misbehave) as pool:
        before, bad, after = (pool.submit((Source(n, ""),), "sm_80") for n in ("fine", name, "fine2"))
        error = bad.exception(LONG_S)
        assert type(error) is kind
        assert before.result(LONG_S)[0].nvrtc_version == after.result(LONG_S)[0].nvrtc_version


def test_one_bad_source_fails_its_request_only() -> None:
    with CompilePool(2, LONG_S, compile_function=misbehave) as pool:
        mixed = pool.submit((fine("1"), Source("refuse", ""), fine("2")), "sm_80")
        clean = pool.submit((fine("1"), fine("2")), "sm_80")
        with pytest.raises(CompileError):
            mixed.result(LONG_S)
        assert [cubin.image for cubin in clean.result(LONG_S)] == [b"1", b"2"]


def test_identical_sources_in_flight_compile_once(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    source = Source("mark", str(calls))
    with CompilePool(4, LONG_S, compile_function=misbehave) as pool:
        futures = [pool.submit((source, source), "sm_80") for _ in range(8)]
        other_arch = pool.submit((source,), "sm_90a")
        assert len({cubin.sha256 for future in futures for cubin in future.result(LONG_S)}) == 1
        assert other_arch.result(LONG_S)
    assert len(calls.read_text().splitlines()) == 2


def test_processes_start_with_work_and_are_reused(tmp_path: Path) -> None:
    with CompilePool(4, LONG_S, compile_function=misbehave) as pool:
        used = {pool.submit((fine(str(n)),), "sm_80").result(LONG_S)[0].nvrtc_version for n in range(5)}
    assert len(used) <= 2  # a thread that has just delivered may not yet count as idle


def test_cancelled_sources_are_skipped(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    with CompilePool(1, LONG_S, compile_function=misbehave) as pool:
        busy = pool.submit((Source("mark", str(tmp_path / "busy")),), "sm_80")
        dropped = pool.submit((Source("mark", str(calls)),), "sm_80")
        kept = pool.submit((fine(),), "sm_80")
        assert dropped.cancel()
        assert concurrent.futures.wait([dropped], LONG_S).done == {dropped}
        assert kept.result(LONG_S)
        assert busy.result(LONG_S)
    assert not calls.exists()


def test_cancelling_leaves_what_others_wait_for(tmp_path: Path) -> None:
    with CompilePool(1, LONG_S, compile_function=misbehave) as pool:
        pool.submit((Source("mark", str(tmp_path / "busy")),), "sm_80")
        first, second = pool.submit((fine(),), "sm_80"), pool.submit((fine(),), "sm_80")
        assert first.cancel()
        assert second.result(LONG_S)


def test_closing_cancels_and_kills_a_hung_process() -> None:
    with CompilePool(1, LONG_S, compile_function=misbehave) as pool:
        ready = pool.submit((fine(),), "sm_80").result(LONG_S)[0]
        running, queued = pool.submit((Source("deaf", ""),), "sm_80"), pool.submit((fine("2"),), "sm_80")
    for future in (running, queued):
        with pytest.raises(concurrent.futures.CancelledError):
            future.result(0)
    with pytest.raises(ProcessLookupError):
        os.kill(int(ready.nvrtc_version), 0)
    with pytest.raises(RuntimeError, match="closed"):
        pool.submit((fine(),), "sm_80")
    pool.close()  # again: nothing happens
    assert not [thread for thread in threading.enumerate() if thread.name == "im2wingen-compile"]


def test_function_that_cannot_travel_is_refused_at_once() -> None:
    with pytest.raises(Exception, match="pickle"):
        CompilePool(1, LONG_S, compile_function=lambda source, arch: fake_cubin(source, arch))


def test_processes_that_cannot_start_are_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with CompilePool(1, LONG_S, compile_function=misbehave) as pool:
        monkeypatch.setattr(sys, "executable", "/bin/false")
        with pytest.raises(Im2wingenError, match="could not be started: it exited with code 1"):
            pool.submit((fine(),), "sm_80").result(LONG_S)
        monkeypatch.setattr(sys, "executable", "/nowhere/python")
        with pytest.raises(Im2wingenError, match="can't be started: No such file"):
            pool.submit((fine(),), "sm_80").result(LONG_S)
        monkeypatch.undo()
        assert pool.submit((fine(),), "sm_80").result(LONG_S)  # and the pool recovers


# No `if __name__ == "__main__"` guard: the processes must not run a caller's script again.
SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
from test_compile_pool import CompilePool, Source, misbehave
with CompilePool(2, 600.0, compile_function=misbehave) as pool:
    worker = pool.submit((Source("print", ""),), "sm_80").result(60)[0].nvrtc_version
    hung = pool.submit((Source("deaf", ""),), "sm_80")
    print("worker", worker, flush=True)
    hung.result()
"""


def test_ctrl_c_ends_script_and_processes_cleanly() -> None:
    here = str(Path(__file__).parent)
    script = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, here],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert script.stdout is not None
    word, worker = script.stdout.readline().split()
    assert word == "worker"  # the process's own print went elsewhere
    os.killpg(script.pid, signal.SIGINT)  # as a terminal does: to the script and to its processes
    _, errors = script.communicate(timeout=LONG_S)
    assert script.returncode == -signal.SIGINT
    assert errors.count("Traceback") == 1  # the script's own KeyboardInterrupt
    with pytest.raises(ProcessLookupError):
        os.kill(int(worker), 0)


def test_paused_compilers_and_what_they_started_stand_still(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    with CompilePool(2, LONG_S, compile_function=misbehave) as pool:
        running = pool.submit((Source("count", str(marks)),), "sm_80")
        while not marks.exists():
            time.sleep(0.05)
        with pool.paused():
            time.sleep(0.2)  # the last one under way
            before = marks.stat().st_size
            begun_later = pool.submit((fine(),), "sm_80")
            time.sleep(0.5)
            assert marks.stat().st_size == before
            assert not begun_later.done()
        assert begun_later.result(LONG_S)
        assert running.result(LONG_S)
        assert marks.stat().st_size > before


def test_a_paused_pool_can_be_closed(tmp_path: Path) -> None:
    pool = CompilePool(1, LONG_S, compile_function=misbehave)
    hung = pool.submit((Source("hang", ""),), "sm_80")
    time.sleep(0.5)
    with pool.paused():
        pool.close()
    assert hung.cancelled()
