"""What each network of the demo recalls, over its training."""

from pathlib import Path

from engram.figures import MUTED, SERIES, Label, label_right, new_figure, reference


def plot_recall(histories: dict[str, list[float]], chance: float, title: str, path: Path) -> None:
    """Plot the share of symbols recalled after each update, one line per network. SVG or PNG.

    Args:
        histories: network name -> recall after each update, 0 to 1.
        chance: the recall without memory, as a dotted line.
        title: a line above the figure.
        path: a name ending in .svg or .png.
    """
    with new_figure(path, height=3.4, title=title) as figure:
        (axes,) = figure.axes
        labels = [Label(100 * chance, "chance", MUTED)]
        for (name, history), color in zip(histories.items(), SERIES, strict=False):
            recall = [100 * value for value in history]
            axes.plot(range(1, len(recall) + 1), recall, color=color)
            labels.append(Label(recall[-1], name, color))
        reference(axes, 100 * chance)
        axes.set(xlabel="training updates", ylabel="symbols recalled (%)", ylim=(-3, 103))
        axes.margins(x=0.01)
        axes.locator_params(axis="x", integer=True, min_n_ticks=1)
        label_right(axes, labels)
