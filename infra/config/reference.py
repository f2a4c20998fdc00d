"""`python -m infra.config.reference`: writes docs/configuration.md from the models."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from infra import paths
from infra.cluster_kinds import only_for
from infra.config.changes import NOTES, OUTCOMES
from infra.config.errors import allowed, example, model_in
from infra.config.load import Sections
from infra.config.section import keys

PAGE = paths.ROOT / "docs" / "configuration.md"
INTRODUCTION = """\
# Configuration

<!-- Written by `python -m infra.config.reference` from the models in infra/config. Change those instead. -->

A stack is one file, `stacks/Pulumi.<stack>.yaml`. Below `config:`, each section has the name `trainstack:<section>`.
Most sections are mappings; `jobs` is a list, and `protected` is true or false. Only a job is required. An unknown key
or a wrong value is refused before anything changes: the error names the key, the allowed values and the fix.

Several stacks can share values: write the values into a base, a file in `stacks/`, and name the base in each stack with
`trainstack:extends`. See [environments](environments.md).

You can change the keys of a running stack, and change them back: the next `make up` applies the change. Some changes
are refused before anything is touched: the last column says so. The last column begins with what the change usually
replaces; the sentences after that name exceptions and effects. A `-` means that the key has keys of its own: see their
rows.

A change keeps the models and all other files on the volume, with one exception: the files of a claim with
`storage.kind: class` in a kind cluster are deleted if the cluster is replaced. After a change of
[`storage.keepRuns`](#storagekeepruns), later runs delete old runs.

```yaml
config:
  trainstack:cluster:
    workers: 2
  trainstack:job:
    name: mnist
    training:
      epochs: 2
```

## Many jobs

With `matrix`, `job` is a template. Each combination of values makes a job: 500 here.

```yaml
config:
  trainstack:job:
    name: mnist
    training: {epochs: 2, dataset: mnist}
  trainstack:matrix:
    options:
      training.lr: [0.003, 0.01, 0.03, 0.1, 0.3]
      training.batchSize: [32, 64, 128, 256]
      training.seed: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25]
    maxParallel: 20
```

- A job's name has the template's name, then each key with its value: `mnist-batchsize-64-lr-0-01-seed-1`. The order
  of the keys and values in the stack file does not matter: the same values give a job the same name, and the same
  [run](runs.md), which is one training with its own folder on the volume. If you add or remove a value, its jobs are
  added or removed, and the other jobs stay. A name has at most 50 characters; a longer name is refused before anything
  changes. At most 1000 combinations are allowed.
- At most `maxParallel` jobs run at once: with 20, job 21 waits for the end of job 1, job 22 for the end of job 2. If a
  job fails, the jobs that wait for it do not start; the others continue, then `make up` fails. The next `make up`
  starts the failed job again. To continue without it, list its combination in `exclude`.
- The environment variable `PULUMI_PARALLEL` limits how many jobs Pulumi waits for at once. If you do not set it,
  `make` sets it to 128. For a `maxParallel` of 128 or more, set it to a number above `maxParallel`. Kueue can limit the
  jobs in the cluster instead of `maxParallel`: name a queue in `job.queue`.
- Only `make up` obeys `maxParallel`: `kubectl apply` of the rendered manifests starts all jobs at once. So a stack with
  `maxParallel` has no kustomization for GitOps engines.
- `make runs` lists all runs with their accuracy. `make rerun` raises the template's `rerun`, so all jobs train again.
  `make use`, `make promote` and `make rerun JOB=<job>` are refused, because they change one job in the stack file.
"""
Column = Callable[[str, FieldInfo], str]
"""Makes a cell from a key's path, `job.training.epochs`, and its field."""


def page() -> str:
    """The whole of docs/configuration.md."""
    return "\n".join([INTRODUCTION, *(section(path, model) for path, model in models().items())])


def models() -> dict[str, type[BaseModel]]:
    """Every mapping of the stack file: its path -> its model, an outer mapping before its inner mappings."""
    return {key.rpartition(".")[0]: model for key, model, _ in keys(Sections)}


def section(path: str, model: type[BaseModel]) -> str:
    """Heading, description and table of one mapping."""
    heading = f"{'##' if '.' not in path else '###'} {path or 'Sections'}\n"
    described = f"\n{inspect.cleandoc(model.__doc__)}\n" if model.__doc__ else ""
    rows = [
        [_escaped(cell(f"{path}.{field.alias}".lstrip("."), field)) for cell in COLUMNS.values()]
        for field in model.model_fields.values()
    ]
    table = [list(COLUMNS), ["---"] * len(COLUMNS), *rows]
    lines = "\n".join(f"| {' | '.join(row)} |" for row in table)
    return f"{heading}{described}\n{lines}\n"


def _escaped(cell: str) -> str:
    """A table needs `|` escaped everywhere, and HTML's brackets outside of code."""
    parts = cell.replace("|", "\\|").split("`")
    return "`".join(
        part if place % 2 else part.replace("<", "&lt;").replace(">", "&gt;")
        for place, part in enumerate(parts)
    )


def key_cell(path: str, field: FieldInfo) -> str:
    """The key; a key with keys below it is a link to their table."""
    if model_in(field.annotation) is None:
        return f"`{field.alias}`"
    target = path if field.alias != "jobs" else "job"
    return f"[`{field.alias}`](#{target.replace('.', '').lower()})"


def default_cell(path: str, field: FieldInfo) -> str:
    """The default, in the form of a stack file."""
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    if default is None or isinstance(default, BaseModel):
        return "-"
    return f"`{_yaml(default)}`"


def _yaml(value: Any) -> str:
    """A default in YAML's flow style."""
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(_yaml(each) for each in value)}]"
    return value if isinstance(value, str) else json.dumps(value)


def allowed_cell(path: str, field: FieldInfo) -> str:
    """Which values are allowed."""
    return allowed(field)


def example_cell(path: str, field: FieldInfo) -> str:
    """An example line for a stack file."""
    if model_in(field.annotation) is not None and not field.examples:
        return "-"
    return f"`{field.alias}: {example(field)}`"


def about_cell(path: str, field: FieldInfo) -> str:
    """What the key is for, and the kinds of cluster that have it."""
    only = only_for(path.removeprefix("cluster.")) if path.startswith("cluster.") else []
    about = field.description or ""
    return f"{about.rstrip('.')}. Only if `kind` is {' or '.join(only)}." if only else about


def change_cell(path: str, field: FieldInfo) -> str:
    """The effect of a change of the key on a running stack."""
    if path not in OUTCOMES:
        return "-"
    note = f". {NOTES[path]}" if path in NOTES else ""
    return f"{OUTCOMES[path]}{note}"


COLUMNS: dict[str, Column] = {
    "key": key_cell,
    "default": default_cell,
    "allowed": allowed_cell,
    "example": example_cell,
    "what it is for": about_cell,
    "changing it": change_cell,
}
"""Heading -> the cells below it."""


def main(target: Path = PAGE) -> None:
    """Write the page to `target`."""
    target.write_text(page())


if __name__ == "__main__":
    main()
