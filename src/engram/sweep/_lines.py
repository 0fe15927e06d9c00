"""Where a name stands in a TOML file, which tomllib does not tell."""

import re
from collections.abc import Iterable

HEADER = re.compile(r"^\s*\[\[?\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
KEY = re.compile(r"""^\s*(["']?)([\w.\-]+)\1\s*=""")


def line_of(text: str, table: str, name: str, place: int = 0) -> int:
    """The number of the line, from 1, where ``name`` is set in ``[table]``; 0 if it is not found.

    Args:
        table: "" for the names before the first table.
        place: which one, of tables in a list (``[[list]]``).

    >>> line_of("[base]\\nsteps = 3\\n[[list]]\\nlr = 1\\n[[list]]\\nlr = 2", "list", "lr", 1)
    6
    """
    current, seen = "", {"": 0}
    for number, line in enumerate(text.splitlines(), 1):
        if header := HEADER.match(line):
            current = header[1]
            seen[current] = seen.get(current, -1) + 1
            if table == "" and current.split(".")[0].strip("\"'") == name:
                return number
        elif current == table and seen[current] == place and (key := KEY.match(line)) and key[2] == name:
            return number
    inline = re.compile(rf"""(?<![\w-])["']?{re.escape(name)}["']?\s*=""")
    return next((number for number, line in enumerate(text.splitlines(), 1) if inline.search(line)), 0)


def line_of_setting(text: str, names: Iterable[str], message: str) -> int:
    """The line of the setting that a message is about; 0 if it stands nowhere, or in several lines.

    >>> line_of_setting("[base]\\nsteps = 3\\nhiden = 4", ["steps", "hiden"], "unknown setting 'hiden'")
    3
    """
    for name in names:
        if message.startswith((f"{name} ", f"unknown {name} ")) or f" {name!r}" in message.partition(":")[0]:
            spelled = re.escape(name).replace("_", "[_-]")
            place = re.compile(rf"""^[^#]*?(?<![\w-])(["']?{spelled}["']?\s*=|over\s*=\s*["']{spelled}["'])""")
            lines = [number for number, line in enumerate(text.splitlines(), 1) if place.match(line)]
            return lines[0] if len(lines) == 1 else 0
    return 0
