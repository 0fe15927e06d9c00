"""The page of a profile: words, figure and numbers in one file."""

import json
from html import escape
from pathlib import Path

from engram.figures import DARK, FAINT, INK, MUTED, PAPER, RED, svg_text
from engram.files import write_whole
from engram.probe import NotMeasured, Profile

COLORS = {"paper": PAPER, "ink": INK, "muted": MUTED, "faint": FAINT, "warning": RED}
STYLE = (
    f":root {{ color-scheme: light dark; {''.join(f'--{name}: {color}; ' for name, color in COLORS.items())}}}"
    f"@media (prefers-color-scheme: dark) "
    f"{{ :root {{ {''.join(f'--{name}: {DARK[color]}; ' for name, color in COLORS.items())}}} }}"
    """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem; }
body { color: var(--ink); background: var(--paper); }
h1 { font-size: 1.4rem; margin-bottom: 0; } .about { margin-top: 0; } .about, .none { color: var(--muted); }
.note { color: var(--warning); }
table { border-collapse: collapse; } th, td { text-align: left; padding: .2rem .8rem .2rem 0; vertical-align: top; }
svg { width: 100%; height: auto; }
pre { overflow: auto; border: 1px solid var(--faint); padding: 1rem; max-height: 30rem; }
"""
)


def probe_page(*profiles: Profile) -> str:
    """One self-contained HTML page: for each profile its words, its figure and its numbers as JSON.

    Several profiles are first compared in a table, one column per model.
    """
    title = escape(", ".join(each.name for each in profiles))
    table = _table(profiles) if len(profiles) > 1 else ""
    sections = "\n".join([table, *(_section(number, each) for number, each in enumerate(profiles))])
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>Memory of {title}</title><style>{STYLE}</style></head>\n<body>\n{sections}\n</body></html>\n"
    )


def write_probe_page(path: Path, *profiles: Profile) -> None:
    """Write :func:`probe_page` to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, probe_page(*profiles).encode())


def _table(profiles: tuple[Profile, ...]) -> str:
    """One column per model, one row per part."""
    columns = [each.summary() for each in profiles]
    table = [["", *(each.name for each in profiles)]]
    for name in dict.fromkeys(name for column in columns for name in column):
        table.append([name, *(column.get(name, "-") for column in columns)])
    rows = []
    for number, (first, *others) in enumerate(table):
        tag = "td" if number else "th"
        rows.append(f"<tr><th>{escape(first)}</th>{''.join(f'<{tag}>{escape(each)}</{tag}>' for each in others)}</tr>")
    return f"<table>{''.join(rows)}</table>"


def _section(number: int, profile: Profile) -> str:
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
        f"{''.join(rows)}\n{_svg(number, profile)}\n<details><summary>numbers</summary><pre>{numbers}</pre></details>"
    )


def _svg(number: int, profile: Profile) -> str:
    """The figure without the head of an SVG file, to stand inside a page."""
    whole = svg_text(profile.figure(), salt=f"{number} {profile.name}")
    return whole[whole.index("<svg") :]
