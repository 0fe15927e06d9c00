"""A certificate can be checked again from its file, and what was changed in it is found."""

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engram.certify import CLAIMS, RACDeepClaim, RACShallowClaim, TTEqualCoresClaim, certify, verify
from engram.certify._claim import many
from engram.certify._verify import _text
from engram.cli import main
from engram.errors import CertificateError
from engram.files import seal as _seal
from tiers import slow_but


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "certificate.json"
    certify(RACDeepClaim(3, 3, 8)).write(path)
    return path


def changed(file: Path, **values: Any) -> None:
    """A forger who knows the seal."""
    content = json.loads(file.read_text()) | values
    content.pop("seal")
    file.write_text(json.dumps(content | {"seal": _seal(content)}))


def test_round_trip(file: Path) -> None:
    content = json.loads(file.read_text())
    assert {"claim", "sizes", "prime", "seed", "rank", "bound", "upper", "holds", "statement"} <= content.keys()
    assert (content["rank"], content["bound"], content["upper"], content["shallow"]) == (45, 15, 45, 3)
    assert verify(file).rank == 45


def test_every_changed_byte_is_found(file: Path) -> None:
    """Flipped one by one; white space between the values is no content."""
    content = file.read_bytes()
    for place in range(0, len(content), 7):
        if chr(content[place]).isspace():
            continue
        file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(CertificateError):
            verify(file)


FORGED = {
    "a false rank": {"rank": 46},
    "a size": {"sizes": {"modes": 3, "channels": 3, "steps": 6, "templates": 3}},
    "a bound": {"bound": 14},
    "a seed": {"seed": 1, "upper": 46},
    "that it holds not": {"holds": False},
    "its words": {"statement": "P = NP"},
    "an unknown claim": {"claim": "rac-deeper"},
    "another version": {"version": 2},
    "a composite prime": {"prime": 2147483628},
    "a rank that is no whole number": {"rank": 45.0},
    "a truth that is a number": {"holds": 1},
    "a matrix of fractions": {"matrix": [81.0, 81]},
    "a version that is a truth": {"version": True},
    "a seed that is a truth": {"seed": False},
    "a seed too large": {"seed": 2**70},
    "a negative seed": {"seed": -1},
    "an unknown witness": {"witness": "luck"},
    "a claim that is no word": {"claim": []},
    "sizes without names": {"sizes": [3, 3, 8, 3]},
    "a length for ever": {"sizes": {"modes": 3, "channels": 3, "steps": 10**9, "templates": 3}},
    "weights beyond memory": {"sizes": {"modes": 3, "channels": 10**6, "steps": 8, "templates": 3}},
    "an odd length": {"sizes": {"modes": 3, "channels": 3, "steps": 7}},
    "an unknown size": {"sizes": {"modes": 3, "size": 3}},
    "one size more": {"sizes": {"modes": 3, "channels": 3, "steps": 8, "templates": 3, "depth": 2}},
    "one size less": {"sizes": {"modes": 3, "channels": 3, "steps": 8}},
    "a size that is a text": {"sizes": {"modes": "3", "channels": 3, "steps": 8, "templates": 3}},
    "a size that is a truth": {"sizes": {"modes": 3, "channels": 3, "steps": 8, "templates": True}},
    "a size that is a fraction": {"sizes": {"modes": 3.0, "channels": 3, "steps": 8, "templates": 3}},
    "an unknown field": {"note": "checked by the authors"},
    "a seed that is a text": {"seed": "0"},
    "a prime that is a fraction": {"prime": 2147483629.0},
    "a witness that is a list": {"witness": ["random"]},
    "a long witness": {"witness": "random" * 1000},
    "seconds that are a text": {"seconds": "fast"},
    "seconds that are a truth": {"seconds": True},
    "negative seconds": {"seconds": -1},
    "endless seconds": {"seconds": float("inf")},
    "no seconds": {"seconds": float("nan")},
    "software that is a text": {"software": "all of it"},
    "software that is a number": {"software": {"engram": 1, "flint": "3", "python": "3.12"}},
    "other software": {"software": {"engram": "1", "flint": "3", "python": "3.12", "sage": "9"}},
}


@pytest.mark.parametrize("change", FORGED)
def test_what_is_forged_is_found(change: str, file: Path) -> None:
    changed(file, **FORGED[change])
    with pytest.raises(CertificateError, match="certificate") as refused:
        verify(file)
    assert len(str(refused.value)) < 800
    assert str(refused.value).isprintable()  # one line


