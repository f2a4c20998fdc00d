"""Quick drift for `make status`: compares the stack file with the last update, and live objects with the state.

`make drift` runs Pulumi, compares every object, and takes seconds. This module reads files, and uses the objects that
`make status` has already read. It asks only for objects that seem to be missing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from infra import agreed
from infra.objects import labels
from infra.objects.kinds import title
from toolchain import stack_files
from toolchain.operating import adoption, api_server, live_objects, state, user_backend
from toolchain.operating.state_copies import PROJECT
from toolchain.paths import STATE
from toolchain.steps import SetupError
from toolchain.tools import venv

Manifest = Mapping[str, Any]
COMPARE = "`make drift` compares every object"
MOST_KEYS, MOST_LETTERS = 5, 60
IDENTITY = frozenset({"apiVersion", "kind", "metadata"})
# `make up` sets `suspend` at creation. Later a queue sets it (infra/job/queue.py), and `make status` shows its effect.
LEFT_TO_OTHERS = frozenset({"suspend"})
HISTORY = STATE / ".pulumi" / "history" / PROJECT
UPDATE, DESTROY, SUCCEEDED = "update", "destroy", "succeeded"


def of_file(stack: str) -> list[str]:
    """Sentences about keys of the stack file that have changed since the last update that this clone knows."""
    if user_backend.backend():
        return [f"the stack's history is in your own backend, and `make status` does not ask that: {COMPARE}"]
    last = last_update(stack)
    if last is None:
        return ["this clone has no record of an update to compare with"]
    said = [f"the update of {last.failed:%Y-%m-%d %H:%M} failed: run `make up`"] if last.failed else []
    if agreed.EXTENDS in last.config:
        said.append(
            f"the earlier keys of the base file (`trainstack:extends`) are not recorded, so not compared: {COMPARE}"
        )
    keys = _changed_keys(stack, last.config)
    if not keys:
        return [
            *said,
            f"the stack file is unchanged since the update of {last.ended:%Y-%m-%d %H:%M}: {COMPARE}",
        ]
    more = [f"stack file: {len(keys) - MOST_KEYS} more keys"] if len(keys) > MOST_KEYS else []
    return [*said, *(f"stack file: {key}, waits for `make up`" for key in keys[:MOST_KEYS]), *more]


def _changed_keys(stack: str, applied: Mapping[str, Any]) -> list[str]:
    """Raises SetupError for a wrong stack file."""
    with venv.program():
        from infra.review.key_changes import config_diff

        return config_diff(stack_files.file(stack), applied)


def of_objects(
    variables: Mapping[str, str],
    access: state.Access,
    stack: str,
    kinds: Iterable[str],
    objects: Sequence[Manifest],
) -> tuple[list[str], list[str]]:
    """A sentence for each object of `kinds` that is missing or changed, and one for each that could not be read.

    Parameters:
        objects: the live objects with the stack's mark.
    """
    said: list[str] = []
    unknown: list[str] = []
    if user_backend.backend():
        return said, unknown
    live = {title(each): each for each in objects}
    look_up = live_objects.lookup(variables, access)
    deployment = state.deployment(stack)
    may_have_left = state.finished(deployment)
    for each in _applied(deployment, set(kinds)):
        name = title(each)
        try:
            found = live.get(name) or look_up(each)
        except SetupError as error:
            unknown.append(str(error))
            if api_server.FORBIDDEN in str(error):
                continue
            break  # the server does not answer: a request for each other object would only cost time
        if found is None and name in may_have_left:
            continue
        if found is None:
            said.append(f"{name} is missing: `make up` creates it")
        elif labels.is_copied(found):
            said.append(f"{name} is somebody's copy, not this stack's object: `make up` stops and names it")
        else:
            said += [f"{name} {line}: `make up` restores it" for line in differences(each, found)]
    return said, unknown


def _applied(deployment: state.Deployment, kinds: set[str]) -> Iterator[Manifest]:
    left_behind = {each["urn"] for each in state.left_behind(deployment)}
    for each in state.objects(deployment):
        inputs = each.get("inputs") or {}
        # An object that Pulumi will delete, or has deleted for its replacement, does not have to exist.
        leaving = each.get("delete") or each.get(state.HALF_REPLACED) or each["urn"] in left_behind
        if inputs.get("kind") in kinds and adoption.object_id(inputs) and not leaving:
            yield inputs


def differences(applied: Manifest, found: Manifest) -> list[str]:
    """`path is B, A was applied` for each field of `applied` that differs in `found`. Other fields are defaults.

    Both manifests are of one object, so kinds and names are not compared.
    """
    metadata = {key: applied["metadata"].get(key) or {} for key in ("labels", "annotations")}
    content = {key: value for key, value in applied.items() if key not in IDENTITY}
    wanted = {"metadata": metadata, **content}
    return [
        f"{path} is {_shown(now)}, {_shown(then)} was applied"
        for path, then, now in _differ("", wanted, found)
    ]


def _differ(path: str, applied: Any, found: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(applied, dict):
        if state.SIGNATURE in applied:
            return  # encrypted
        for key, value in applied.items():
            if key not in LEFT_TO_OTHERS:
                inner = found.get(key) if isinstance(found, dict) else None
                yield from _differ(f"{path}.{key}" if path else key, value, inner)
    elif isinstance(applied, list) and isinstance(found, list) and len(applied) <= len(found):
        for place, value in enumerate(applied):
            yield from _differ(f"{path}[{place}]", value, found[place])
    elif not _equal(applied, found):
        yield path, applied, found


def _equal(applied: Any, found: Any) -> bool:
    """Whether the values are equal: the API server leaves out empty values, and writes quantities in its own form."""
    if applied == found or (not applied and not found):
        return True
    amounts = _amount(applied), _amount(found)
    return None not in amounts and amounts[0] == amounts[1]


def _amount(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    with venv.program():
        from infra.config.names import quantity

        try:
            return quantity(str(value))
        except ValueError:
            return None


def _shown(value: Any) -> str:
    text = "not there" if value is None else json.dumps(value)
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}…"


@dataclass(frozen=True)
class LastUpdate:
    """An update that succeeded.

    Parameters:
        config: full key -> value; encrypted values stay encrypted.
        ended: when the update ended.
        failed: when a later update failed; None if none failed.
    """

    config: Mapping[str, Any]
    ended: datetime
    failed: datetime | None = None


def last_update(stack: str) -> LastUpdate | None:
    """The last update of `stack`; None if the stack is not up, or has no complete history.

    Pulumi writes the history in our file backend after each operation, so a plain `pulumi up` counts too.
    """
    failed = None
    # The names of the files end with nanoseconds since 1970.
    for file in sorted((HISTORY / stack).glob("*.history.json"), reverse=True):
        try:
            told = json.loads(file.read_text())
            kind, result, ended = told["kind"], told["result"], datetime.fromtimestamp(told["endTime"])
            config = told.get("config") or {}
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if kind == DESTROY:
            return None
        if kind == UPDATE and result == SUCCEEDED:
            return LastUpdate(config, ended, failed)
        if kind == UPDATE:
            failed = failed or ended
    return None
