"""`python -m infra.config.reference`: writes docs/configuration.md from the models."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from infra import paths
from infra.config.changes import NOTES, OUTCOMES
from infra.config.errors import allowed, example, model_in
from infra.config.load import Sections

PAGE = paths.ROOT / "docs" / "configuration.md"
INTRODUCTION = """\
# Configuration

<!-- Written by `python -m infra.config.reference` from the models in infra/config. Change those instead. -->

A stack is one file, `stacks/Pulumi.<stack>.yaml`. Below `config:` it has a mapping for each section, by the name
`trainstack:<section>`; only a job is required. A key that there is not, or a value that is not allowed, is refused
before anything is touched, with the key, what is allowed and how to fix it.

Any key may be changed on a stack that is up: the next `make up` converges, and going back does, too. The last column
says the most that it replaces; models and all other files on the volume are kept in every case.

```yaml
config:
  trainstack:cluster:
    workers: 2
  trainstack:job:
    name: mnist
    training:
      epochs: 2
```
"""
Column = Callable[[str, FieldInfo], str]
"""Makes a cell from a key's path, `job.training.epochs`, and its field."""


def page() -> str:
    """The whole of docs/configuration.md."""
    sections = "\n".join(section(path, model) for path, model in models(Sections))
    return f"{INTRODUCTION}\n{sections}"


def models(model: type[BaseModel], path: str = "") -> Iterator[tuple[str, type[BaseModel]]]:
    """Every mapping of the stack file: its path and its model, the outer before the inner."""
    yield path, model
    for name, inner, field in _inner(model, path):
        if field.alias != "jobs":  # each of them is like job
            yield from models(inner, name)


def _inner(model: type[BaseModel], path: str) -> Iterator[tuple[str, type[BaseModel], FieldInfo]]:
    for field in model.model_fields.values():
        inner = model_in(field.annotation)
        if inner is not None:
            yield _join(path, field), inner, field


def _join(path: str, field: FieldInfo) -> str:
    return f"{path}.{field.alias}" if path else str(field.alias)


def section(path: str, model: type[BaseModel]) -> str:
    """Heading, description and table of one mapping."""
    heading = f"{'##' if '.' not in path else '###'} {path or 'Sections'}\n"
    described = f"\n{model.__doc__.partition(chr(10) * 2)[0]}\n" if model.__doc__ else ""
    rows = [
        [_escaped(cell(_join(path, field), field)) for cell in COLUMNS.values()] for field in fields(model)
    ]
    table = [list(COLUMNS), ["---"] * len(COLUMNS), *rows]
    lines = "\n".join(f"| {' | '.join(row)} |" for row in table)
    return f"{heading}{described}\n{lines}\n"


def _escaped(cell: str) -> str:
    """Outside code a table's bars and HTML's brackets would not be shown."""
    if cell.startswith("`"):
        return cell.replace("|", "\\|")
    return cell.replace("|", "\\|").replace("<", "&lt;").replace(">", "&gt;")


def fields(model: type[BaseModel]) -> list[FieldInfo]:
    """The keys of a mapping in the order of its model."""
    return list(model.model_fields.values())


def key_cell(path: str, field: FieldInfo) -> str:
    """The key; one with keys below it is a link to their table."""
    if model_in(field.annotation) is None:
        return f"`{field.alias}`"
    target = path if field.alias != "jobs" else "job"
    return f"[`{field.alias}`](#{target.replace('.', '').lower()})"


def default_cell(path: str, field: FieldInfo) -> str:
    """The default as it would be written in a stack file."""
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
    """A line that could stand in a stack file."""
    if model_in(field.annotation) is not None and not field.examples:
        return "-"
    return f"`{field.alias}: {example(field)}`"


def about_cell(path: str, field: FieldInfo) -> str:
    """What the key is for."""
    return field.description or ""


def change_cell(path: str, field: FieldInfo) -> str:
    """What changing the key does to a stack that is up."""
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
