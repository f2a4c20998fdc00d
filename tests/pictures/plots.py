"""`.venv/bin/python -m tests.pictures.plots`: draws the plots of docs/benchmarks.md from the data beside them.

It starts itself again in an environment with matplotlib: that of requirements-plots.lock.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any

from tests.pictures import measured
from tests.pictures.measured import FOLDER, KEY, PLOTS, ROOT, Measured

LOCK = ROOT / "requirements-plots.lock"
PACKAGES = ROOT / ".trainstack" / "plots"
WIDTH, HEIGHT, DPI = 8.0, 4.2, 150
BLUE, ORANGE, GREEN, GREY = "#0072b2", "#d55e00", "#009e73", "#59636e"
"""Okabe and Ito's colours, which those who see no red or green tell apart: https://jfly.uni-koeln.de/color/"""
LINE_HEIGHT = 0.06
"""Of a line of text, as a part of the axes' height."""
STYLE = {
    "font.size": 11,
    "axes.titlesize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.grid": True,
    "grid.color": "#e1e4e8",
    "axes.axisbelow": True,
    "lines.linewidth": 2,
    "lines.markersize": 6,
    "legend.frameon": False,
}


def draw(folder: Path = FOLDER) -> list[Path]:
    """Draw every plot whose data are all in `folder`, into it. Raises SetupError where matplotlib cannot be had."""
    if not importlib.util.find_spec("matplotlib"):
        from toolchain.tools import venv

        python = venv.ensure_beside(PACKAGES, LOCK) / "python"
        command = [str(python), "-m", "tests.pictures.plots", str(folder)]
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    else:
        _draw(folder)
    return [folder / f"{plot}.png" for plot in PLOTS if _has_data(plot, folder)]


def _has_data(plot: str, folder: Path) -> bool:
    return all(file.exists() for file in measured.files(plot, folder))


def _draw(folder: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update(STYLE)
    from matplotlib import pyplot

    for plot, drawn in DRAWN.items():
        if not _has_data(plot, folder):
            continue
        figure = pyplot.figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        drawn(figure, *map(measured.read, measured.files(plot, folder)))
        about = {"Software": None, KEY: measured.digest(plot, folder)}
        figure.savefig(folder / f"{plot}.png", dpi=DPI, metadata=about)
        pyplot.close(figure)


def by(rows: Iterable[dict[str, Any]], key: str) -> dict[Any, list[dict[str, Any]]]:
    """The rows by what they say of `key`, in their order."""
    found: defaultdict[Any, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        found[row[key]].append(row)
    return dict(found)


def plain(axis: Any, values: Iterable[float]) -> None:
    """Ticks at `values` alone, written out."""
    shown = sorted(set(values))
    axis.set_ticks(shown, [f"{value:,g}" for value in shown])
    axis.set_minor_locator(_matplotlib_ticker().NullLocator())


def _matplotlib_ticker() -> Any:
    from matplotlib import ticker

    return ticker


def label_ends(axes: Any, ends: list[tuple[float, float, str, str]]) -> None:
    """Write each line's name beside its last point, instead of a legend; no two names lie over each other.

    Parameters:
        ends: x and y of the last point, name, colour.
    """
    bottom, top = axes.get_ylim()
    least = (top / bottom) ** LINE_HEIGHT
    below = 0.0
    for x, y, name, colour in sorted(ends, key=lambda end: end[1]):
        place = max(y, below * least)
        below = place
        axes.annotate(
            name,
            (x, place),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            color=colour,
            annotation_clip=False,
        )


SCALE = {
    "up": ("up", BLUE, "o-"),
    "destroy": ("destroy", ORANGE, "s-"),
    "kubectl apply, until all have ended": ("kubectl apply and wait", BLUE, "o--"),
    "kubectl delete": ("kubectl delete", ORANGE, "s--"),
    "up, no change": ("up, no change", GREEN, "^-"),
}


def scale(figure: Any, found: Measured) -> None:
    axes = figure.add_subplot()
    steps, ends = by(found.rows, "step"), []
    for step, (name, colour, line) in SCALE.items():
        x = [row["jobs"] for row in steps[step]]
        y = [median(row["seconds"]) for row in steps[step]]
        axes.loglog(x, y, line, color=colour)
        ends.append((x[-1], y[-1], name, colour))
    label_ends(axes, ends)
    plain(axes.xaxis, (row["jobs"] for row in found.rows))
    plain(axes.yaxis, (1, 10, 60, 600))
    axes.set(xlabel="jobs in the stack", ylabel="seconds")


def operator(figure: Any, *apis: Measured) -> None:
    axes = figure.subplots(1, len(apis), sharex=True, sharey=True, squeeze=False)[0]
    for place, found in zip(axes, apis, strict=True):
        for height, row in enumerate(reversed(found.rows)):
            speed = row["jobs_per_s"]
            place.barh(height, median(speed), color=BLUE, height=0.6)
            place.annotate(
                f"{median(speed):.1f}",
                (median(speed), height),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
            )
        place.set_yticks(range(len(found.rows)), [row["settings"] for row in reversed(found.rows)])
        place.grid(visible=False)
        place.set(xlabel="jobs a second", title=found.rows[0]["kind"])
        place.margins(x=0.15)


CHECKPOINTS = {
    "within_s": ("within the training", ORANGE, "s-"),
    "on_disk_s": ("beside it: until it is on disk", BLUE, "o--"),
    "pause_s": ("beside it: pause of the training", BLUE, "o-"),
}


def checkpoints(figure: Any, found: Measured) -> None:
    axes = figure.add_subplot()
    x, ends = [row["mib"] for row in found.rows], []
    for key, (name, colour, line) in CHECKPOINTS.items():
        y = [row[key] for row in found.rows]
        axes.loglog(x, y, line, color=colour)
        ends.append((x[-1], y[-1], name, colour))
    label_ends(axes, ends)
    plain(axes.xaxis, x)
    plain(axes.yaxis, (0.001, 0.01, 0.1, 1, 10))
    axes.set(xlabel="size of the checkpoint, MiB", ylabel="seconds")


BATCHES = {"64 each": "64 images a step for each replica", "256 shared": "256 images a step for all together"}


def replicas(figure: Any, found: Measured) -> None:
    batches = by(found.rows, "batch")
    axes = figure.subplots(1, len(batches), sharey=True)
    for place, (batch, rows) in zip(axes, batches.items(), strict=True):
        x = [row["replicas"] for row in rows]
        place.plot(x, [row["images_per_s"] for row in rows], "o-", color=BLUE)
        place.set_xscale("log", base=2)
        plain(place.xaxis, x)
        place.set(xlabel="replicas", title=BATCHES[batch])
    axes[0].set_ylim(0)
    axes[0].set_ylabel("images a second")
    axes[0].yaxis.set_major_formatter(_matplotlib_ticker().StrMethodFormatter("{x:,.0f}"))


DRAWN: dict[str, Callable[..., None]] = {
    "scale": scale,
    "operator": operator,
    "checkpoints": checkpoints,
    "replicas": replicas,
}

if __name__ == "__main__":
    for picture in draw(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER):
        print(picture)
