"""Drift at a glance, for `make status`: the stack file against the last update, live objects against the state.

`make drift` asks Pulumi, compares every object, and takes seconds. This reads files, and takes the objects that
`make status` has asked for already; it asks only for those that seem to be missing.
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
# Set when the object is made; from then on a queue's (infra/job/queue.py), and `make status` shows its effect.
LEFT_TO_OTHERS = frozenset({"suspend"})
HISTORY = STATE / ".pulumi" / "history" / PROJECT
UPDATE, DESTROY, SUCCEEDED = "update", "destroy", "succeeded"


def of_file(stack: str) -> list[str]:
    """Sentences on the stack file and the last update that this clone knows. They name what waits, and no fault."""
    if user_backend.backend():
        return [f"the stack's history is in a backend of your own, which is not asked: {COMPARE}"]
    last = last_update(stack)
    if last is None:
        return ["this clone knows of no update to compare with"]
    said = [f"the update of {last.failed:%Y-%m-%d %H:%M} has failed: `make up`"] if last.failed else []
    if agreed.EXTENDS in last.config:
        said.append(f"what the stack's base had then is not kept, and not compared: {COMPARE}")
    keys = _changed_keys(stack, last.config)
    if not keys:
        return [*said, f"the stack file is as at the update of {last.ended:%Y-%m-%d %H:%M}: {COMPARE}"]
    more = [f"stack file: {len(keys) - MOST_KEYS} more keys"] if len(keys) > MOST_KEYS else []
    return [*said, *(f"stack file: {key}, waits for `make up`" for key in keys[:MOST_KEYS]), *more]


def _changed_keys(stack: str, applied: Mapping[str, Any]) -> list[str]:
    """Raises SetupError for a wrong stack file."""
    with venv.program():
        from infra.review.key_changes import unapplied

        return unapplied(stack_files.file(stack), applied)


def of_objects(
    variables: Mapping[str, str],
    access: state.Access,
    stack: str,
    kinds: Iterable[str],
    objects: Sequence[Manifest],
) -> tuple[list[str], list[str]]:
    """A sentence for each object of `kinds` that is missing or not as it was applied, and for each that is unknown.

    Parameters:
        objects: the live ones with the stack's mark.
    """
    said: list[str] = []
    unknown: list[str] = []
    if user_backend.backend():
        return said, unknown
    live = {adoption.title(each): each for each in objects}
    look_up = live_objects.lookup_in(variables, access)
    deployment = state.deployment(stack)
    may_have_left = state.finished(deployment)
    for each in _applied(deployment, set(kinds)):
        title = adoption.title(each)
        try:
            found = live.get(title) or look_up(each)
        except SetupError as error:
            unknown.append(str(error))
            if api_server.FORBIDDEN in str(error):
                continue
            break  # the server is away: the others would only be waited for
        if found is None and title in may_have_left:
            continue
        if found is None:
            said.append(f"{title} is missing: `make up` makes it")
        elif labels.is_copied(found):
            said.append(
                f"{title} is somebody's copy in the place of this stack's: `make up` refuses it by name"
            )
        else:
            said += [f"{title} {line}: `make up` restores it" for line in differences(each, found)]
    return said, unknown


def _applied(deployment: state.Deployment, kinds: set[str]) -> Iterator[Manifest]:
    left_behind = {each["urn"] for each in state.left_behind(deployment)}
    for each in state.objects(deployment):
        inputs = each.get("inputs") or {}
        # What is to be deleted, or was deleted to be replaced, is not meant to be there.
        leaving = each.get("delete") or each.get(state.HALF_REPLACED) or each["urn"] in left_behind
        if inputs.get("kind") in kinds and adoption.object_id(inputs) and not leaving:
            yield inputs


def differences(applied: Manifest, found: Manifest) -> list[str]:
    """`path is B, A was applied` for each field of `applied` that `found` has otherwise; its others are defaults.

    Both are the same object: their kinds and names are not compared.
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
    """The API server leaves out what is empty, and writes a quantity in its own way."""
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
        config: full keys to values; what is encrypted stays so.
        ended: when.
        failed: when a later update failed; None where none did.
    """

    config: Mapping[str, Any]
    ended: datetime
    failed: datetime | None = None


def last_update(stack: str) -> LastUpdate | None:
    """The last update of `stack`; None where it was never up, was taken down since, or has no whole history.

    Pulumi writes that history, in our file backend, after each operation: a plain `pulumi up` counts, too.
    """
    failed = None
    # Their names end with nanoseconds since 1970.
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
