"""The figure and the page of several runs: from one to fifty, with seeds, ends and tasks of any kind."""

from pathlib import Path

import pytest

from engram.errors import RunError
from engram.report import compare_page, plot_compare, write_text
from engram.report._compare import compare_figure
from engram.runs import compare_runs
from made_runs import make_run
from tiers import slow_but


def many(out: Path, count: int, seeds: int) -> list[Path]:
    return [
        make_run(out / f"r{k}", validations=8, hidden=16 + k // seeds, seed=k % seeds, accuracy=0.2 + 0.7 * k / count)
        for k in range(count)
    ]


@pytest.mark.parametrize(
    ("count", "seeds"), slow_but([(1, 1), (2, 1), (6, 3), (50, 10), (50, 1), (7, 1)], [(6, 3), (50, 1)])
)
def test_readable(count: int, seeds: int, tmp_path: Path) -> None:
    found = compare_runs(many(tmp_path / "runs", count, seeds))
    assert len(found.groups) == count // seeds
    plot_compare(found, tmp_path / "figure.svg")
    text = (tmp_path / "figure.svg").read_text()
    assert "prefers-color-scheme: dark" in text


def test_two_tasks_one_step_and_an_end(tmp_path: Path) -> None:
    runs = [
        make_run(tmp_path / "copy", validations=1),
        make_run(tmp_path / "adding", task="adding", metric="mse"),
        make_run(tmp_path / "bad", status="failed", diverged=True, results=..., seed=1),
        make_run(tmp_path / "long", model="a" * 300, hidden=99),
    ]
    (tmp_path / "empty").mkdir()
    plot_compare(compare_runs(runs), tmp_path / "figure.svg")


def test_a_level_without_memory_is_of_one_task(tmp_path: Path) -> None:
    """That of copy means nothing to a run of adding: with both there is none."""
    copy, adding = make_run(tmp_path / "copy"), make_run(tmp_path / "adding", task="adding", memoryless_baseline=0.17)
    levels = []
    for runs in ([copy], [adding], [copy, adding]):
        with compare_figure(compare_runs(runs), None) as figure:
            dotted = [line for axes in figure.axes for line in axes.lines if line.get_linestyle() == ":"]
            levels.append([line.get_ydata()[0] for line in dotted])
    assert levels == [[0.83, 0.125], [0.17, 0.125], []]


def test_nothing_to_plot(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", validations=0)
    with pytest.raises(RunError, match="no metrics yet"):
        plot_compare(compare_runs([run]), tmp_path / "figure.svg")
    assert not (tmp_path / "figure.svg").exists()
    assert "no metrics yet" in compare_page(compare_runs([run]))


def test_a_page_of_one_run(tmp_path: Path) -> None:
    """What the run is, in words; what is not known is left empty."""
    run = make_run(tmp_path / "run", validations=3, seed=4)
    page = compare_page(compare_runs([run]))
    assert "<title>A run</title>" in page
    assert "<h1>A run</h1>" in page
    row = compare_runs([run]).groups[0].runs[0].row
    shown = [f"{value:.5g}" if isinstance(value, float) else str(value) for value in
             (row.score, row.loss, row.step, row.seconds)]  # fmt: skip
    cells = "".join(f"<td>{text}</td>" for text in ("1", str(run), "4", row.status, *shown))
    assert f"<tr>{cells}</tr>" in page
    assert "2 runs compared" in compare_page(compare_runs(many(tmp_path, 2, 2)))


def test_a_text_is_written_whole(tmp_path: Path) -> None:
    """In a folder that is made; letters of file names that UTF-8 lacks by their numbers."""
    write_text(tmp_path / "new" / "folder" / "page.html", "é \udcff")
    assert (tmp_path / "new" / "folder" / "page.html").read_bytes() == "é \\udcff".encode()
    assert [path.name for path in (tmp_path / "new" / "folder").iterdir()] == ["page.html"]


def test_page(tmp_path: Path) -> None:
    """Names of strangers stay text, and nothing is loaded from elsewhere."""
    runs = [*many(tmp_path, 4, 2), make_run(tmp_path / "<script>alert(1)<", model="<b>&x")]
    page = compare_page(compare_runs(runs))
    assert "<script" not in page
    assert "<b>" not in page
    assert "&lt;b&gt;&amp;x" in page
    assert "prefers-color-scheme: dark" in page
    assert page.count("<svg") == 1
    assert 'src="' not in page
    assert "@import" not in page
    assert page.count("<tr>") == 1 + 3 + 1 + 5
    assert page == compare_page(compare_runs(runs))
