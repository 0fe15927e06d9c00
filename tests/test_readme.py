"""The README is true: its code runs, its commands and links exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"


def test_code_blocks_run() -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(blocks) >= 3
    names: dict[str, object] = {}  # one reader, one session: later blocks use what earlier ones defined
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    linear = names["linear"]
    assert names["engram"].maps.orthogonality_error(linear.weight.detach()) < 1e-5


def test_links_exist() -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", README.read_text()) if "://" not in link]
    assert len(links) >= 4
    missing = [link for link in links if not (ROOT / link).exists()]
    if (ROOT / ".git").exists():  # the wheel's copy of the tests has only part of the tree beside it
        assert not missing


@pytest.mark.skipif(not (ROOT / "Makefile").exists(), reason="tests of the wheel run without the Makefile")
def test_make_targets_exist() -> None:
    targets = re.findall(r"^make ([a-z-]+)", README.read_text(), re.MULTILINE)
    assert {"demo", "test"} <= set(targets)
    makefile = (ROOT / "Makefile").read_text()
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)