def replaced(file: Path, old: str, new: str) -> None:
    """In the text itself, and sealed as if nobody had."""
    content = file.read_text()
    assert old in content
    file.write_text(content.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"rank": 45', '"rank": 46,\n "rank": 45', "it has 'rank' twice in one object"),
        ('"seed": 0', '"seed": NaN', "NaN, which is not finite"),
        ('"seed": 0', '"seed": 1' + "0" * 1200, "a number of 1,201 digits"),
        ('"seconds": ', '"seconds": 1e999, "s": ', "1e999, which is not finite"),
        ('"seed": 0', '"seed": ' + "[" * 5000 + "]" * 5000, "not a certificate"),
        ('"holds"', '"holds', "it is not JSON"),
    ],
)
def test_json_that_means_one_thing(old: str, new: str, words: str, file: Path) -> None:
    replaced(file, old, new)
    with pytest.raises(CertificateError, match=f"certificate.json: it is not a certificate: .*{words}|{words}"):
        verify(file)


def test_control_characters_are_not_printed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed(file, witness="\x1b[2Jluck\nengram: all is well \ud800")
    assert main(["verify", str(file)]) == 2
    told = capsys.readouterr()
    assert told.err.count("\n") == 1
    assert "\x1b" not in told.err + told.out


def test_what_is_no_plain_file(file: Path, tmp_path: Path) -> None:
    (link := tmp_path / "link.json").symlink_to(file)
    os.mkfifo(pipe := tmp_path / "pipe.json")
    for path, kind in ((link, "a symbolic link"), (pipe, "a pipe"), (tmp_path, "a folder")):
        with pytest.raises(CertificateError, match=f"it is {kind}, and must be a plain file"):
            verify(path)
        with pytest.raises(CertificateError, match=f"could not be written: it is {kind}"):
            certify(RACDeepClaim(3, 3, 4)).write(path)
    (large := tmp_path / "large.json").touch()
    os.truncate(large, 10**12)  # a file of holes
    with pytest.raises(CertificateError, match="at most 10,000,000 are read"):
        verify(large)
    (tmp_path / "binary.json").write_bytes(bytes(range(256)))
    with pytest.raises(CertificateError, match="it is not JSON"):
        verify(tmp_path / "binary.json")


def test_a_certificate_too_long_to_be_read(tmp_path: Path) -> None:
    path = tmp_path / "long.json"
    found = certify(RACDeepClaim(3, 3, 4))
    with pytest.raises(CertificateError, match="and a certificate at most 10,000,000: choose smaller sizes"):
        replace(found, found={**found.found, "rank": 9, "more": "9" * 11_000_000}).write(path)
    assert not path.exists()


def test_a_forged_file_does_not_hide_the_next(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = file.with_name("wrong.json")
    wrong.write_text(file.read_text())
    changed(wrong, prime=15)
    assert main(["verify", str(wrong), str(file), "--json"]) == 2
    first, second = json.loads(capsys.readouterr().out)
    assert (first["ok"], second["ok"], second["rank"], second["holds"]) == (False, True, 45, True)


def test_limits_of_a_check(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(file), "--max-side", "80"]) == 2
    assert "max_side is 80" in arguments(capsys.readouterr().err)
    assert main(["verify", str(file), "--max-side", "81"]) == 0


def test_an_empty_file_is_called_so(tmp_path: Path) -> None:
    (tmp_path / "empty.json").touch()
    with pytest.raises(CertificateError, match="it is empty"):
        verify(tmp_path / "empty.json")


def test_the_file_is_made_with_its_folders(tmp_path: Path) -> None:
    """The time is told in thousandths of a second."""
    path = tmp_path / "new" / "folders" / "certificate.json"
    replace(certify(RACDeepClaim(3, 3, 4)), seconds=1.23456).write(path)
    assert json.loads(path.read_text())["seconds"] == 1.235


def test_what_is_quoted_is_short() -> None:
    """80 letters of the file, and 500 of a message."""
    assert (_text("a" * 78), _text("a" * 79)) == (f'"{"a" * 78}"', f'"{"a" * 79}...')


def test_none_are_many() -> None:
    assert [many(count, "layer") for count in (0, 1, 2)] == ["0 layers", "1 layer", "2 layers"]


