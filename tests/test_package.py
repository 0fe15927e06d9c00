"""The package as a whole: one version, what ships, what must never be written down."""

import importlib
import inspect
import re
import subprocess
import sys
import tomllib
from dataclasses import fields, is_dataclass
from importlib import metadata, resources
from pathlib import Path

import pytest
from docstring_parser import parse_from_object

import engram

ROOT = Path(__file__).parents[1]
SOURCE = Path(engram.__file__).parent

# Written with [] so that this file does not match itself.
REGISTRY_HOST = r"pypi[.]org|pythonhoste[d]|download[.]pytorch|pypi-mor[e]"
MACHINE_PATH = r"(?<![\w.\-])/(wor[k]|roo[t]|op[t]|hom[e])(?![\w\-])"
FORBIDDEN = re.compile(f"{REGISTRY_HOST}|{MACHINE_PATH}")


def test_version_has_one_source() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert metadata.version("engram") == project["version"] == engram.__version__
    for source in Path(engram.__file__).parent.rglob("*.py"):
        assert project["version"] not in source.read_text(), f"version repeated in {source.name}"


def test_citation_has_the_same_version() -> None:
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited is not None
    assert cited[1] == metadata.version("engram")


def test_every_package_can_be_asked_for() -> None:
    rooms = [file.parent.name for file in Path(engram.__file__).parent.glob("*/__init__.py")]
    assert len(rooms) > 15
    for room in {*rooms} - {"cli"}:
        assert getattr(engram, room).__name__ == f"engram.{room}"


def test_types_ship() -> None:
    assert resources.files("engram").joinpath("py.typed").is_file()


def test_torch_is_pinned() -> None:
    assert "torch==2.13.0" in (ROOT / "constraints.txt").read_text().splitlines()


WRITTEN_DOWN = ["pypi" + ".org/simple", "cd /" + "work", "file:///" + "opt/x"]


@pytest.mark.parametrize("text", WRITTEN_DOWN)
def test_forbidden_finds(text: str) -> None:
    assert FORBIDDEN.search(text)


def test_no_registry_or_machine_path_is_written_down() -> None:
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = [ROOT / name for name in names.split("\0") if name]
    assert ROOT / "pyproject.toml" in files
    for file in files:
        if file.is_file():  # a tracked file may be deleted and not yet committed
            found = FORBIDDEN.search(file.read_text(errors="ignore"))
            assert found is None, f"{file.relative_to(ROOT)} names {found[0]!r}"


def test_rooms_come_when_they_are_asked_for() -> None:
    """In a fresh process, where nothing else has imported them; from below, so that none brings the next one along."""
    rooms = ["tasks", "train", "convert", "certify", "probe", "report", "bench"]
    code = f"""
import engram, sys
for room in {rooms}:
    assert f"engram.{{room}}" not in sys.modules, f"engram.{{room}} is there before it is asked for"
    assert getattr(engram, room).__all__
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_layer_needs_few_imports() -> None:
    """torch._dynamo takes longer to import than torch itself, and scipy than engram.nn: a first call needs neither."""
    code = """
import sys
import torch
before = set(sys.modules)
from engram.nn import LSTM
LSTM(2, 3)(torch.randn(4, 2, 2))[0].sum().backward()
slow = {"torch._dynamo", "torch._inductor", "sympy", "scipy", "matplotlib"} & (set(sys.modules) - before)
assert not slow, slow
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def public_records() -> list[type]:
    """All dataclasses and named tuples that a room shows."""
    rooms = [importlib.import_module(f"engram.{file.parent.name}") for file in sorted(SOURCE.glob("*/__init__.py"))]
    shown = [getattr(room, name) for room in rooms for name in getattr(room, "__all__", ())]
    ours = {each for each in shown if isinstance(each, type) and each.__module__.startswith("engram.")}
    return sorted((each for each in ours if field_names(each)), key=lambda kind: (kind.__module__, kind.__name__))


def field_names(kind: type) -> tuple[str, ...]:
    found = tuple(each.name for each in fields(kind)) if is_dataclass(kind) else getattr(kind, "_fields", ())
    return tuple(name for name in found if not name.startswith("_"))


def test_every_field_of_a_public_record_is_explained() -> None:
    records = public_records()
    assert len(records) > 100
    silent = []
    for kind in records:
        bases = [base for base in kind.__mro__ if base.__module__.startswith("engram.")]
        said = {each.arg_name for base in bases for each in parse_from_object(base).params if each.description}
        text = " ".join(inspect.getdoc(base) or "" for base in bases)
        names = [name for name in field_names(kind) if name not in said and not re.search(rf"\b{name}\b", text)]
        silent += [f"{kind.__module__}.{kind.__name__}.{name}" for name in names]
    assert silent == []
