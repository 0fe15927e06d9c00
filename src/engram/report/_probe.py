"""The page of a profile: words, picture and numbers in one file."""

import io
import json
from html import escape
from pathlib import Path

from engram.files import write_whole
from engram.probe import NotMeasured, Profile

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem; color: #222; }
h1 { font-size: 1.4rem; margin-bottom: 0; } .about { color: #666; margin-top: 0; }
.none { color: #888; } .note { color: #b04a3a; }
table { border-collapse: collapse; } th, td { text-align: left; padding: .2rem .8rem .2rem 0; vertical-align: top; }
svg { width: 100%; height: auto; } pre { overflow: auto; background: #f6f6f6; padding: 1rem; max-height: 30rem; }
"""


def probe_page(*profiles: Profile) -> str:
    """One self-contained HTML page: of each profile what it says, its picture, and its numbers as JSON.

    Several stand in a table first, side by side.
    """
    title = escape(", ".join(each.name for each in profiles))
    sections = "\n".join([_table(profiles) if len(profiles) > 1 else "", *map(_section, profiles)])
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>Memory of {title}</title><style>{STYLE}</style></head>\n<body>\n{sections}\n</body></html>\n"
    )


def write_probe_page(path: Path, *profiles: Profile) -> None:
    """The page as a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, probe_page(*profiles).encode())


def _table(profiles: tuple[Profile, ...]) -> str:
    """One column a model, one row a part."""
    columns = [each.summary() for each in profiles]
    table = [["", *(each.name for each in profiles)]]
    for name in dict.fromkeys(name for column in columns for name in column):
        table.append([name, *(column.get(name, "-") for column in columns)])
    rows = []
    for number, (first, *others) in enumerate(table):
        tag = "td" if number else "th"
        rows.append(f"<tr><th>{escape(first)}</th>{''.join(f'<{tag}>{escape(each)}</{tag}>' for each in others)}</tr>")
    return f"<table>{''.join(rows)}</table>"


def _section(profile: Profile) -> str:
    rows = [
        f"<p class='{'none' if isinstance(part, NotMeasured) else 'part'}'>{escape(part.words())}</p>"
        for part in profile.parts.values()
    ]
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in profile.notes)
    numbers = escape(json.dumps(profile.to_dict(), indent=1), quote=False)
    return (
        f'<h1>{escape(profile.name)}</h1>\n<p class="about">{escape(profile.model)}; {profile.length} steps; '
        f"{escape(profile.cost.words())} expected, {profile.seconds:.1f} s taken</p>\n"
        f"<p><strong>{escape(profile.verdict)}</strong></p>\n{notes}\n"
        f"{''.join(rows)}\n{_svg(profile)}\n<details><summary>numbers</summary><pre>{numbers}</pre></details>"
    )


def _svg(profile: Profile) -> str:
    """The picture without the head of an SVG file, to stand inside a page."""
    from matplotlib import rc_context  # slow to import, and only needed here

    written = io.StringIO()
    with rc_context({"svg.hashsalt": profile.name}):  # two pictures on one page must not share names
        profile.figure().savefig(written, format="svg", metadata={"Date": None})
    whole = written.getvalue()
    return whole[whole.index("<svg") :]
