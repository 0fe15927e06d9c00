"""Every claim estimates its work before it starts: a file of 200 bytes cannot take hours or gigabytes."""

import json
import os
import re
import sys
import time
from math import inf
from pathlib import Path
from typing import Any

import pytest

from engram.atlas import atlas
from engram.certify import CLAIMS, Cost, RankClaim, certify, check_large, duration, rounded, verify
from engram.certify._cost import binomial, check_limits, power
from engram.cli import main
from engram.errors import CertificateError, OptionError
from engram.files import seal
from prepared import Prepared
from tiers import slow

HUGE = """
import json, resource, sys, time
from engram.certify import CLAIMS, certify
from engram.errors import EngramError

room = 2**30 + resource.getpagesize() * int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (room, room))
cases = 0
for kind in CLAIMS.values():
    sizes = kind(**kind.example).sizes()
    for name in sizes:
        for huge in (10**6, 10**9, 2**62, 10**400):
            begin = time.process_time()
            try:
                certify(kind(**{**sizes, name: huge}), max_seconds=0.2, max_memory=200).to_dict()
            except EngramError as error:
                assert "\\n" not in str(error) and len(str(error)) < 600, (kind, name, error)
            assert time.process_time() - begin < 1, (kind.name, name, huge)
            cases += 1
print(cases)
"""


def arguments(text: str) -> str:
    """A text with flags as the arguments that they set: the library names arguments, the command line flags."""
    return re.sub(r"--([a-z][a-z-]*)", lambda flag: flag[1].replace("-", "_"), text)


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of memory is set as Linux has it")
def test_huge_sizes_end_at_once(prepared: Prepared) -> None:
    """Every size of every claim: refused or done within a second, in a process that gets no more than 1 GB."""
    done = prepared.run(HUGE)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) == 4 * sum(len(kind(**kind.example).sizes()) for kind in CLAIMS.values())


def forged(path: Path, name: str, **sizes: int) -> Path:
    """As a stranger would: a valid seal, and sizes that nobody has worked through."""
    content: dict[str, Any] = certify(CLAIMS[name](**CLAIMS[name].example)).to_dict()
    content["sizes"] |= sizes
    del content["seal"]
    path.write_text(json.dumps(content | {"seal": seal(content)}))
    return path


@pytest.mark.parametrize(
    ("name", "sizes", "limit"),
    [
        ("params", {"depth": 10**9}, "max_memory"),
        ("params", {"depth": 2 * 10**7, "hidden": 2}, "max_memory"),
        ("flat", {"steps": 10**9}, "max_memory"),
        ("flat", {"steps": 10**6}, "max_seconds"),
        ("automaton", {"steps": 10**6}, "max_seconds"),
        ("cp-rank", {"inputs": 10**6}, "max_memory"),
        ("rac-shallow", {"modes": 10**9, "templates": 1}, "max_memory"),
        ("attention-paths", {"steps": 60}, "max_seconds"),
        ("attention-paths", {"hidden": 10**4}, "max_memory"),
        ("attention-decay", {"numerator": 98, "denominator": 99}, "max_seconds"),
        ("attention-decay", {"denominator": 10**6}, "max_memory"),
        ("attention-sparse", {"attended": 10**8}, "max_memory"),
        ("attention-sparse", {"steps": 10**4}, "max_memory"),
    ],
)
def test_what_a_stranger_sent(name: str, sizes: dict[str, int], limit: str, tmp_path: Path, capsys: Any) -> None:
    path = forged(tmp_path / "certificate.json", name, **sizes)
    begin = time.process_time()
    assert main(["verify", str(path)]) == 2
    assert time.process_time() - begin < 5
    told = arguments(capsys.readouterr().err)
    assert f"{name} is estimated to " in told
    assert "and the limit is" in told
    assert f"or raise {limit}" in told
    assert told.count("\n") == 1


