"""The README and the pages of docs/ are true: their code runs, their commands and links exist."""

import re
from pathlib import Path

import pytest

from engram.maps import orthogonality_error

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def run_blocks(page: Path) -> tuple[int, dict[str, object]]:
    """One reader, one session: later blocks use what earlier ones defined."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page.name, "exec"), names)
    return len(blocks), names


def test_code_of_the_readme_runs() -> None:
    count, names = run_blocks(PAGES[0])
    assert count >= 4
    assert orthogonality_error(names["linear"].weight.detach()) < 1e-5  # type: ignore[attr-defined]


ELSEWHERE = {"clients.md", "models.md"}  # run by tests/clients and tests/models
BLOCKS = {
    "attention.md": 5,
    "baselines.md": 3,
    "interop.md": 6,
    "runs.md": 1,
    "spectral.md": 2,
}  # at least so many; other pages may have none


@pytest.mark.parametrize("page", [page for page in PAGES[1:] if page.name not in ELSEWHERE], ids=lambda page: page.name)
def test_code_of_the_docs_runs(page: Path) -> None:
    """But for the programs of clients.md, which need other packages, and models.md, which has files."""
    assert run_blocks(page)[0] >= BLOCKS.get(page.name, 0)


def test_pages_with_code_are_there() -> None:
    assert {page.name for page in PAGES} >= BLOCKS.keys()


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="beside the tests of the wheel stands only part of the tree")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_exist(page: Path) -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []
    if page.name == "README.md":
        assert len(links) >= 4


@pytest.mark.skipif(not (ROOT / "Makefile").exists(), reason="tests of the wheel run without the Makefile")
def test_make_targets_exist() -> None:
    targets = re.findall(r"^make ([a-z-]+)", PAGES[0].read_text(), re.MULTILINE)
    assert {"demo", "test"} <= set(targets)
    makefile = (ROOT / "Makefile").read_text()
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)
