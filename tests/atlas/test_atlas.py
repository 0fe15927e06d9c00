"""The atlas: every size once, finished ones are kept, and the failures of printed statements are found."""

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import pytest

from engram.atlas import Range, atlas, survey
from engram.atlas import _atlas as module
from engram.atlas._atlas import FILE
from engram.certify import RACShallowClaim, TTDifferentCoresClaim, TTEqualCoresClaim, certify, rac_claim, verify
from engram.cli import main
from engram.errors import CertificateError, OptionError
from engram.files import seal
from engram.report import atlas_summary
from engram.theory.bounds import enough_templates

TINY = Range(max_side=9, max_modes=3, max_channels=2, max_depth=3)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without processes, which take seconds to start."""
    monkeypatch.setattr(
        module, "_prove", lambda claims, seed, prime, jobs: (module._one(c, seed, prime) for c in claims)
    )


def test_the_range() -> None:
    claims = TINY.claims()
    assert len({(claim.name, *claim.sizes().values()) for claim in claims}) == len(claims)
    sides = [claim.side for claim in claims]
    assert sides == sorted(sides)
    assert max(sides) == 9
    trains = {(c.modes, c.rank, c.steps) for c in claims if isinstance(c, TTEqualCoresClaim)}
    assert trains == {(m, r, t) for m, last in ((2, 6), (3, 4)) for r in (1, 2) for t in range(2, last + 1, 2)}
    circuits = [c for c in claims if isinstance(c, RACShallowClaim)]
    assert {c.depth for c in circuits} == {1, 2, 3}
    assert {(c.modes, c.templates) for c in circuits if c.depth == 1} == {(2, 2), (3, 3)}
    assert {(c.modes, c.templates) for c in circuits if c.steps == 2 and c.depth == 2} == {
        (2, 2),
        (2, 3),
        (3, 3),
        (3, 4),
    }


@pytest.mark.parametrize(
    ("size", "expected"), [((4, 3, 4, 4), 5), ((4, 3, 6, 4), 5), ((3, 2, 4, 7), 4), ((3, 3, 8, 2), 3)]
)
def test_enough_templates(size: tuple[int, int, int, int], expected: int) -> None:
    assert enough_templates(*size, max_side=1024) == expected


@pytest.mark.parametrize("name", ["max_side", "max_modes", "max_channels", "max_depth"])
def test_a_range_of_nothing(name: str) -> None:
    least = 2 if name in ("max_side", "max_modes") else 1
    with pytest.raises(OptionError, match=f"{name} must be at least {least}"):
        Range(**{name: least - 1})
    assert getattr(Range(**{name: least}), name) == least


@pytest.mark.slow
def test_processes(tmp_path: Path) -> None:
    """In other processes the same as here; each line is a certificate that can be checked."""
    small = Range(max_side=4, max_modes=2, max_channels=2, max_depth=2)
    told: list[tuple[int, int]] = []
    found = atlas(small, tmp_path, jobs=2, tell=lambda done, all: told.append((done, all)))
    count = len(small.claims())
    assert told == [(done, count) for done in range(count + 1)]
    lines = (tmp_path / FILE).read_text().splitlines()
    assert len(lines) == count == found["matrices"]
    for line in lines[::5]:
        (tmp_path / "one.json").write_text(line)
        assert verify(tmp_path / "one.json").rank == json.loads(line)["rank"]


def test_variables_of_threads_are_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread within; after it, also after a failure, what was set is set again and what was not is not."""
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    monkeypatch.setenv("MKL_NUM_THREADS", "5")
    before = dict(os.environ)
    with module._one_thread():
        assert [os.environ[name] for name in module.THREADS] == ["1", "1", "1"]
    assert dict(os.environ) == before
    with pytest.raises(KeyError), module._one_thread():
        raise KeyError
    assert dict(os.environ) == before


class Threads(ThreadPoolExecutor):
    """In place of processes: what they were asked for is noted."""

    made: ClassVar[list[Any]] = []

    def __init__(self, jobs: int, context: Any, initializer: Any) -> None:
        super().__init__(jobs)
        self.made.append((jobs, context.get_start_method(), initializer, os.environ["OMP_NUM_THREADS"]))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.made.append((wait, cancel_futures))
        super().shutdown(wait, cancel_futures=cancel_futures)


