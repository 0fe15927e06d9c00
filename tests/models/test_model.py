"""The settings of a model: checked when made, the same after a file."""

import json
from pathlib import Path
from typing import Any

import pytest

from engram.errors import DTypeError, OptionError
from engram.models import Model, decisive

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"name": "exprn"}, "unknown model 'exprn'.*Did you mean 'exprnn'"),
    ({"name": 3}, "model must be a name"),
    ({"hidden": 0}, "hidden must be at least 1"),
    ({"hidden": 10**7}, "hidden must be at most 1,000,000"),
    ({"layers": 1.5}, "layers must be a whole number"),
    ({"embedding": -1}, "embedding must be at least 0"),
    ({"readout_bias": "no"}, "readout_bias must be True or False"),
    ({"options": ["dropout"]}, "options must be a dictionary"),
    ({"options": {"droput": 0.1}}, "unknown option 'droput' of exprnn.*Did you mean 'dropout'"),
    ({"name": "lstm", "options": {"proj_sizes": 1}}, "Did you mean 'proj_size'"),
    ({"options": {"hidden_size": 3}}, "option hidden_size is a size"),
    ({"options": {"batch_first": True}}, "option batch_first is for your own programs; a run sets it itself"),
    ({"options": {"dropout": object()}}, "option dropout must be a number, a text or a tuple"),
]


@pytest.mark.parametrize(("values", "message"), WRONG)
def test_what_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises((OptionError, DTypeError), match=message):
        Model(**values)


def test_to_a_file_and_back() -> None:
    model = Model("nnrnn", 64, 2, 10, False, {"activation": "tanh", "dropout": 0.1, "bias": True})
    again = Model.from_dict(json.loads(json.dumps(model.to_dict())))
    assert again == model
    assert Model.from_dict({}) == Model()
    with pytest.raises(OptionError, match=r"unknown setting 'hiden' of .model..*'hidden'"):
        Model.from_dict({"hiden": 3})
    with pytest.raises(DTypeError, match="model must be a table"):
        Model.from_dict(["exprnn"])  # type: ignore[arg-type]


def test_settings_that_came_later_and_change_nothing_are_in_no_hash() -> None:
    """So that runs of before have the hash they had; what does change something is always there."""
    old = {"name": "corelnet", "hidden": 6, "layers": 1, "embedding": None, "readout_bias": True, "options": {}}
    later: dict[str, Any] = {"encoder": "", "context": "off", "l1": 0.0, "l1_on": "codes"}
    assert decisive(old | later) == decisive(old | later | {"encoder": "learned"}) == old
    for change in ({"encoder": "random"}, {"context": "whole"}, {"context": ""}, {"l1": 0.5}, {"l1_on": "weights"}):
        assert decisive(old | later | change) == old | change


def test_lists_of_a_file_are_tuples(tmp_path: Path) -> None:
    path = tmp_path / "wide.py"
    path.write_text(
        "from torch import nn\nclass Wide(nn.Linear):\n"
        "    def __init__(self, input_size, sizes=(1, (2,))):\n        super().__init__(input_size, sizes[0])\n"
    )
    model = Model(f"{path}:Wide", options={"sizes": [3, [4, 5]]})
    assert model.options["sizes"] == (3, (4, 5))
    assert Model.from_dict(json.loads(json.dumps(model.to_dict())), allow=[str(path)]) == model
    assert model.label == "Wide"


def test_a_class_that_takes_any_keyword(tmp_path: Path) -> None:
    """It hands them on to who knows what: whether it likes them shows when it is made."""
    path = tmp_path / "open.py"
    path.write_text(
        "from torch import nn\nclass Open(nn.Module):\n    def __init__(self, input_size, **options): ...\n"
    )
    assert Model(f"{path}:Open", options={"anything": 1}).options == {"anything": 1}


def test_how_wide_a_model_is_unless_said() -> None:
    """128 units; a class that says another number has that one, as in its paper."""
    papers = {"corelnet": 256, "esbn": 512, "transformer": 256, "predinet": 8, "rn": 512, "ntm": 512, "mnm": 128}
    assert {name: Model(name).hidden for name in papers} == papers
    assert {Model(name).hidden for name in ("exprnn", "lstm", "torch-lstm", "tensor-train", "torch.nn:GRU")} == {128}


def test_options_are_a_copy() -> None:
    options = {"dropout": 0.1}
    model = Model(options=options)
    options["dropout"] = 0.9
    assert model.options == {"dropout": 0.1}


def test_a_file_is_named_by_its_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text("from torch import nn\nclass Mine(nn.Linear): pass\n")
    monkeypatch.chdir(tmp_path)
    assert Model("mine.py:Mine").name == f"{(tmp_path / 'mine.py').resolve()}:Mine"


def test_a_name_in_a_file_is_not_imported(tmp_path: Path) -> None:
    path, marker = tmp_path / "evil.py", tmp_path / "marker"
    path.write_text(
        f"from pathlib import Path; Path({str(marker)!r}).touch()\nfrom torch import nn\nclass Evil(nn.Linear): pass\n"
    )
    values = {"name": f"{path}:Evil"}
    for allow in ((), ["evil"], [str(tmp_path)], ["torch"]):
        with pytest.raises(OptionError, match=r"is code outside engram.*--allow "):
            Model.from_dict(values, allow)
    assert not marker.exists()
    Model.from_dict(values, [str(path)])
    assert marker.exists()