def test_one_channel_is_no_channels() -> None:
    assert "with 1 channel and 1 mode has" in certify(RACShallowClaim(1, 1, 2)).statement


@pytest.mark.parametrize("content", ["", "[]", "{}", "no JSON", '{"claim": "rac-deep"}'])
def test_not_a_certificate(content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "strange.json"
    path.write_text(content)
    assert main(["verify", str(path)]) == 2
    told = capsys.readouterr()
    assert told.err.count("\n") == 1
    assert "strange.json" in told.err


def arguments(text: str) -> str:
    """A text with flags as the arguments that they set: the library names arguments, the command line flags."""
    return re.sub(r"--([a-z][a-z-]*)", lambda flag: flag[1].replace("-", "_"), text)


WRONG = {
    "rac --steps 7": "steps must be even",
    "rac --modes 0": "modes must be at least 1, got 0",
    "rac --prime 10": "prime must be a prime below 2^31",
    "rac --depth 1 --witness construction": "proved without a construction",
    "rac --witness luck": "unknown witness 'luck'",
    "rac --modes 9 --steps 16": "rac-deep is estimated to need 29,648,3",
    "rac --steps 1000000000": "need more than 10^300 MB",
    "rac --modes 2 --channels 1000000 --steps 4": "raise --max-memory",
    "rac --modes 2 --steps 4 --depth 1000000000": "choose smaller sizes",
    "tt --modes 3 --rank 100000 --steps 4": "choose smaller sizes",
    "rac --max-memory nan": "raise --max-memory",
    "rac --seed 18446744073709551616": "seed must be at most 18,446,744,073,709,551,615",
    "rac --max-side 10": "--max-side is 10",
    "rac-deep --modes 3 --channels 3 --steps 8 --depth 3": "unknown option --depth of engram certify rac-deep",
    "rac-deep --modes 3 --channels 3 --steps 7": "steps must be even",
    "rac-deep": "engram certify rac-deep needs --modes, M (of a tensor train: n)",
    "rac --modes x": "--modes must be a whole number, got 'x'",
    "tt --rank 0": "rank must be at least 1, got 0",
    "atlas --max-side 1": "--max-side must be at least 2, got 1",
    "atlas --prime 15": "prime must be a prime",
    "atlas --max-side 10000000 --max-modes 2 --max-channels 1 --max-depth 1": "choose smaller sizes",
    "atlas --jobs 0": "--jobs must be at least 1, got 0",
    "min-width --task strt-end": "Did you mean 'start-end'?",
    "min-width --task psmnist": "in place of --task give --modes",
    "min-width --depth 0": "depth must be at least 1, got 0",
    "rack": "unknown claim 'rack'",
}


ALIKE = {  # to another one in the table
    "rac --steps 1000000000",
    "rac --modes 2 --channels 1000000 --steps 4",
    "rac --modes 2 --steps 4 --depth 1000000000",
    "rac-deep --modes 3 --channels 3 --steps 7",
    "tt --rank 0",
    "atlas --prime 15",
    "atlas --jobs 0",
    "min-width --depth 0",
}


@pytest.mark.parametrize("words", slow_but(WRONG, WRONG.keys() - ALIKE))
def test_wrong_words(words: str, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["certify", *words.split()]) == 2
    told = capsys.readouterr()
    assert arguments(WRONG[words]) in arguments(told.err)
    assert told.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_from_the_command_line(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = "certify rac --modes 3 --channels 3 --steps 8 --depth 2"
    assert main([*words.split(), "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert [content[name] for name in ("claim", "rank", "bound", "upper", "holds")] == ["rac-deep", 45, 15, 45, True]
    assert main(words.split()) == 0
    out = capsys.readouterr().out
    lines = ("rank found     45", "proven bound   15", "upper bound    45", "shallow value  3", "Almost every")
    assert all(line in out for line in lines)
    assert main(["verify", "rac-deep-3-3-8-3.json", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["ok"]


def test_every_claim_is_listed(capsys: Any) -> None:
    assert main(["list", "claims", "--json"]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)] == list(CLAIMS)
    assert RACShallowClaim(2, 2, 4).sizes() == {"modes": 2, "channels": 2, "steps": 4, "templates": 2}
    assert TTEqualCoresClaim(2, 2, 4).side == 4
