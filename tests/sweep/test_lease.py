"""Leases: one owner, a dead one is found out by a clock that only runs forwards, an owner that slept ends."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.sweep.conftest import dead_process

import engram.sweep._lease as module
from engram.run_files import lease_numbers, newest_lease
from engram.sweep import Lease, Watch
from engram.sweep._lease import is_dead, this_process


@pytest.fixture(autouse=True)
def slow_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beats come when a test asks for them."""
    monkeypatch.setattr(module, "BEAT", 3600.0)


def elsewhere(folder: Path, number: int = 1) -> Path:
    """A lease of a process on another machine."""
    path = folder / f"lease.{number}"
    path.write_text(json.dumps({"machine": "another", "pid": 1, "started": "1", "token": "x", "beats": 0}))
    return path


def test_one_owner_at_a_time(tmp_path: Path) -> None:
    lease = Lease.take(tmp_path)
    assert lease is not None
    assert lease.is_held()
    assert Lease.take(tmp_path) is None
    lease.release()
    assert lease_numbers(tmp_path) == []
    again = Lease.take(tmp_path)
    assert again is not None
    again.release()


def test_many_at_once_and_one_gets_it(tmp_path: Path) -> None:
    for stale in (0, 1):
        if stale:
            elsewhere(tmp_path)
        barrier, found = threading.Barrier(16), list[Lease | None]()

        def take(stale: int = stale, barrier: threading.Barrier = barrier, found: list[Lease | None] = found) -> None:
            barrier.wait()
            found.append(Lease.take(tmp_path, stale))

        threads = [threading.Thread(target=take) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (owner,) = [lease for lease in found if lease is not None]
        assert len(found) == 16
        owner.release()
        assert lease_numbers(tmp_path) == []


def test_dead_after_no_change_for_long_by_the_watchers_own_clock(tmp_path: Path) -> None:
    now = 100.0
    watch = Watch(seconds=30, clock=lambda: now)
    assert watch.stale(tmp_path) == 0
    path = elsewhere(tmp_path)
    assert watch.stale(tmp_path) is None
    now += 29
    assert watch.stale(tmp_path) is None
    path.write_text(path.read_text().replace('"beats": 0', '"beats": 1'))
    os.utime(path, (0, 0))  # the time of a file, which another machine's clock made, does not count
    now += 29
    assert watch.stale(tmp_path) is None
    now += 29
    assert watch.stale(tmp_path) is None
    now += 2
    assert watch.stale(tmp_path) == 1
    lease = Lease.take(tmp_path, stale=1)
    assert lease is not None
    assert lease.number == 2
    assert watch.stale(tmp_path) is None
    lease.release()
    assert watch.stale(tmp_path) == 0


def test_half_written_lease_is_somebodys_until_it_is_old(tmp_path: Path) -> None:
    now = 0.0
    watch = Watch(seconds=30, clock=lambda: now)
    (tmp_path / "lease.3").write_text('{"machine": ')
    assert watch.stale(tmp_path) is None
    now = 31.0
    assert watch.stale(tmp_path) == 3


def test_process_that_is_gone_is_dead_at_once(tmp_path: Path) -> None:
    gone = dead_process()
    assert not is_dead(this_process())
    if not gone["machine"]:
        pytest.skip("this system does not tell when a process was started")
    assert is_dead(gone)
    assert not is_dead(gone | {"machine": "another"})
    assert is_dead(this_process() | {"started": "1"})  # its number is another process's now
    (tmp_path / "lease.1").write_text(json.dumps(gone | {"token": "x", "beats": 3}))
    assert Watch().stale(tmp_path) == 1


def test_owner_that_slept_finds_out_and_does_not_write(tmp_path: Path) -> None:
    lease = Lease.take(tmp_path)
    assert lease is not None
    assert lease.beat()
    thief = Lease.take(tmp_path, stale=1)
    assert thief is not None
    assert not lease.beat()
    assert thief.beat()
    thief.release()
    assert not lease.beat()
    assert newest_lease(tmp_path) == 0
    lease.release()


def test_lost_lease_ends_the_process(tmp_path: Path) -> None:
    program = (
        "import sys, time, pathlib, engram.sweep._lease as m\n"
        "m.BEAT = 0.05\n"
        "lease = m.Lease.take(pathlib.Path(sys.argv[1]))\n"
        "print('taken', flush=True)\n"
        "time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "taken\n"
        elsewhere(tmp_path, 2)
        assert process.wait(timeout=30) == 75


def test_a_full_disk_leaves_no_lease(tmp_path: Path) -> None:
    program = (
        "import pathlib, resource, sys, engram.sweep._lease as m\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (5, 5))\n"
        "try:\n"
        "    m.Lease.take(pathlib.Path(sys.argv[1]))\n"
        "except OSError as error:\n"
        "    print(error.strerror)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout == "File too large\n"
    assert list(tmp_path.iterdir()) == []


def test_beats_go_on_by_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BEAT", 0.01)
    lease = Lease.take(tmp_path)
    assert lease is not None
    before = json.loads((tmp_path / "lease.1").read_text())["beats"]
    until = time.monotonic() + 20
    while lease.beats < before + 3 and time.monotonic() < until:
        time.sleep(0.01)
    assert lease.beats >= before + 3
    lease.release()
    assert lease_numbers(tmp_path) == []


@pytest.mark.parametrize("name", ["lease.01", "lease.٣", "lease.-1", "lease.1x"])
def test_a_name_that_is_no_lease_holds_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("{}")
    assert Watch().stale(tmp_path) == 0


def test_after_a_forged_number_the_next_is_held(tmp_path: Path) -> None:
    (tmp_path / "lease.999999999").write_text("{}")
    lease = Lease.take(tmp_path, stale=999999999)
    assert lease is not None
    assert lease.is_held()
    lease.release()
    assert not list(tmp_path.iterdir())


def test_a_lease_that_was_overwritten_is_lost(tmp_path: Path) -> None:
    lease = Lease.take(tmp_path)
    assert lease is not None
    lease.path.write_text("[1]")
    assert not lease.beat()
    lease.release()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="Linux tells when a process was started")
def test_when_a_process_was_started() -> None:
    """Not before the one that started it; one that has ended, and that nobody has asked about, is gone."""
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            assert int(module._started(process.pid)) >= int(module._started(os.getpid())) > 0
        finally:
            process.kill()
        until = time.monotonic() + 20
        while f"{process.pid} (sleep) Z" not in Path(f"/proc/{process.pid}/stat").read_text():
            assert time.monotonic() < until
            time.sleep(0.01)
        assert module._started(process.pid) == ""
    assert module._started(process.pid) == ""


def test_a_process_that_proc_hides_is_not_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """With hidepid a user does not see the processes of others: that is not known to be gone."""
    owner = {**this_process(), "started": "7"}
    assert is_dead({**owner, "pid": 10**30})  # no process can have such a number
    monkeypatch.setattr(module, "_started", lambda pid: "")
    assert is_dead(owner)  # a zombie of ours, say

    def refuse(pid: int, number: int) -> None:
        assert number == 0
        raise PermissionError

    monkeypatch.setattr(module.os, "kill", refuse)
    assert not is_dead(owner)
