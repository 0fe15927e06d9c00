"""Data files: three places in order, nothing but the right bytes, one download, errors that say what to do."""

import gzip
import hashlib
import io
import os
import tarfile
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from engram.errors import DataError, EngramError, OptionError
from engram.tasks import _data, _download
from engram.tasks._data import find, places, read
from engram.tasks._data_files import FILES, SOURCES

CONTENT = bytes(range(256)) * 4
TEXTS = {f"t.{split}.txt": f"the {split} text\n".encode() * 9 for split in ("train", "valid", "test")}


class Quiet(SimpleHTTPRequestHandler):
    asked: list[str]

    def __init__(self, *args: object, asked: list[str], **options: object) -> None:
        self.asked = asked
        super().__init__(*args, **options)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        super().do_GET()

    def log_message(self, *_: object) -> None: ...


def entry(content: bytes) -> tuple[int, str]:
    return len(content), hashlib.sha256(content).hexdigest()


@pytest.fixture(autouse=True)
def _world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of its own: made-up files in the table, empty places, nobody at the other end of the line."""
    monkeypatch.setitem(FILES, "toy", {"a": entry(CONTENT)})
    monkeypatch.setitem(FILES, "text", {name: entry(content) for name, content in TEXTS.items()})
    monkeypatch.setitem(SOURCES, "toy", "http://127.0.0.1:9/{name}.gz")  # the discard port: refused at once
    monkeypatch.setenv("ENGRAM_DATA", str(tmp_path / "named"))
    monkeypatch.setenv("ENGRAM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("ENGRAM_OFFLINE", raising=False)
    (tmp_path / "checkout" / "deep").mkdir(parents=True)
    (tmp_path / "checkout" / "pyproject.toml").touch()
    monkeypatch.chdir(tmp_path / "checkout" / "deep")


@pytest.fixture
def asked() -> list[str]:
    """What the server was asked for."""
    return []


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[str]) -> Iterator[Path]:
    """A folder on a web server that is the source of the made-up files."""
    folder = tmp_path / "site"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder), asked=asked)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        base = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setitem(SOURCES, "toy", base + "/{name}.gz")
        monkeypatch.setitem(SOURCES, "text", base + "/all.tgz")
        yield folder
        server.shutdown()
        thread.join()


def put(path: Path, content: bytes = CONTENT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def kept(tmp_path: Path) -> list[str]:
    """All files in the cache."""
    return sorted(path.name for path in (tmp_path / "cache").rglob("*") if path.is_file())


def packed(files: dict[str, bytes], folder: str = "simple/data") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(f"{folder}/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


PLACES = ["named/toy", "cache/data/toy"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("form", ["a", "a.gz"])
def test_each_place_and_form(tmp_path: Path, place: str, form: str) -> None:
    put(tmp_path / place / form, gzip.compress(CONTENT) if form == "a.gz" else CONTENT)
    assert read("toy/a") == CONTENT


def test_the_order_of_the_places(tmp_path: Path) -> None:
    """The first place that has it decides: take them away one by one."""
    paths = [put(tmp_path / place / "a") for place in PLACES]
    for path in paths:
        assert find("toy/a") == path
        path.unlink()
    assert find("toy/a") is None
    assert places() == [tmp_path / "named", tmp_path / "cache" / "data"]


def test_the_plain_file_goes_before_the_packed_one(tmp_path: Path) -> None:
    """Which takes time to unpack, and may be half written."""
    put(tmp_path / PLACES[0] / "a.gz", gzip.compress(CONTENT)[:-3])
    put(tmp_path / PLACES[0] / "a")
    assert read("toy/a") == CONTENT


def test_nothing_beside_a_checkout_is_read(tmp_path: Path) -> None:
    """A folder of somebody's machine is no place of the library: it is named in $ENGRAM_DATA or not read."""
    put(tmp_path / "shared" / "data" / "toy" / "a")
    assert find("toy/a") is None


def test_without_a_named_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGRAM_DATA", "")
    assert places() == [tmp_path / "cache" / "data"]


