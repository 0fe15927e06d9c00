"""Settings as the text of a TOML file."""

import json
import math
from typing import Any


def to_toml(values: dict[str, Any], table: str = "") -> str:
    """A dict as TOML: plain values, then tables; lists of dicts as arrays of tables. None is left out,
    but for an option of a model, whose default may be another.

    >>> print(to_toml({"seed": 0, "model": {"name": "lstm", "options": {"bias": False}}}), end="")
    seed = 0
    <BLANKLINE>
    [model]
    name = "lstm"
    <BLANKLINE>
    [model.options]
    bias = false
    """
    plain, tables = "", ""
    for name, value in values.items():
        path = f"{table}.{_key(name)}" if table else _key(name)
        if isinstance(value, dict):
            tables += f"\n[{path}]\n{to_toml(value, path)}" if value else ""
        elif isinstance(value, list | tuple) and value and all(isinstance(each, dict) for each in value):
            tables += "".join(f"\n[[{path}]]\n{to_toml(each, path)}" for each in value)
        elif value is not None or table == "model.options":  # None in place of another default
            plain += f"{_key(name)} = {_value(value)}\n"
    return plain + tables


def _key(name: str) -> str:
    return name if name.replace("_", "a").replace("-", "a").isalnum() and name.isascii() else _text(name)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return _text(str(value))


def _text(text: str) -> str:
    """JSON's strings are TOML's, but for one character that TOML wants escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
