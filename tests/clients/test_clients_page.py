"""The programs of docs/clients.md: each is run as a reader would, and says that it learned and was restored."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "clients.md"
PROGRAMS = dict(re.findall(r"^## (.+?)\n.*?```python\n(.*?)```", PAGE.read_text(), re.DOTALL | re.MULTILINE))

# The packages that a program needs, and what it prints: the numbers in it, and a rule for them.
EXPECTED = {
    "Lightning": (
        ["lightning"],
        [
            (r"^loss after two processes: ([\d.]+)$", lambda loss: float(loss) < 0.3),  # chance: log 2 = 0.69
            (r"^loaded is saved: (\w+)$", lambda same: same == "True"),
            (r"^loss at epoch 3: ([\d.]+)$", lambda loss: float(loss) < 0.1),  # it went on from there
        ],
    ),
    "Stable-Baselines3": (
        ["gymnasium", "sb3_contrib"],
        [
            (
                r"^reward before: (-?[\d.]+)$",
                lambda reward: float(reward) < 0.6,
            ),  # chance: 0, give or take 4 / sqrt(50)
            (r"^reward after training, saving and loading: ([\d.]+)$", lambda reward: float(reward) > 0.9),
        ],
    ),
    "skorch": (
        ["skorch", "sklearn"],
        [
            (r"^accuracy ([\d.]+) with .*'lr': 0.02", lambda accuracy: float(accuracy) > 0.8),  # chance: 0.5
            (r"^pickled is the same: (\w+)$", lambda same: same == "True"),
        ],
    ),
    "accelerate": (
        ["accelerate"],
        [
            (r"^loss ([\d.]+)$", lambda loss: float(loss) < 0.2),  # chance: 0.69
            (r"^loaded is saved: (\w+)$", lambda same: same == "True"),
        ],
    ),
}


def test_every_program_is_run() -> None:
    assert set(PROGRAMS) == set(EXPECTED)
    assert PAGE.read_text().count("```python") == len(PROGRAMS)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPECTED)
def test_program(name: str, tmp_path: Path) -> None:
    packages, lines = EXPECTED[name]
    for package in packages:
        pytest.importorskip(package)
    (tmp_path / "program.py").write_text(PROGRAMS[name])
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    for pattern, holds in lines:
        found = re.search(pattern, done.stdout, re.MULTILINE)
        assert found, f"{pattern} is not in: {done.stdout}"
        assert holds(found[1]), found[0]
