import dataclasses
import errno
import json
import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from im2wingen import cache as cache_module
from im2wingen.cache import CubinCache, cache_key
from im2wingen.errors import CacheError
from im2wingen.nvrtc import Cubin, compile_cubin
from im2wingen.render import Source

SOURCE = Source("k", 'extern "C" __global__ void k(float* y) { y[0] = 1.f; }')


def fake_cubin(kernel: str = "k", arch: str = "sm_80", image: bytes = b"\x7fELF image") -> Cubin:
    return Cubin(
        kernel=kernel, arch=arch, image=image, log="ptxas info : Î", num_regs=40, spill_bytes=8, stack_bytes=16,
        smem_bytes=1024, compile_s=0.25, nvrtc_version="13.0.88",
    )  # fmt: skip


@pytest.fixture
def cache(tmp_path: Path) -> CubinCache:
    return CubinCache(tmp_path / "kernels")


def files(cache: CubinCache, suffix: str) -> list[Path]:
    return sorted(cache.folder.rglob(f"*{suffix}"))


def test_making_a_cache_touches_nothing(cache: CubinCache) -> None:
    assert cache.get(SOURCE, "sm_80") is None
    assert cache.gc() == 0
    assert not cache.folder.exists()


def test_compiled_kernel_comes_back_whole(cache: CubinCache) -> None:
    cubin = compile_cubin(SOURCE, "sm_80")
    cache.put(SOURCE, cubin)
    assert cache.get(SOURCE, "sm_80") == cubin
    assert CubinCache(cache.folder).get(SOURCE, "sm_80") == cubin
    assert cache.get(SOURCE, "sm_90a") is None
    assert cache.get(Source("k", SOURCE.text + " "), "sm_80") is None


def test_get_or_compile_compiles_once_and_does_without_an_unsafe_cache(
    cache: CubinCache, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    compiled: list[str] = []

    def compiler(source: Source, arch: str, *, limit_s: float) -> Cubin:
        compiled.append(arch)
        return fake_cubin()

    monkeypatch.setattr(cache_module, "compile_kernel", compiler)
    assert cache.get_or_compile(SOURCE, "sm_80") == cache.get_or_compile(SOURCE, "sm_80") == fake_cubin()
    assert compiled == ["sm_80"]
    cache.folder.chmod(0o777)
    assert cache.get_or_compile(SOURCE, "sm_80") == fake_cubin()
    assert compiled == ["sm_80"] * 2
    assert "others may write" in caplog.text


def test_folder_and_files_are_the_users_alone(cache: CubinCache) -> None:
    cache.put(SOURCE, fake_cubin())
    assert cache.folder.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o077 == 0 for path in cache.folder.rglob("*"))


def test_key_depends_on_the_toolkit(monkeypatch: pytest.MonkeyPatch) -> None:
    key = cache_key(SOURCE, "sm_80")
    assert key != cache_key(SOURCE, "sm_90a")
    assert key != cache_key(Source("l", SOURCE.text), "sm_80")
    monkeypatch.setattr(cache_module, "compiler_digest", lambda arch: "another NVRTC")
    assert key != cache_key(SOURCE, "sm_80")


def tamper_image(image: Path, facts: Path) -> None:
    content = bytearray(image.read_bytes())
    content[3] ^= 1
    image.write_bytes(content)


def truncate_image(image: Path, facts: Path) -> None:
    image.write_bytes(image.read_bytes()[:-1])


def truncate_facts(image: Path, facts: Path) -> None:
    facts.write_bytes(facts.read_bytes()[:-5])


def empty_facts(image: Path, facts: Path) -> None:
    facts.write_bytes(b"")


def binary_facts(image: Path, facts: Path) -> None:
    facts.write_bytes(b"\xff\xfe\x00")


def other_json(image: Path, facts: Path) -> None:
    facts.write_text("[1, 2]")


def drop_field(image: Path, facts: Path) -> None:
    stored = json.loads(facts.read_text())
    del stored["num_regs"]
    facts.write_text(json.dumps(stored))


def wrong_type(image: Path, facts: Path) -> None:
    facts.write_text(json.dumps(json.loads(facts.read_text()) | {"num_regs": "40"}))


def other_arch(image: Path, facts: Path) -> None:
    facts.write_text(json.dumps(json.loads(facts.read_text()) | {"arch": "sm_90a"}))


@pytest.mark.parametrize(
    "damage",
    [
        tamper_image,
        truncate_image,
        truncate_facts,
        empty_facts,
        binary_facts,
        other_json,
        drop_field,
        wrong_type,
        other_arch,
    ],
)
def test_damaged_entry_is_a_miss_and_removed(cache: CubinCache, damage: Callable[[Path, Path], None]) -> None:
    cache.put(SOURCE, fake_cubin())
    (image,), (facts,) = files(cache, ".cubin"), files(cache, ".json")
    damage(image, facts)
    assert cache.get(SOURCE, "sm_80") is None
    assert not image.exists()
    assert not facts.exists()
    cache.put(SOURCE, fake_cubin())
    assert cache.get(SOURCE, "sm_80") == fake_cubin()


