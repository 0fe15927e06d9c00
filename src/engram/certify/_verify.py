"""Checking a certificate file again, whoever sent it."""

import json
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

from engram.certify._certificate import LONGEST, SOFTWARE, VERSION, Certificate, certify
from engram.certify._claim import Claim
from engram.certify._registry import CLAIMS
from engram.errors import CertificateError, EngramError, FileError, check_choice
from engram.files import printable, read_json, unseal
from engram.places import free_memory

MESSAGE = 500
"""The most characters of a message, which may quote the file."""


def verify(
    path: Path | str, *, max_side: int | None = None, max_memory: float | None = None, max_seconds: float = 60
) -> Certificate:
    """Check a certificate: its seal, and its numbers, which are computed again from the seed.

    Args:
        path: of the file, which may come from anyone.
        max_side: the most rows of a matrix; default: no limit.
        max_memory: in MB; default: 2000, or the free memory if that is less.
        max_seconds: default: a minute.

    Raises :class:`CertificateError`, which says what is wrong.
    """
    memory = min(2000, free_memory()) if max_memory is None else max_memory
    try:
        content = _read(Path(path))
        claim = _claim(content)
        asked = {name: content[name] for name in ("witness", "seed", "prime")}
        found = certify(claim, **asked, max_side=max_side, max_memory=memory, max_seconds=max_seconds)
        _compare(content, found.to_dict())
    except OSError as error:
        raise CertificateError(f"{path}: {error.strerror}") from None
    except EngramError as error:
        raise CertificateError(f"{path}: {printable(str(error)[:MESSAGE])}") from None
    return found


def _read(path: Path) -> dict[str, Any]:
    """The content without its seal; an error if it is not a certificate of this version."""
    try:
        content = read_json(path, LONGEST)
    except FileError as error:
        raise CertificateError(f"it is not a certificate: {error}") from None
    if not isinstance(content, dict) or "claim" not in content:
        raise CertificateError("it is not a certificate: it names no claim")
    if content.get("version") != VERSION or content["version"] is True:
        raise CertificateError(
            f"it is of version {_text(content.get('version'))}; this engram checks version {VERSION}"
        )
    return unseal(content)


def _claim(content: dict[str, Any]) -> Claim:
    """The claim at the sizes of the file, which must name all sizes and no others."""
    _check_names("it", content, ("sizes", "prime", "seed", "witness", "software", "seconds"), others=True)
    for name in ("claim", "witness"):
        if not isinstance(content[name], str) or len(content[name]) > 60:
            raise CertificateError(f"{name} must be a short text, got {_text(content[name])}")
    kind = CLAIMS[check_choice("claim", content["claim"], CLAIMS)]
    _check_names("sizes", content["sizes"], [field.name for field in fields(kind)])
    _check_names("software", content["software"], SOFTWARE)
    if not all(isinstance(version, str) for version in content["software"].values()):
        raise CertificateError(f"the versions in software must be texts, got {_text(content['software'])}")
    if type(content["seconds"]) not in (int, float) or content["seconds"] < 0:
        raise CertificateError(f"seconds must be a number of 0 or more, got {_text(content['seconds'])}")
    return kind(**content["sizes"])


def _check_names(what: str, values: Any, names: Iterable[str], others: bool = False) -> None:
    """Raise an error unless ``values`` is a JSON object with these names, and no other ones unless ``others``."""
    if not isinstance(values, dict):
        raise CertificateError(f"{what} must be an object with {', '.join(names)}, got {_text(values)}")
    if missing := {*names} - {*values}:
        raise CertificateError(f"{what} has no {', '.join(sorted(missing))}")
    if not others and (unknown := {*values} - {*names}):
        raise CertificateError(f"{what} has an unknown field {_text(min(unknown))}: expected {', '.join(names)}")


def _compare(content: dict[str, Any], found: dict[str, Any]) -> None:
    """Raise an error if the file says anything else than what was found."""
    _check_names("it", content | {"seal": ""}, found)
    for name, value in found.items():
        # As JSON texts: in Python 45.0 == 45 and 1 == True.
        if name not in ("seconds", "software", "seal") and json.dumps(content[name]) != json.dumps(value):
            raise CertificateError(f"{name} is {_text(content[name])}, found {_text(value)}")


def _text(value: Any) -> str:
    """The beginning of a value as the file has it."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:80]}..."
