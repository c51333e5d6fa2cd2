"""The CPU executor: alone on the machine while it measures, and what keeps it from that."""

from contextlib import contextmanager
from dataclasses import replace

import pytest
from tuning_fakes import timed

from im2wingen.cpu.devices import cpu_with, usable_cores
from im2wingen.cpu_compiler import cpu_compiler_version
from im2wingen.errors import Im2wingenError, UsageError
from im2wingen.families.base import Plan
from im2wingen.outcome import Candidate
from im2wingen.problem import ConvProblem
from im2wingen.tuning import cpu_executor
from im2wingen.tuning.cpu_executor import CpuExecutor, cpu_facts

PROBLEM = ConvProblem.parse("n1c8h8w8k8r3s3", precision="fp32")
CANDIDATE = Candidate(family="simd", config_digest="0", plan=Plan(launches=()), cubins=())


class FakePool:
    max_workers = 2

    def __init__(self):
        self.is_paused = False
        self.pauses = 0

    @contextmanager
    def paused(self):
        self.is_paused = True
        self.pauses += 1
        yield
        self.is_paused = False

    def submit(self, sources, arch):
        return sources, arch


class FakeWorker:
    def __init__(self, pool):
        self.pool, self.running, self.fails = pool, False, False

    def __enter__(self):
        self.running = True
        return self

    def close(self):
        self.running = False

    def evaluate(self, candidate, best_us):
        assert self.running
        assert self.pool.is_paused
        if self.fails:
            raise Im2wingenError("our own trouble")
        return timed(5.0)

    def playoff(self, candidates, seconds):
        assert self.pool.is_paused
        return [timed(1.0).timing, *[None] * (len(candidates) - 1)]


@pytest.fixture
def pool():
    return FakePool()


@pytest.fixture
def worker(pool, monkeypatch):
    worker = FakeWorker(pool)
    monkeypatch.setattr(cpu_executor, "cpu_worker", lambda problem, target: worker)
    return worker


def test_compilers_pause_while_something_is_measured(pool, worker):
    executor = CpuExecutor(PROBLEM, cpu_facts(1), pool)
    assert (executor.compile_slots, executor.device_slots) == (2, 1)
    with executor:
        assert executor.compile(()) == ((), cpu_with().arch)
        answer = executor.evaluate(CANDIDATE, None)
        assert answer.done()
        assert answer.result() == timed(5.0)
        finalists = [type("Finalist", (), {"candidate": CANDIDATE})] * 2
        first, second = executor.play_off(finalists, 0.5).result()
        assert first.timing == timed(1.0).timing
        assert second is None
    assert (pool.pauses, pool.is_paused, worker.running) == (2, False, False)


def test_our_trouble_is_in_the_future(pool, worker):
    with CpuExecutor(PROBLEM, cpu_facts(), pool) as executor:
        worker.fails = True
        with pytest.raises(Im2wingenError, match="our own trouble"):
            executor.evaluate(CANDIDATE, None).result()


def test_what_keeps_the_worker_from_starting_is_told_each_time(pool, worker, monkeypatch):
    def fail(self):
        raise Im2wingenError("not enough memory")

    monkeypatch.setattr(FakeWorker, "__enter__", fail)
    with CpuExecutor(PROBLEM, cpu_facts(), pool) as executor:
        for _ in range(2):
            with pytest.raises(Im2wingenError, match="not enough memory"):
                executor.evaluate(CANDIDATE, None).result()


def test_facts_are_of_the_cores_in_use():
    facts = cpu_facts(1)
    assert facts.target == replace(cpu_with(), cores=1)
    assert facts.driver_version == cpu_compiler_version()
    assert facts.protocol_version >= 1
    assert cpu_with(usable_cores()).cores == usable_cores()
    for wrong in (0, usable_cores() + 1):
        with pytest.raises(UsageError, match=f"threads is {wrong}; allowed are 1 to {usable_cores()}"):
            cpu_facts(wrong)


def test_no_compiler_is_one_sentence(monkeypatch):
    monkeypatch.setattr("im2wingen.host_compiler.shutil.which", lambda name: None)
    with pytest.raises(Im2wingenError, match=r"no C\+\+ compiler was found; install g\+\+ or clang\+\+"):
        cpu_facts()