FLIPPED = bytes([CONTENT[0] ^ 1]) + CONTENT[1:]
DAMAGED = {
    "truncated": ("a", CONTENT[:1000], "found 1,000 with sha256"),
    "empty": ("a", b"", "found 0 with sha256"),
    "a flipped bit": ("a", FLIPPED, f"found 1,024 with sha256 {hashlib.sha256(FLIPPED).hexdigest()}"),
    "another file": ("a", CONTENT * 2, "found 2,048 or more with sha256"),
    "a flipped bit, zipped": ("a.gz", gzip.compress(FLIPPED), "found 1,024 with sha256"),
    "zipped and too long": (
        "a.gz",
        gzip.compress(CONTENT * 1000),
        "cannot be read .it unpacks to more than 1,024 bytes",
    ),
    "zipped twice": ("a.gz", gzip.compress(gzip.compress(CONTENT)), "with sha256"),
    "not gzip": ("a.gz", CONTENT, "cannot be read .it is not a whole gzip file .Not a gzipped file"),
    "truncated gzip": (
        "a.gz",
        gzip.compress(CONTENT)[:-12],
        "cannot be read .it is not a whole gzip file .Compressed file ended",
    ),
    "broken gzip": ("a.gz", gzip.compress(CONTENT)[:12] + b"\xff" * 400, "cannot be read"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_file_is_refused(tmp_path: Path, case: str) -> None:
    """With its path, what was expected, what was found, and what to do; it is neither used nor touched."""
    form, content, found = DAMAGED[case]
    path = put(tmp_path / "named" / "toy" / form, content)
    put(tmp_path / "cache/data/toy/a")  # a good one further down does not hide it
    with pytest.raises(DataError, match=found) as caught:
        read("toy/a")
    message = str(caught.value)
    assert message.startswith(str(path))
    assert f"Delete it, and get toy/a again from {SOURCES['toy'].format(name='a')}" in message
    assert "\n" not in message
    if "cannot be read" not in message:
        assert f"expected 1,024 bytes with sha256 {entry(CONTENT)[1]}" in message
    assert path.read_bytes() == content


def test_an_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object) -> bytes:
        raise PermissionError("Permission denied")

    put(tmp_path / "named/toy/a")
    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(DataError, match=r"cannot be read .Permission denied"):
        read("toy/a")


def test_a_folder_in_its_place_is_not_the_file(tmp_path: Path) -> None:
    (tmp_path / "named/toy/a").mkdir(parents=True)
    put(tmp_path / "cache/data/toy/a")
    assert read("toy/a") == CONTENT


def test_an_unknown_name() -> None:
    with pytest.raises(OptionError, match=r"unknown data file 'mnist/train'.*Did you mean 'mnist/train-"):
        read("mnist/train")


@pytest.mark.parametrize("offline", ["1", "yes"])
def test_offline(tmp_path: Path, site: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch, offline: str) -> None:
    """One line: what to put, where it comes from, and the places it may go."""
    monkeypatch.setenv("ENGRAM_OFFLINE", offline)
    put(site / "a.gz", gzip.compress(CONTENT))
    with pytest.raises(DataError) as caught:
        read("toy/a")
    message = str(caught.value)
    for part in ("ENGRAM_OFFLINE is set", "toy/a.gz", SOURCES["toy"].format(name="a"), "ENGRAM_DATA"):
        assert part in message
    assert str(tmp_path / "cache" / "data") in message
    assert "\n" not in message
    assert asked == []


def test_no_network(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"9/a.gz gives no answer .*refused.*Get toy/a .*ENGRAM_DATA") as caught:
        read("toy/a")
    assert "\n" not in str(caught.value)
    assert kept(tmp_path) == []


def test_a_silent_server(monkeypatch: pytest.MonkeyPatch, site: Path) -> None:
    """It accepts and says nothing: given up after TIMEOUT."""
    monkeypatch.setattr(_download, "TIMEOUT", 0.1)
    release = threading.Event()
    monkeypatch.setattr(Quiet, "do_GET", lambda _: release.wait(5))
    with pytest.raises(DataError, match=r"gives no answer .*timed out"):
        read("toy/a")
    release.set()


@pytest.mark.parametrize("part", ["headers", "body"])
def test_a_server_that_drips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, site: Path, part: str) -> None:
    """A byte now and then never runs into the timeout of a socket; the whole has a limit."""
    monkeypatch.setattr(_download, "TOTAL", 0.3)
    release, left = threading.Event(), threading.Event()

    def drip(self: Quiet) -> None:
        self.wfile.write(b"HTTP/1.0 200 OK\r\n" + (b"\r\n" if part == "body" else b"Server: "))
        while not release.wait(0.02):
            try:
                self.wfile.write(b"x")
            except OSError:  # nobody listens any more
                left.set()
                return

    monkeypatch.setattr(Quiet, "do_GET", drip)
    begin = time.monotonic()
    with pytest.raises(DataError, match=r"gives no answer .it was not done after 0.3 seconds.*Get toy/a"):
        read("toy/a")
    assert time.monotonic() - begin < 3
    assert part == "headers" or left.wait(10)  # it hangs up; while headers are read nobody asks whether to go on
    release.set()
    assert kept(tmp_path) == []


@pytest.mark.parametrize("size", [5000, 300_000])  # in one part, or in several, none of which is too long
def test_a_server_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, site: Path, size: int) -> None:
    largest = 1000 if size == 5000 else 200_000
    monkeypatch.setattr(_download, "LARGEST", largest)
    put(site / "a.gz", bytes(size))
    with pytest.raises(DataError, match=f"it sends more than {largest:,} bytes"):
        read("toy/a")
    assert kept(tmp_path) == []


def test_a_tar_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, site: Path) -> None:
    monkeypatch.setattr(_data, "UNPACKED", 100_000)
    put(site / "all.tgz", packed({"zeros": bytes(10**6), **TEXTS}))
    with pytest.raises(DataError, match="it unpacks to more than 100,000 bytes"):
        read("text/t.train.txt")
    assert kept(tmp_path) == []


