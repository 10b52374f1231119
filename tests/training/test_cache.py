"""Copies of what a store elsewhere holds: whose they are, and whether they are what the store has."""

import os

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from cptlaw.errors import DataError
from cptlaw.writing import cache_folder
from cptlaw_sweep.store import Store


def put(url, tmp_path, content):
    local = tmp_path / "made"
    (local / "deep").mkdir(parents=True)
    (local / "deep" / "weights.bin").write_bytes(content)
    store = Store(url)
    store.put_folder(local, "models/one")
    return store


@pytest.fixture(autouse=True)
def _empty_memory():
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


def weights(folder):
    return (folder / "deep" / "weights.bin").read_bytes()


def test_the_cache_is_the_user_s_own(tmp_path, monkeypatch):
    monkeypatch.delenv("CPTLAW_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache" / "cptlaw").mkdir(parents=True, mode=0o755)
    folder = cache_folder()
    assert folder == tmp_path / "cache" / "cptlaw"
    assert folder.stat().st_mode & 0o777 == 0o700
    monkeypatch.setattr(os, "getuid", lambda: 4242)
    with pytest.raises(DataError, match="another user"):
        cache_folder()
    monkeypatch.setenv("CPTLAW_CACHE", str(tmp_path / "given"))
    assert cache_folder() == tmp_path / "given"


def test_a_copy_is_used_again_only_while_it_is_one(tmp_path, monkeypatch):
    store, cache = put("memory://a", tmp_path, b"of a"), tmp_path / "cache"
    fetched = []
    get = store._fs.get
    monkeypatch.setattr(store._fs, "get", lambda *where, **how: (fetched.append(where), get(*where, **how)))
    first = store.get_folder("models/one", cache)
    assert weights(first) == b"of a"
    assert store.get_folder("models/one", cache) == first
    assert len(fetched) == 1
    (first / "deep" / "weights.bin").write_bytes(b"of x")  # as long as before
    assert weights(store.get_folder("models/one", cache)) == b"of a"
    (first / "more.bin").write_bytes(b"")
    assert not (store.get_folder("models/one", cache) / "more.bin").exists()
    assert len(fetched) == 3


def test_other_stores_with_folders_of_this_name_are_told_apart(tmp_path):
    cache = tmp_path / "cache"
    one, two = put("memory://a", tmp_path, b"of a"), put("memory://b", tmp_path, b"of b")
    assert weights(one.get_folder("models/one", cache)) == b"of a"
    assert weights(two.get_folder("models/one", cache)) == b"of b"
    put("memory://a", tmp_path, b"longer")
    assert weights(one.get_folder("models/one", cache)) == b"longer"
