"""A run's model card: Markdown with the front matter that model hubs read, from what the run's folder tells."""

from __future__ import annotations

import json
from collections.abc import Mapping

from toolchain.runs.records import Run

FILE = "README.md"
# Data sets whose task is known; of your own data it is not.
PICTURES = ("mnist", "fashion-mnist", "kmnist", "digits")
# Keys of config.json that say where the run was computed.
MACHINE = ("world_size", "processor", "device", "precision", "torch")


def card(run: Run) -> str:
    """The card of a finished run. Every text in the front matter is quoted as JSON does, which YAML reads alike."""
    result = {"accuracy": run.accuracy, "loss": run.loss, "epochs": run.epochs, "seconds": run.seconds}
    file = (run.model or run.folder).name
    dataset, network = str(run.config.get("dataset", "unknown")), str(run.config.get("network", "unknown"))
    return (
        f"---\n{_front_matter(run, dataset)}---\n\n# {run.name}\n\n"
        f"Network `{network}`, trained on `{dataset}` by trainstack. The file is a plain `state_dict`.\n\n"
        f"## Result\n\n{_table(result)}\n"
        f"## Training\n\n{_table({key: value for key, value in run.config.items() if key not in MACHINE})}\n"
        f"## Origin\n\n{_table({**run.origin, **{key: run.config[key] for key in MACHINE if key in run.config}})}\n"
        "## Use\n\n"
        f"```python\nstate = torch.load({file!r}, map_location='cpu', weights_only=True)\n```\n\n"
        "`config.json` beside this file has the configuration, `report.html` shows what the model gets wrong.\n"
    )


def _front_matter(run: Run, dataset: str) -> str:
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