def test_a_limit_can_be_raised(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "certificate.json"
    assert main(["certify", "params", "--hidden", "4", "--depth", "3", "-o", str(path)]) == 0
    assert main(["verify", str(path), "--max-seconds", "1e-9"]) == 2
    assert "and the limit is 1e-09 seconds: choose smaller sizes, or raise max_seconds" in arguments(
        capsys.readouterr().err
    )
    assert main(["verify", str(path), "--max-seconds", "1"]) == 0
    assert main(["verify", str(path), "--max-memory", "nan"]) == 2
    assert main(["certify", "params", "--hidden", "4", "--depth", "100000", "--max-seconds", "0.1"]) == 2
    with pytest.raises(CertificateError, match="raise max_memory"):
        verify(path, max_memory=1e-9)


@pytest.mark.parametrize("value", [slow(10**9), slow(2**62), 10**400])
@pytest.mark.parametrize("words", ["min-width --steps 8", "min-width --depth", "atlas --max-side", "atlas --jobs"])
def test_huge_words(words: str, value: int, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = words if words[-1] != "8" else f"{words} --channels"
    assert main(["certify", *words.split(), str(value)]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "mistake" not in told
    assert not list(tmp_path.iterdir())


def test_a_long_bound_is_refused() -> None:
    """It has 1,700 digits, which our JSON reader does not take."""
    with pytest.raises(OptionError, match="more than 1,000 digits"):
        certify(CLAIMS["rac-conjecture"](modes=500, channels=500, steps=2000, templates=1, depth=3))


def test_one_template_at_any_length() -> None:
    """numpy has 64 axes; a grid of one template needs none."""
    assert certify(CLAIMS["rac-shallow"](modes=2, channels=3, steps=200, templates=1)).rank == 1


def test_numbers_that_no_float_holds() -> None:
    assert (power(2, 10), power(2, 10**12), binomial(5, 2) < 10.001, binomial(10**12, 10**6)) == (1024, inf, True, inf)
    assert [rounded(number) for number in (999.6, 10**20, inf)] == ["1,000", "10^20", "more than 10^300"]
    assert [duration(seconds) for seconds in (1, 119, 121, 1e5, 1e9, inf)] == [
        "1 seconds",
        "119 seconds",
        "2 minutes",
        "28 hours",
        "32 years",
        "more than 10^300 years",
    ]


LEAST: dict[str, dict[str, int]] = {  # of every size of every claim, where it is not 1
    "attention-sparse": {"depth": 0},
    "delay": {"lag": 0},
    "homogeneous": {"rank": 0},
    "invariance": {"features": 2},
    "pair-order": {"features": 2},
    "params": {"hidden": 2},
    **{name: {"steps": 2} for name in ("tt-equal-cores", "tt-different-cores")},
    **{name: {"steps": 2, "templates": 0} for name in ("rac-shallow", "rac-deep", "rac-conjecture", "rac-upper")},
    "state-tracking": {"units": 0},
}
OTHERS: dict[str, dict[str, int]] = {
    "state-tracking": {"inputs": 1},
    "cp-rank": {"rank": 1},
    "attention-decay": {"denominator": 3},
    "delay": {"lag": 0},
}
"""Sizes beside which the least are allowed."""
SIZES = [(name, size) for name, kind in CLAIMS.items() for size in kind(**kind.example).sizes()]


@pytest.mark.parametrize(("name", "size"), SIZES)
def test_the_least_of_every_size(name: str, size: str) -> None:
    """It is allowed, and one less is refused by name."""
    kind, least = CLAIMS[name], LEAST.get(name, {}).get(size, 1)
    sizes = {**kind(**kind.example).sizes(), **OTHERS.get(name, {})}
    if (name, size) not in (("cp-rank", "hidden"), ("attention-decay", "denominator")):  # which exceed another size
        assert kind(**{**sizes, size: least}).sizes().keys() == sizes.keys()
    with pytest.raises(OptionError, match=rf"^{size} must be"):
        kind(**{**sizes, size: least - 1})


def test_sizes_and_limits_themselves_are_allowed() -> None:
    """10^12 is not above 10^12, no memory is less than any, and from 10^15 on only the power is told."""
    check_large("a claim", {"size": 10**12})
    with pytest.raises(OptionError, match=r"a claim: size must be at most 10\^12, got 1,000,000,000,001"):
        check_large("a claim", {"size": 10**12 + 1})
    with pytest.raises(OptionError, match="and the limit is 0 MB"):
        certify(CLAIMS["params"](hidden=4, depth=3), max_memory=0)
    cost = Cost(2.0, 3.0, 4.0)
    check_limits("a claim", cost, 4, 3.0, 2.0)
    for limits, name in (((3, 3.0, 2.0), "max_side"), ((4, 2.9, 2.0), "MB"), ((4, 3.0, 1.9), "max_seconds")):
        with pytest.raises(OptionError, match=name):
            check_limits("a claim", cost, *limits)
    assert [rounded(number) for number in (10**15 - 1, 10**15)] == ["999,999,999,999,999", "10^15"]


@pytest.mark.parametrize(("free", "limit"), [(10**6, "2,000"), (1e-9, "0")])
def test_a_check_takes_no_more_than_2000_megabytes(
    free: float, limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the free memory, if that is less."""
    monkeypatch.setattr("engram.certify._verify.free_memory", lambda: free)
    path = forged(tmp_path / "certificate.json", "params", depth=10**9)
    with pytest.raises(CertificateError, match=f"and the limit is {limit} MB"):
        verify(path)


TIMED = {
    "params": {"hidden": 5, "depth": 200_000},
    "flat": {"hidden": 100, "depth": 5},
    "deepen": {"hidden": 5, "depth": 50},
    "automaton": {"states": 4, "steps": 3000},
    "state-tracking": {"hidden": 80},
    "delay": {"hidden": 2, "depth": 500},
    "degree": {"steps": 40, "depth": 2},
    "homogeneous": {"depth": 2, "hidden": 50},
    "cp-rank": {"hidden": 500, "inputs": 2, "rank": 3},
    "rac-deep": {"modes": 2, "channels": 20, "steps": 18},
    "tt-equal-cores": {"modes": 2, "rank": 3, "steps": 20},
    "attention-paths": {"hidden": 3, "steps": 6},
    "attention-decay": {"numerator": 19, "denominator": 20},
    "attention-sparse": {"attended": 4, "depth": 3, "steps": 600},
}


MEASURED: dict[str, tuple[tuple[int, ...], float, float]] = {
    "tt-equal-cores": ((12, 13, 14), 2.3e13, 2.05e10),
    "tt-different-cores": ((12, 13, 14), 2.3e13, 2.05e10),
    "rac-shallow": ((12, 13, 14, 15), 5.77e9, 4.67e11),
    "rac-deep": ((12, 13, 14, 15), 9.57e12, 4.67e11),
    "rac-conjecture": ((12, 13, 14, 15, 7), 2e15, 4.67e11),
    "rac-upper": ((12, 13, 14, 15, 7), 2e15, 4.67e11),
    "delay": ((23, 5, 3, 29), 1.05, 101),
    "flat": ((12, 13, 14, 15), 0.0918, 2.9),
    "deepen": ((12, 13, 14, 15), 0.385, 1.83),
    "params": ((12, 13), 6.5e-5, 0.0078),
    "degree": ((12, 13, 14, 15), 7.15e5, 9.34e3),
    "homogeneous": ((12, 13, 14, 15), 0.756, 7.13),
    "cp-rank": ((23, 5, 17, 3), 0.0419, 0.134),
    "state-tracking": ((12, 13, 14), 0.00274, 0.291),
    "automaton": ((12, 13, 14), 0.159, 1.42),
    "attention-paths": ((12, 13), 452, 158),
    "attention-decay": ((50, 7, 9), 0.309, 50),
    "attention-sparse": ((12, 13, 14, 15), 0.0131, 20.7),
    "invariance": ((12, 13), 0.026, 0.333),
    "pair-order": ((12,), 0.0145, 0.072),
}
"""Sizes, seconds and MB as estimated when ``test_estimates`` last held: who calibrates them again changes these too."""


@pytest.mark.parametrize("name", CLAIMS)
def test_estimates_stay(name: str) -> None:
    """To three digits; and the matrix of a claim about a rank, twice 8 bytes an entry, is among the memory."""
    kind = CLAIMS[name]
    values, seconds, megabytes = MEASURED[name]
    cost = kind(**dict(zip(kind(**kind.example).sizes(), values, strict=True))).cost()
    assert (cost.seconds, cost.megabytes) == (pytest.approx(seconds, rel=0.01), pytest.approx(megabytes, rel=0.01))
    if issubclass(kind, RankClaim):
        assert cost.rows in (12.0**7, 15.0**7)
        assert cost.megabytes >= 16 * cost.rows**2 / 1e6


@pytest.mark.slow
@pytest.mark.parametrize("name", TIMED)
def test_estimates(name: str) -> None:
    """Of a second's work, within a factor of 25: five for the formula, five for the machine (processor time)."""
    claim = CLAIMS[name](**TIMED[name])
    begin = time.process_time()
    claim.find("random", 2147483629, 0)
    taken = time.process_time() - begin
    assert taken / 25 < claim.cost().seconds < 25 * taken


def test_what_the_cores_are_for(tmp_path: Path) -> None:
    most = 4 * (os.cpu_count() or 1)
    with pytest.raises(OptionError, match=f"jobs must be at most {most}, four processes per core; got {most + 1}"):
        atlas(folder=tmp_path, jobs=most + 1)
