"""In which keys a stack file differs from what was applied."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from infra.config.errors import explain
from infra.config.load import EXTENDS, Sections, own, read, sections, source, with_base
from infra.review.key_changes import KeyChange, key_changes

UNSET, MOST_LETTERS = "not set", 60


def unapplied(file: Path, applied: Mapping[str, Any]) -> list[str]:
    """A line for each key that the stack file gives another value than `applied`; defaults are values, too.

    Pulumi's history keeps what the stack file itself had. What the base had then nobody knows: its values of now stand
    for them, so of a base that has changed there is no line.

    Raises ConfigError where one of the two is no valid configuration.

    Parameters:
        applied: the configuration of an update, as Pulumi's history of the stack keeps it.
    """
    had, has = sections(applied), own(file)
    after = _validated(read(file), source(file, os.path.relpath(file)))
    old, new = had.get(EXTENDS), has.get(EXTENDS)
    moved = [f"{EXTENDS}: {_shown(old)} -> {_shown(new)} (another base)"] if old != new else []
    if old and new:
        had[EXTENDS] = new
    elif old and not file.with_name(f"{old}.yaml").exists():
        return moved
    before = _validated(with_base(had, file), "the configuration that was applied")
    return [*moved, *(_line(each) for each in key_changes(before, after))]


def _validated(given: dict[str, Any], source: str) -> Sections:
    try:
        return Sections.model_validate(given)
    except ValidationError as error:
        raise explain(error, Sections, source) from None


def _line(change: KeyChange) -> str:
    return f"{change.key}: {_shown(change.before)} -> {_shown(change.after)} ({change.outcome})"


def _shown(value: Any) -> str:
    text = UNSET if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}…"
