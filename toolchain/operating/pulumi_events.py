"""Follows Pulumi's event log: prints what the user has to know, and sends events to a live view.

Pulumi's automation API reads the same log: a JSON object on each line, `EngineEvent` in its package apitype.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra import agreed
from infra.objects import kinds
from toolchain.operating import adoption
from toolchain.operating.job_lines import JobLines
from toolchain.paths import LINKS, VENV
from toolchain.progress import Event

POLL_S = 0.1
SHOWN = {"info", "info#err", "warning", "error"}
UNTOUCHED = {"same", "read", "refresh"}
PLUGIN = re.compile(r"^using pulumi-\S+ from \$PATH at (?P<path>.+)$")
# Our own message says the same in more detail.
REPEATED = {"update failed", "destroy failed", "refresh failed"}
FIX = (
    "repair what the messages name for each object: after a 403, ask for the right (docs/security.md lists rights); "
    "if the cluster does not answer, repair it until `kubectl get --raw /readyz` prints ok; "
    "then run the same command again"
)
"""The fix for errors without a fix: Pulumi and its plugins only say what has failed."""
MOST_NAMED = 3
MOST_DRIFTED = 5


@dataclass
class Reader:
    """Reads the events of several runs of pulumi, one after the other.

    Parameters:
        say: gets each line for the user, once.
        tell: gets each event for a live view.
        note: gets the names of the objects that Pulumi works on.

    Attributes:
        expected: `Kind/namespace/name` of objects that may be missing.
    """

    say: Callable[[str], None]
    tell: Callable[[Event], None]
    note: Callable[[str], None]
    earlier: set[str] = field(default_factory=set)
    said: list[str] = field(default_factory=list)
    running: dict[str, str] = field(default_factory=dict)
    expected: set[str] = field(default_factory=set)
    drifted: int = 0
    has_error: bool = False
    has_fix: bool = False

    def __post_init__(self) -> None:
        self.jobs = JobLines(self.say, self.tell)

    def begin(self) -> None:
        """The command `pulumi` has started. Lines of earlier commands are not printed again."""
        self.earlier |= set(self.said)
        self.said, self.running, self.drifted = [], {}, 0
        self.has_error = self.has_fix = False

    def take(self, event: Mapping[str, Any]) -> None:
        """Read one event."""
        if told := event.get("diagnosticEvent"):
            self._diagnostic(told)
        elif begun := event.get("resourcePreEvent"):
            self._resource(begun["metadata"], "runs")
        elif ended := event.get("resOutputsEvent"):
            self._drift(ended["metadata"])
            self._resource(ended["metadata"], "done")
        elif failed := event.get("resOpFailedEvent"):
            self._resource(failed["metadata"], "failed")

    def end(self) -> None:
        """The command `pulumi` has ended: print the lines that are still held back."""
        self._say_how_many_more()
        self.jobs.flush()
        self.tell({"is": "quiet"})

    def _diagnostic(self, told: Mapping[str, Any]) -> None:
        severity, text = told.get("severity"), str(told.get("message", "")).rstrip()
        if severity not in SHOWN or not text.strip() or is_own_plugin(text) or text in REPEATED:
            return
        if told.get("ephemeral"):
            self.tell({"is": "object", "urn": told.get("urn", ""), "text": text.splitlines()[0]})
            return
        if severity.startswith("info"):
            for line in text.splitlines():
                if not self.jobs.take(line):
                    self._say(line)
            return
        self.has_error |= severity == "error"
        self.has_fix |= "fix: " in text
        self._say(f"{severity}: {about_object(told)}")

    def _say(self, line: str) -> None:
        if line not in self.earlier and self.said[-1:] != [line]:
            self.say(line)
        self.said.append(line)

    def _drift(self, metadata: Mapping[str, Any]) -> None:
        """Print what a refresh finds, because the update that follows corrects it and does not say why."""
        if metadata["op"] != "refresh" or not metadata["type"].startswith(agreed.OBJECT):
            return
        if metadata.get("new") is None:
            if _of_state(metadata) in self.expected:
                return
            line = f"found gone from the cluster: {title(metadata['urn'])}"
        elif fields := metadata.get("detailedDiff"):
            line = f"found changed in the cluster: {title(metadata['urn'])} ({', '.join(sorted(fields))})"
        else:
            return
        self.drifted += 1
        if self.drifted <= MOST_DRIFTED:
            self._say(line)

    def _say_how_many_more(self) -> None:
        if self.drifted > MOST_DRIFTED:
            self._say(f"found changed or gone in the cluster: {self.drifted - MOST_DRIFTED} more objects")
        self.drifted = 0

    def _resource(self, metadata: Mapping[str, Any], now: str) -> None:
        urn, operation = metadata["urn"], metadata["op"]
        if operation in UNTOUCHED or not _is_custom(metadata):
            return
        self._say_how_many_more()
        if now == "runs":
            self.running[urn] = title(urn)
        else:
            self.running.pop(urn, None)
        self.tell({"is": "object", "urn": urn, "name": title(urn), "operation": operation, "now": now})
        named = list(self.running.values())
        more = [f"{len(named) - MOST_NAMED} more"] if len(named) > MOST_NAMED else []
        self.note(", ".join([*named[:MOST_NAMED], *more]))


def failed_jobs(events: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """URN -> job, of failed resources. Empty if anything else than a job failed, or if all registered jobs failed."""
    jobs, failed = set(), set()
    parents: dict[str, str] = {}
    for event in events:
        if begun := event.get("resourcePreEvent") or event.get("resOpFailedEvent"):
            metadata = begun["metadata"]
            parents[metadata["urn"]] = (metadata.get("new") or metadata.get("old") or {}).get("parent") or ""
            kind, name = metadata["urn"].split("::")[-2:]
            jobs |= {name} if kind == agreed.JOB else set()
        if ended := event.get("resOpFailedEvent"):
            failed.add(ended["metadata"]["urn"])
        told = event.get("diagnosticEvent") or {}
        if told.get("severity") == "error" and told.get("urn"):  # a preview that fails reports only this
            failed.add(told["urn"])
    found = {urn: _job(parents.get(urn, "")) for urn in failed}
    return found if all(found.values()) and jobs - {*found.values()} else {}


def _job(component: str) -> str:
    """The job whose component this URN names; empty for other components."""
    kind, name = f"::{component}".split("::")[-2:]
    return name if kind == agreed.JOB else ""


def _is_custom(metadata: Mapping[str, Any]) -> bool:
    """Whether `metadata` is of a real resource, not of a component."""
    return bool((metadata.get("new") or metadata.get("old") or {}).get("custom"))


def _of_state(metadata: Mapping[str, Any]) -> str:
    """`Kind/namespace/name` of the object in the state; empty if the state has none."""
    inputs = (metadata.get("old") or {}).get("inputs") or {}
    return kinds.title(inputs) if adoption.object_id(inputs) else ""


def title(urn: str) -> str:
    """Kind and name, from the last two parts of a URN: `Deployment kubeflow/training-operator`."""
    kind, name = urn.split("::")[-2:]
    kind = re.split(r"[:/$]", kind)[-1]
    return name.replace("/", " ", 1) if name.startswith(f"{kind}/") else f"{kind} {name}"


def about_object(diagnostic: Mapping[str, Any]) -> str:
    """The text of a diagnostic. If the text does not name its Kubernetes object, the object's name comes first."""
    urn, text = str(diagnostic.get("urn") or ""), str(diagnostic.get("message", "")).strip()
    text = text.removeprefix("error: ").removeprefix("warning: ")
    is_object = f"::{urn}".split("::")[-2].rpartition("$")[2].startswith(agreed.OBJECT)
    return f"{title(urn)}: {text}" if is_object and title(urn) not in text else text


def is_own_plugin(text: str) -> bool:
    """Whether Pulumi warns about a plugin that we have put on PATH."""
    found = PLUGIN.match(text)
    return found is not None and any(Path(found["path"]).is_relative_to(each) for each in (LINKS, VENV))


def follow(file: Path, ended: threading.Event) -> Iterator[Mapping[str, Any]]:
    """The events in `file`, also events that are written later, until `ended` is set and all are read."""
    rest = b""
    with file.open("rb") as stream:
        while True:
            last = ended.is_set()
            *lines, rest = (rest + stream.read()).split(b"\n")
            for line in lines:
                yield json.loads(line)
            if last:
                return
            ended.wait(POLL_S)
