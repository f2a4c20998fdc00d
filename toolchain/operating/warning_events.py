"""The Kubernetes events that warn of a stack's objects, the last ones last."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from toolchain.operating import live_objects, state
from toolchain.steps import SetupError

RECENT = timedelta(minutes=30)
SHOWN = 3


def recent(
    variables: Mapping[str, str], access: state.Access, namespace: str | None, names: Iterable[str]
) -> list[str]:
    """A sentence for each of the last recent warnings, with its age. Raises SetupError where they cannot be read.

    Parameters:
        names: of objects; an event counts when it is of one of them, or of one that is named after it, as pods are.
    """
    place = ("--namespace", namespace) if namespace else ("--all-namespaces",)
    chosen = ("--field-selector", "type=Warning", "--output", "json")
    done = live_objects.kubectl(variables, access, "get", "events", *place, *chosen)
    if done.returncode:
        raise SetupError(f"cannot list events: {done.stderr.strip()}")
    return sentences(json.loads(done.stdout)["items"], set(names), datetime.now(UTC))


def sentences(events: Iterable[dict[str, Any]], names: set[str], now: datetime) -> list[str]:
    """Those of the last `SHOWN` of `events` within `RECENT` before `now`."""
    seen = [
        (_time(each), each)
        for each in events
        if any(_is_of(each["involvedObject"].get("name", ""), name) for name in names)
    ]
    recent = sorted(
        ((when, each) for when, each in seen if when and now - when <= RECENT), key=lambda pair: pair[0]
    )
    return [_sentence(each, now - when) for when, each in recent[-SHOWN:]]


def _is_of(found: str, name: str) -> bool:
    return found == name or found.startswith(f"{name}-")


def _time(event: dict[str, Any]) -> datetime | None:
    """When it was seen last: a series says it itself, and newer reporters leave `lastTimestamp` empty."""
    series = (event.get("series") or {}).get("lastObservedTime")
    written = series or event.get("lastTimestamp") or event.get("eventTime")
    return datetime.fromisoformat(written) if written else None


def _sentence(event: dict[str, Any], age: timedelta) -> str:
    about = event["involvedObject"]
    minutes = int(age.total_seconds() // 60)
    message = " ".join(str(event.get("message", "")).split())
    return f"{minutes} min ago: {about.get('kind')}/{about.get('name')} {event.get('reason')}: {message}"
