"""Where a run comes from: commit, clean or changed tree, image. This is kept beside the run, never in a manifest.

This module also writes the run's model card.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from infra import agreed
from infra.atomic_file import write_whole
from toolchain import git
from toolchain.paths import LOCAL, ROOT
from toolchain.runs import records
from toolchain.steps import say

CHECKPOINT = "checkpoint.pt"
BEGUN = LOCAL / "begun"
MOST_SOURCES = 20
CARD = "README.md"
# Data sets whose task is known. The task of a user's own data is unknown.
PICTURES = ("mnist", "fashion-mnist", "kmnist", "digits")
# Keys of config.json that say where the run was computed.
MACHINE = ("world_size", "processor", "device", "precision", "torch")

Source = dict[str, Any]
"""`commit`, `clean`, and when make up `began`, in seconds since 1970."""


def of_clone(root: Path = ROOT) -> Source:
    """The `commit` that is checked out, and whether the tree is `clean`; None for values that Git does not know."""
    top = git.answer(root, "rev-parse", "--show-toplevel")
    if top is None or Path(top).resolve() != root.resolve():
        return {"commit": None, "clean": None}
    return {"commit": git.answer(root, "rev-parse", "HEAD"), "clean": _is_clean(root)}


def _is_clean(root: Path) -> bool | None:
    try:
        return not git.changes(root)
    except git.GitError:
        return None


def begin(stack: str) -> list[Source]:
    """Record the source of this `make up` of `stack`; returns all sources since the last finished `make up`, in order.

    A job continues when its `make up` is killed. The next `make up` then finds a run that an earlier `make up` began.
    """
    sources = [*_begun(stack), {**of_clone(), "began": time.time()}][-MOST_SOURCES:]
    BEGUN.mkdir(parents=True, exist_ok=True)
    write_whole(BEGUN / f"{stack}.json", json.dumps(sources))
    return sources


def _begun(stack: str) -> list[Source]:
    try:
        found = json.loads((BEGUN / f"{stack}.json").read_text())
    except (OSError, ValueError):
        return []
    return [each for each in found if "began" in each] if isinstance(found, list) else []


def end(stack: str) -> None:
    """Delete the recorded sources: `make up` has ended, and they are kept beside their runs."""
    (BEGUN / f"{stack}.json").unlink(missing_ok=True)


def keep(runs: Iterable[Path], sources: Sequence[Source], image: object) -> None:
    """Write into each folder of `runs` the source of the last `make up` before the run's end, and the image's digest.

    A run that ended before all `sources` gets nothing. An existing file stays. If the file cannot be written, a line
    says so, and nothing fails: the training has succeeded.
    """
    for folder in runs:
        run = records.read(folder) if folder.is_dir() else None
        if run is None or not run.is_finished:
            continue
        model = run.model or folder / agreed.RECORD
        try:
            if not (folder / records.ORIGIN).exists():
                source = _source(folder, model, sources)
                if source is None:
                    continue
                origin = {"commit": source.get("commit"), "clean": source.get("clean"), "image": image}
                _write_as_old_as(model, folder / records.ORIGIN, json.dumps(origin, indent=2) + "\n")
            if not (folder / CARD).exists():
                _write_as_old_as(model, folder / CARD, card(records.read(folder)))
        except OSError as error:
            say(f"commit and image of run {folder.name} are not kept beside it: {error}")


def _source(folder: Path, model: Path, sources: Sequence[Source]) -> Source | None:
    # A finished run that reports again writes its model, but no checkpoint.
    checkpoint = folder / CHECKPOINT
    ended = (checkpoint if checkpoint.is_file() else model).stat().st_mtime
    return next((each for each in reversed(sources) if float(each["began"]) <= ended), None)


def _write_as_old_as(model: Path, file: Path, text: str) -> None:
    """Write `file` with the time of `model`, so that the time of the run's end does not change."""
    write_whole(file, text, written=model.stat().st_mtime)


def report_lines(runs: Iterable[Path]) -> list[str]:
    """A line with the path of each run's report, if it exists."""
    return [f"report: {folder / agreed.REPORT}" for folder in runs if (folder / agreed.REPORT).is_file()]


def card(run: records.Run) -> str:
    """The model card of a finished run: Markdown with the front matter that model hubs read.

    Texts in the front matter are quoted as in JSON: YAML reads that, too.
    """
    result = {"accuracy": run.accuracy, "loss": run.loss, "epochs": run.epochs, "seconds": run.seconds}
    file = (run.model or run.folder).name
    dataset, network = str(run.config.get("dataset", "unknown")), str(run.config.get("network", "unknown"))
    about = f"Network `{network}`, trained on `{dataset}` by trainstack. The file is a plain `state_dict`."
    if run.told and not run.by_trainer:
        about = "Trained by the user's own program on trainstack."
    return (
        f"---\n{_front_matter(run, dataset)}---\n\n# {run.name}\n\n"
        f"{about}\n\n"
        f"## Result\n\n{_table(result)}\n"
        f"## Training\n\n{_table({key: value for key, value in run.config.items() if key not in MACHINE})}\n"
        f"## Origin\n\n{_table({**run.origin, **{key: run.config[key] for key in MACHINE if key in run.config}})}\n"
        "## Use\n\n"
        f"```python\nstate = torch.load({file!r}, map_location='cpu', weights_only=True)\n```\n\n"
        "`config.json` beside this file has the configuration, `report.html` shows what the model gets wrong.\n"
    )


def _front_matter(run: records.Run, dataset: str) -> str:
    lines = ["library_name: pytorch", "tags: [trainstack]"]
    if dataset not in PICTURES:
        return "\n".join(lines) + "\n"
    lines += ["pipeline_tag: image-classification", f"datasets: [{dataset}]", "metrics: [accuracy]"]
    if run.accuracy is not None:
        lines += [
            "model-index:",
            f"  - name: {json.dumps(run.name)}",
            "    results:",
            "      - task: {type: image-classification}",
            f"        dataset: {{name: {json.dumps(dataset)}, type: {json.dumps(dataset)}}}",
            "        metrics:",
            f"          - {{type: accuracy, value: {run.accuracy:.4f}}}",
        ]
    return "\n".join(lines) + "\n"


def _table(values: Mapping[str, object]) -> str:
    rows = [f"| {_cell(key)} | {_cell(value)} |\n" for key, value in values.items() if value is not None]
    return "".join(["| | |\n| --- | --- |\n", *rows]) if rows else "Nothing is known.\n"


def _cell(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return " ".join(text.split()).replace("|", "\\|")
