"""docs/models.md is true: its files are written, its code runs, its commands name what is there. So is the task of
docs/tasks.md."""

import re
from pathlib import Path

import pytest
import torch

from engram.models import MODELS, MeanOverTime, Model, make_network
from engram.tasks import make_task

PAGE = Path(__file__).parents[2] / "docs" / "models.md"
TEXT = PAGE.read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
FILES = {match[1]: block for block in BLOCKS if (match := re.match(r"# (\w+\.py)\n", block))}


def test_a_model_is_one_short_file() -> None:
    """At most 30 lines of code and two files: the model, and its line in the registry."""
    (entry,) = [block for block in BLOCKS if "MODELS[" in block]
    assert len(FILES) == 1
    code = [line for block in (*FILES.values(), entry) for line in block.splitlines() if line.strip()]
    assert len(code) <= 30


def test_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, block in FILES.items():
        Path(name).write_text(block)
    names: dict[str, object] = {}
    try:
        for block in BLOCKS:
            if block not in FILES.values():
                exec(compile(block, PAGE.name, "exec"), names)
        assert {*MODELS["window"].options} == {"reach"}
    finally:
        MODELS.pop("window", None)
    assert names["outputs"].shape == (1, 4, 1)  # type: ignore[attr-defined]
    assert isinstance(names["network"].head, MeanOverTime)  # type: ignore[attr-defined]
    named = re.findall(r"--model (\S+:\w+)", TEXT)
    assert named
    for name in named:
        Model(name)


def test_the_task_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most 30 lines in one file; it samples, is answered and scored."""
    (block,) = re.findall(r"```python\n(# mytask.py\n.*?)```", (PAGE.parent / "tasks.md").read_text(), re.DOTALL)
    assert len([line for line in block.splitlines() if line.strip()]) <= 30
    monkeypatch.chdir(tmp_path)
    Path("mytask.py").write_text(block)
    task = make_task("mytask.py:FirstSign", length=7)
    assert task.name == "FirstSign"
    network = make_network(task, Model("exprnn", hidden=8))
    batch = task.batches("valid", 16, size=16)[0]
    outputs, _ = network(batch.inputs)
    assert outputs.shape == (1, 16, 2)
    assert 0 < task.loss(outputs, batch).item() < 5
    right = torch.nn.functional.one_hot((batch.inputs[:1, :, 0] > 0).long(), 2).float()
    assert task.metrics(right, batch) == {"accuracy": 1.0}
