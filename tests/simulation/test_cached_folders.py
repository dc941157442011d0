"""The double of a file system of the network: folders as they were, until a minute is over."""

from __future__ import annotations

import pytest
from lakelog.errors import ObjectExists, ObjectNotFound
from lakelog.store.memory import MemoryStore
from lakelog.testing.cached_folders import CachedFolders


class Machines:
    """Two machines that share what a server has."""

    def __init__(self):
        self.now_us = 0
        self.server = MemoryStore("server")
        self.one, self.other = (CachedFolders(self.server, lambda: self.now_us, 60) for _ in "ab")

    def keys(self, machine, prefix="", after=None):
        return [info.key for info in machine.list(prefix, after=after)]


def test_what_another_machine_makes_is_not_shown_for_a_while():
    machines = Machines()
    machines.server.put("a/b/1", b"1")
    assert machines.keys(machines.other) == ["a/b/1"]
    machines.one.put("a/b/2", b"2")
    machines.one.put("a/c/3", b"3")
    assert machines.keys(machines.other) == machines.keys(machines.other, "a/b/") == ["a/b/1"]
    assert machines.other.list_folders("a/") == ["b"]
    for hidden in ("a/b/2", "a/c/3"):
        for look in (machines.other.get, machines.other.head, machines.other.open_input):
            with pytest.raises(ObjectNotFound):
                look(hidden)
        with pytest.raises(ObjectExists):
            machines.other.put(hidden, b"", if_absent=True)
    machines.now_us = 60
    assert machines.keys(machines.other) == ["a/b/1", "a/b/2", "a/c/3"]
    assert machines.keys(machines.other, "a/b") == ["a/b/1", "a/b/2"]
    assert machines.other.get("a/c/3") == b"3"


def test_what_another_machine_deletes_is_shown_for_a_while_and_can_not_be_read():
    machines = Machines()
    machines.server.put("a/1", b"1")
    assert machines.keys(machines.other) == ["a/1"]
    machines.one.delete(["a/1"])
    assert machines.keys(machines.other) == ["a/1"]
    assert machines.other.head("a/1").size_bytes == 1
    with pytest.raises(ObjectNotFound):
        machines.other.get("a/1")
    machines.now_us = 60
    assert not machines.keys(machines.other)


def test_what_a_machine_does_itself_is_shown_at_once():
    machines = Machines()
    assert not machines.keys(machines.one, "a/b/")
    machines.one.put("a/b/1", b"1")
    assert machines.keys(machines.one) == ["a/b/1"]
    assert machines.keys(machines.one, after="a/b/1") == []
