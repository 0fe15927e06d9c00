"""Every claim makes a certificate that can be checked again, and a false number in it is found."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from engram.certify import CLAIMS, Claim, RankClaim, certify, verify
from engram.errors import CertificateError, EngramError
from engram.files import seal as _seal


def make(name: str) -> Claim:
    return CLAIMS[name](**CLAIMS[name].example)


@pytest.fixture(params=CLAIMS)
def file(request: Any, tmp_path: Path) -> Path:
    path = tmp_path / "certificate.json"
    certify(make(request.param), seed=3).write(path)
    return path


def forge(file: Path, content: dict[str, Any]) -> None:
    """As one who knows the seal."""
    content.pop("seal", None)
    file.write_text(json.dumps(content | {"seal": _seal(content)}))


def test_round_trip(file: Path) -> None:
    content = json.loads(file.read_text())
    assert {"claim", "sizes", "prime", "seed", "witness", "holds", "statement", "software"} <= content.keys()
    assert content["holds"] is True
    again = verify(file)
    assert {**again.found} == {name: content[name] for name in again.found}
    assert [path.name for path in file.parent.iterdir()] == ["certificate.json"]  # nothing half written is left


def test_a_flipped_byte_is_found(file: Path) -> None:
    content = file.read_bytes()
    for place in range(0, len(content), 41):
        if not chr(content[place]).isspace():
            file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
            with pytest.raises(CertificateError):
                verify(file)


def test_every_false_number_is_found(file: Path) -> None:
    found = dict(verify(file).found)
    content = json.loads(file.read_text())
    for name in [*found, "holds", "statement"]:
        forge(file, content | {name: _other(content[name])})
        with pytest.raises(CertificateError, match=f"{name} is "):
            verify(file)


def test_a_changed_size_is_found(file: Path) -> None:
    """By the first number that another size gives, which is asked of the claim itself; or by the rule it breaks."""
    content = json.loads(file.read_text())
    kind = CLAIMS[content["claim"]]
    for name, size in content["sizes"].items():
        sizes = content["sizes"] | {name: size + 2}
        forge(file, content | {"sizes": sizes})
        try:
            right = certify(kind(**sizes), seed=content["seed"]).to_dict()
        except EngramError as error:
            told = str(error)
        else:
            wrong = next(key for key in right if key != "sizes" and right[key] != content[key])
            told = f"{wrong} is "
            assert wrong not in ("software", "seconds", "seal")
        with pytest.raises(CertificateError, match=re.escape(f"{file}: {told}")):
            verify(file)


OLD = Path(__file__).with_name("certificates_of_version_1.jsonl")


@pytest.mark.parametrize("line", OLD.read_text().splitlines(), ids=lambda line: json.loads(line)["claim"])
def test_certificates_of_earlier_versions_stay_valid(line: str, tmp_path: Path) -> None:
    """Written by engram 0.1.0: the same claims, seeds and numbers, and the same words."""
    (path := tmp_path / "old.json").write_text(line)
    assert verify(path).to_dict()["statement"] == json.loads(line)["statement"]


def test_every_claim_has_an_earlier_certificate() -> None:
    lines = [json.loads(line) for line in OLD.read_text().splitlines()]
    assert {line["claim"] for line in lines} == CLAIMS.keys()
    assert {line["witness"] for line in lines} == {"random", "construction"}


def _other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, list):
        return [_other(value[0]), *value[1:]]
    return f"{value}1"


def test_a_claim_about_a_rank_says_the_same_as_before() -> None:
    claim = make("rac-deep")
    assert isinstance(claim, RankClaim)
    content = certify(claim).to_dict()
    names = ["version", "claim", "sizes", "prime", "seed", "witness", "matrix", "rank", "bound", "upper", "holds"]
    assert list(content)[: len(names)] == names


def test_all_of_it_or_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk at the last moment."""
    path = tmp_path / "certificate.json"
    certify(make("delay")).write(path)
    before = path.read_bytes()

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CertificateError, match=r"certificate\.json could not be written: No space left on device"):
        certify(make("flat")).write(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_an_unknown_witness() -> None:
    with pytest.raises(EngramError, match="unknown witness 'construction': expected one of random"):
        certify(make("delay"), witness="construction")


def test_the_same_seed_the_same_numbers() -> None:
    claim = make("state-tracking")
    assert certify(claim, seed=1).found == certify(claim, seed=1).found != certify(claim, seed=2).found