@pytest.mark.parametrize("jobs", [None, 3])
def test_what_processes_are_asked_for(jobs: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as cores if nothing is said, started anew, with one thread each; none if there is nothing to do."""
    monkeypatch.setattr(module, "ProcessPoolExecutor", Threads)
    monkeypatch.setattr(module.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(Threads, "made", [])
    small = Range(max_side=2, max_modes=2, max_channels=1, max_depth=1)
    found = atlas(small, tmp_path, jobs=jobs)
    assert found["matrices"] == len((tmp_path / FILE).read_text().splitlines()) == len(small.claims())
    started = (jobs or 2, "spawn", module._ignore_interrupts, "1")
    assert Threads.made == [started, (True, False)]
    assert atlas(small, tmp_path, jobs=jobs) == found
    assert len(Threads.made) == 2


def test_an_interruption_sends_no_more_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has not begun is taken back, and nobody waits for the rest."""
    monkeypatch.setattr(module, "ProcessPoolExecutor", Threads)
    monkeypatch.setattr(Threads, "made", [])

    def stop(done: int, all: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        atlas(TINY, tmp_path, jobs=1, tell=stop)
    assert Threads.made[1] == (False, True)


def test_processes_leave_an_interruption_to_the_one_that_started_them() -> None:
    before = signal.getsignal(signal.SIGINT)
    try:
        module._ignore_interrupts()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("here")
def test_the_most_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.os, "cpu_count", lambda: 2)
    assert atlas(Range(2, 2, 1, 1), tmp_path, jobs=8)["matrices"] == 3
    for jobs, words in ((9, "jobs must be at most 8, .*; got 9"), (0, "jobs must be at least 1")):
        with pytest.raises(OptionError, match=words):
            atlas(Range(2, 2, 1, 1), tmp_path, jobs=jobs)


@pytest.mark.usefixtures("here")
def test_what_is_done_is_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped anywhere, with half a line at the end, the second call ends as one that was never stopped."""

    def stop(done: int, all: int) -> None:
        if done == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        atlas(TINY, tmp_path, tell=stop)
    file = tmp_path / FILE
    assert file.read_text().count("\n") == 7
    file.write_text(file.read_text() + '{"version": 1, "cla')
    told: list[int] = []
    found = atlas(TINY, tmp_path, tell=lambda done, all: told.append(done))
    assert told == list(range(7, len(TINY.claims()) + 1))
    assert found == atlas(TINY, tmp_path / "other")
    monkeypatch.setattr(module, "_one", None)  # nothing is left to do
    assert found == atlas(TINY, tmp_path)


@pytest.mark.usefixtures("here")
def test_a_strange_file(tmp_path: Path) -> None:
    atlas(Range(2, 2, 1, 1), tmp_path)
    with pytest.raises(CertificateError, match="another seed or prime"):
        atlas(Range(2, 2, 1, 1), tmp_path, seed=1)
    content = (tmp_path / FILE).read_text()
    (tmp_path / FILE).write_text(content.replace('"rank": 1, "bound"', '"rank": 2, "bound"', 1))
    with pytest.raises(CertificateError, match="line 1 does not match its seal"):
        atlas(Range(2, 2, 1, 1), tmp_path)
    truth = json.loads(content.splitlines()[0]) | {"rank": True}
    del truth["seal"]
    (tmp_path / FILE).write_text(json.dumps(truth | {"seal": seal(truth)}) + "\n")
    with pytest.raises(CertificateError, match="line 1 is not a certificate"):
        atlas(Range(2, 2, 1, 1), tmp_path)
    (tmp_path / FILE).write_text("[]\n")
    with pytest.raises(CertificateError, match="line 1 is not a certificate"):
        atlas(Range(2, 2, 1, 1), tmp_path)


@pytest.mark.usefixtures("here")
def test_a_trap_in_the_place_of_the_file(tmp_path: Path) -> None:
    """A pipe would be waited for, for ever; through a link certificates would land in another file."""
    (tmp_path / "target").touch()
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / FILE).symlink_to(tmp_path / "target")
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / FILE)
    for folder, kind in (("link", "a symbolic link"), ("pipe", "a pipe")):
        with pytest.raises(CertificateError, match=f"it is {kind}, and must be a plain file"):
            atlas(Range(2, 2, 1, 1), tmp_path / folder)
    assert not (tmp_path / "target").read_bytes()


@pytest.mark.parametrize("name", ["max_side", "max_modes", "max_channels", "max_depth"])
def test_a_range_without_end(name: str) -> None:
    with pytest.raises(OptionError, match=r"atlas: max_.* must be at most 10\^12"):
        Range(**{name: 10**13}).claims()
    with pytest.raises(OptionError, match="more than 20,000 matrices: choose smaller limits"):
        Range(max_side=4, max_depth=10**6).claims()


def surveyed(*sizes: tuple[int, int, int, int, int]) -> Any:
    claims = [rac_claim(*size) for size in sizes]
    return survey([(claim, certify(claim).rank) for claim in claims], 2147483629, 0)


def test_few_templates() -> None:
    """Where M templates are too few, and the fewest that are enough."""
    sizes = [(4, 3, 4, 4, 4), (4, 3, 4, 4, 5), (4, 3, 4, 4, 6), (4, 3, 6, 4, 4), (4, 3, 6, 4, 5), (3, 2, 4, 7, 3)]
    found = surveyed(*sizes)
    (few, over, *_) = found["fails"].values()
    assert few["rows"] == [
        [4, 3, 4, 4, 12, 15, 5, 15],
        [4, 3, 6, 4, 48, 64, 5, 75],
        [3, 2, 4, 7, 6, 8, None, None],
    ]
    assert found["claims"]["rac-conjecture"] == {"asked": 6, "hold": 3, "fail": 3, "open": 0}
    assert found["claims"]["rac-upper"]["hold"] == 6
    assert found["conjecture"] == {
        "sizes": 3,
        "certified": 2,
        "certified_beyond_the_theorems": 2,
        "out_of_reach": [(3, 2, 4, 7)],
        "open": [],
    }
    assert [4, 3, 4, 4, 18, 6, 16] in over["rows"]


def test_no_cap_by_the_modes() -> None:
    """(2,2,4,2) with K = 3 gives 6 > 4, (2,2,8,3) gives 54 > 16; with K = M never."""
    found = surveyed((2, 2, 4, 2, 3), (2, 2, 8, 3, 3), (2, 2, 4, 2, 2), (2, 2, 8, 3, 2))
    over = list(found["fails"].values())[1]["rows"]
    assert over == [[2, 2, 4, 2, 6, 3, 4], [2, 2, 8, 3, 54, 3, 16]]


def test_conjecture_and_theorem_at_depth_one() -> None:
    """min(M, R) < min(R, M^{T/2}) for R > M, T > 2; equality at T = 2."""
    found = surveyed((2, 3, 4, 1, 2), (2, 3, 2, 1, 2), (3, 2, 4, 1, 3))
    weaker, equal = list(found["fails"].values())[2:4]
    assert weaker["rows"] == [[2, 3, 4, 1, 2, 3]]
    assert equal["rows"] == [[2, 2, 2]]


def test_the_printed_bound_of_trains() -> None:
    claims = [TTEqualCoresClaim(3, 2, 6), TTEqualCoresClaim(2, 3, 8)]
    found = survey([(claim, certify(claim).rank) for claim in claims], 2147483629, 0)
    assert list(found["fails"].values())[4]["rows"] == [[3, 2, 6, 1, 8, 18]]
    assert found["claims"]["tt-equal-cores"] == {"asked": 2, "hold": 2, "fail": 0, "open": 0}


def test_a_rank_too_low_is_open_not_false() -> None:
    """Only an upper bound refutes; an unlucky draw does not."""
    claim = rac_claim(3, 3, 8, 3)
    found = survey([(claim, 5)], 2147483629, 0)
    assert found["claims"]["rac-conjecture"]["open"] == 1
    assert (found["conjecture"]["certified"], found["conjecture"]["open"]) == (0, [(3, 3, 8, 3)])
    assert "at 1 it is open" in atlas_summary(found)


def test_one_grid_that_reaches_it_is_enough() -> None:
    """An unlucky draw at K = 3 leaves nothing open where K = 4 has the conjectured rank; the largest rank is listed."""
    few, enough, more = (rac_claim(3, 3, 4, 3, templates) for templates in (3, 4, 5))
    assert few.bound == 9
    found = survey([(few, 5), (enough, 10), (more, 15)], 2147483629, 0)
    assert (found["conjecture"]["certified"], found["conjecture"]["open"]) == (1, [])
    assert found["claims"]["rac-conjecture"] == {"asked": 3, "hold": 2, "fail": 0, "open": 1}
    assert list(found["fails"].values())[1]["rows"] == [[3, 3, 4, 3, 15, 5, 9]]


def test_rows_of_trains() -> None:
    """The printed bound is one for equal cores; of different ones the theorem is right as printed."""
    claims = [TTEqualCoresClaim(3, 2, 6), TTDifferentCoresClaim(3, 2, 6)]
    found = survey([(claim, 18) for claim in claims], 2147483629, 0)["tt"]
    assert dict(zip(found["columns"], zip(*found["rows"], strict=True), strict=True)) == {
        "n": (3, 3), "r": (2, 2), "d": (6, 6), "equal": (True, False), "rank": (18, 18), "printed": (1, 8),
        "bound": (8, 8), "upper": (18, 18),
    }  # fmt: skip


@pytest.mark.usefixtures("here")
def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    words = "certify atlas --max-side 27 --max-modes 4 --max-channels 3 --max-depth 4 -o out"
    assert main(words.split()) == 0
    said = capsys.readouterr().out
    assert "Conjecture 1 is certified at " in said
    assert "M templates are too few for Conjecture 1 (R < M): 1 sizes" in said
    assert sorted(path.name for path in Path("out").iterdir()) == ["atlas.json", "atlas.md", "atlas.svg", FILE]
    assert "| 4 | 3 | 4 | 4 | 12 | 15 | 5 | 15 |" in Path("out/atlas.md").read_text()
    assert main([*words.split(), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(Path("out/atlas.json").read_text())