def test_a_tar_that_just_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, site: Path) -> None:
    content = packed(TEXTS)
    put(site / "all.tgz", content)
    monkeypatch.setattr(_data, "UNPACKED", len(gzip.decompress(content)) - 1)
    with pytest.raises(DataError, match="it unpacks to more than"):
        read("text/t.train.txt")
    monkeypatch.setattr(_data, "UNPACKED", len(gzip.decompress(content)))
    assert read("text/t.train.txt") == TEXTS["t.train.txt"]


def test_a_pipe_is_not_the_file_and_a_link_is(tmp_path: Path) -> None:
    put(tmp_path / "elsewhere")
    (tmp_path / "named/toy").mkdir(parents=True)
    os.mkfifo(tmp_path / "named/toy/a")
    (tmp_path / "cache/data/toy").mkdir(parents=True)
    (tmp_path / "cache/data/toy/a").symlink_to(tmp_path / "elsewhere")
    assert read("toy/a") == CONTENT


def test_a_file_of_holes(tmp_path: Path) -> None:
    os.truncate(put(tmp_path / "named/toy/a"), 10**12)
    with pytest.raises(DataError, match=r"cannot be read .it has 1,000,000,000,000 bytes"):
        read("toy/a")


@pytest.mark.parametrize("offline", [None, "", "0"])
def test_fetched_once(
    tmp_path: Path, site: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch, offline: str | None
) -> None:
    if offline is not None:
        monkeypatch.setenv("ENGRAM_OFFLINE", offline)
    put(site / "a.gz", gzip.compress(CONTENT))
    assert read("toy/a") == read("toy/a") == CONTENT
    assert asked == ["/a.gz"]
    assert (tmp_path / "cache/data/toy/a").read_bytes() == CONTENT
    assert kept(tmp_path) == ["a"]


def test_a_tar_is_fetched_once_for_all_its_files(tmp_path: Path, site: Path, asked: list[str]) -> None:
    put(site / "all.tgz", packed({**TEXTS, "other.txt": b"not ours"}))
    assert {name: read(f"text/{name}") for name in TEXTS} == TEXTS
    assert asked == ["/all.tgz"]
    assert kept(tmp_path) == sorted(TEXTS)


WRONG = {
    "other content": ("a.gz", gzip.compress(FLIPPED), "toy/a", "/a.gz is not toy/a: expected 1,024 bytes"),
    "a page that says sorry": ("a.gz", b"<html>", "toy/a", "gave no readable archive"),
    "cut short": ("a.gz", gzip.compress(CONTENT)[:-10], "toy/a", "gave no readable archive"),
    "not there": ("b.gz", b"", "toy/a", "gives no answer .HTTP Error 404"),
    "tar without it": ("all.tgz", packed({}), "text/t.train.txt", "it holds no data/t.train.txt"),
    "tar, elsewhere": ("all.tgz", packed(TEXTS, "old"), "text/t.train.txt", "it holds no data/t.train.txt"),
    "tar, wrong": ("all.tgz", packed(dict.fromkeys(TEXTS, b"?")), "text/t.train.txt", "is not text/t.train.txt"),
    "tar, wrong sibling": ("all.tgz", packed({**TEXTS, "t.test.txt": b"?"}), "text/t.train.txt", "is not text/t.test"),
    "no tar": ("all.tgz", b"<html>", "text/t.train.txt", "gave no readable archive"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_download_leaves_nothing_behind(tmp_path: Path, site: Path, case: str) -> None:
    file, content, name, message = WRONG[case]
    put(site / file, content)
    with pytest.raises(DataError, match=message) as caught:
        read(name)
    assert kept(tmp_path) == []
    assert f"Get {name} (or {name}.gz)" in str(caught.value)


def test_a_cache_that_cannot_be_written(tmp_path: Path, site: Path) -> None:
    put(site / "a.gz", gzip.compress(CONTENT))
    put(tmp_path / "cache", b"a file where the folder should be")
    assert read("toy/a") == CONTENT


def test_a_crash_while_writing_leaves_no_file(tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError("No space left on device")

    put(site / "a.gz", gzip.compress(CONTENT))
    monkeypatch.setattr(os, "fsync", full)
    assert read("toy/a") == CONTENT
    assert kept(tmp_path) == []


def test_every_file_has_a_source_and_a_sum() -> None:
    real = {folder: files for folder, files in FILES.items() if folder not in ("toy", "text")}
    assert set(real) == set(SOURCES) - {"toy", "text"}
    assert [len(files) for files in real.values()] == [4, 4, 1, 3, 100, 60]
    assert all(size > 0 and len(bytes.fromhex(sha)) == 32 for files in real.values() for size, sha in files.values())


def test_the_error_is_one_of_ours() -> None:
    assert issubclass(DataError, EngramError)
    assert issubclass(DataError, ValueError)