@pytest.mark.parametrize("suffix", [".cubin", ".json"])
def test_half_an_entry_is_a_miss(cache: CubinCache, suffix: str) -> None:
    cache.put(SOURCE, fake_cubin())
    files(cache, suffix)[0].unlink()
    assert cache.get(SOURCE, "sm_80") is None


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777])
def test_folder_that_others_may_write_is_refused(cache: CubinCache, mode: int) -> None:
    cache.put(SOURCE, fake_cubin())
    cache.folder.chmod(mode)
    for use in (lambda: cache.get(SOURCE, "sm_80"), lambda: cache.put(SOURCE, fake_cubin()), cache.gc):
        with pytest.raises(CacheError, match="chmod 700"):
            use()


def test_folder_of_another_user_is_refused(cache: CubinCache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.put(SOURCE, fake_cubin())
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(CacheError, match="belongs to another user"):
        cache.get(SOURCE, "sm_80")


def test_a_file_in_the_folders_place_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    with pytest.raises(CacheError, match="is not a folder"):
        CubinCache(path).get(SOURCE, "sm_80")
    with pytest.raises(CacheError, match="can't be written"):
        CubinCache(path).put(SOURCE, fake_cubin())


@pytest.mark.parametrize(("code", "words"), [(errno.ENOSPC, "No space left"), (errno.EROFS, "Read-only file system")])
def test_full_or_read_only_disk(cache: CubinCache, monkeypatch: pytest.MonkeyPatch, code: int, words: str) -> None:
    cache.put(SOURCE, fake_cubin())

    def fails(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "replace", fails)
    monkeypatch.setattr(os, "utime", fails)
    with pytest.raises(CacheError, match=f"can't be written: {words}"):
        cache.put(Source("l", ""), fake_cubin("l"))
    assert cache.get(SOURCE, "sm_80") == fake_cubin()
    assert not list(cache.folder.rglob("tmp-*"))


def test_gc_removes_the_least_recently_used(cache: CubinCache) -> None:
    sources = [Source("k", f"// {n}") for n in range(4)]
    for source in sources:
        cache.put(source, fake_cubin(image=bytes(10_000)))
    for path in cache.folder.rglob("*.*"):
        os.utime(path, (1e9, 1e9))
    assert cache.get(sources[1], "sm_80")  # now the youngest
    cache.max_bytes = 15_000
    assert cache.gc() > 30_000
    assert [cache.get(source, "sm_80") is not None for source in sources] == [False, True, False, False]
    assert cache.gc() == 0


def test_put_keeps_the_size_bounded(tmp_path: Path) -> None:
    cache = CubinCache(tmp_path / "kernels", max_bytes=100_000)
    for n in range(30):
        cache.put(Source("k", f"// {n}"), fake_cubin(image=bytes(10_000)))
    assert sum(path.stat().st_size for path in cache.folder.rglob("*.*")) < 120_000


def test_gc_clears_leftovers_of_dead_writers_only(cache: CubinCache) -> None:
    cache.put(SOURCE, fake_cubin())
    shard = files(cache, ".cubin")[0].parent
    dead, living, lone = shard / "tmp-dead", shard / "tmp-living", shard / ("0" * 64 + ".cubin")
    for path in (dead, living, lone):
        path.write_bytes(b"part")
    old = time.time() - 1e5
    os.utime(dead, (old, old))
    os.utime(lone, (old, old))
    assert cache.gc() == 8
    assert [path.exists() for path in (dead, living, lone)] == [False, True, False]
    assert cache.get(SOURCE, "sm_80")


def hammer(folder: Path, image: bytes, rounds: int) -> None:
    """Write and read one key; whatever is read must be whole."""
    cache, cubin = CubinCache(folder, max_bytes=10 * len(image)), fake_cubin(image=image)
    for n in range(rounds):
        cache.put(SOURCE, cubin)
        cache.put(Source("k", f"// {n}"), cubin)
        found = cache.get(SOURCE, "sm_80")
        if found is not None and dataclasses.replace(found) != cubin:
            raise SystemExit(1)


def test_eight_processes_on_the_same_keys(cache: CubinCache) -> None:
    spawn = multiprocessing.get_context("spawn")
    image = bytes(range(256)) * 200
    processes = [spawn.Process(target=hammer, args=(cache.folder, image, 30)) for _ in range(8)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 8
    cache.put(SOURCE, fake_cubin(image=image))
    assert cache.get(SOURCE, "sm_80") == fake_cubin(image=image)
    assert not list(cache.folder.rglob("tmp-*"))
