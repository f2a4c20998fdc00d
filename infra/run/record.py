"""The record of a run: the program that follows the job writes it into the run's folder, for any training program.

`run.json`: what ran, when, and how it ended. `printed.jsonl`: each `name=number` that the job's leader printed.
`timeline.json`: what happened to job and pods. `<replica>.log`: the end of each replica's log.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from infra import agreed
from infra.atomic_file import replacing
from infra.job.pod import TAKES
from infra.objects.job_kinds import JobKind
from infra.run import job_status
from infra.run.job_api import JobApi
from infra.run.log_follower import LogLine
from infra.run.metrics import named
from infra.run.replica_logs import LOG_LINES, ReplicaLogs
from infra.run.timeline import Timeline

MOST_PRINTED = 20_000
"""How many lines printed.jsonl may have. If there are more, every second line is dropped."""
KEEP_EVERY_S = 10.0
DELETED = "Deleted"
"""The outcome of a job that was deleted or replaced before its end."""
SENT = "sent"
"""Key of run.json: whether we have tried to write the record to a remote volume."""
NO_CHOICE = ("TRAINER_RUN",)
INJECTED = ("PET_", "JOB_COMPLETION_INDEX", "KUBEFLOW_TRAINER_SERVER_")
"""Beginnings of the names of variables that Trainer v2 sets."""


class Record:
    """The record of one run, as one wait for the job writes it.

    Parameters:
        folder: the run's folder on this machine; None writes nothing.
        model: the run's model file; None if the run has none, or the file is unknown.
        sends: whether the caller sends the record to a remote volume. Then a record that has the
            job's end, but was not sent, is read and completed again: the program that completed it has not sent it.

    Attributes:
        told: the content of run.json; empty until the job is seen.
        adds: whether to write more than the timeline. False if the record already has this job's end, or if the job
            takes the model of an earlier run.
    """

    def __init__(
        self, api: JobApi, folder: Path | None = None, model: str | None = None, *, sends: bool = False
    ) -> None:
        self.api, self.folder, self.model, self.sends = api, folder, model, sends
        self.timeline = Timeline()
        self.logs = ReplicaLogs(api, self._take_of, self._followed_of, self._say)
        self.told: dict[str, Any] = {}
        self.adds = True
        self._leader = "none"
        self._followed: deque[LogLine] = deque(maxlen=LOG_LINES)
        self._printed: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()
        self._written: dict[str, bytes] = {}
        self._said: set[str] = set()
        self._due = float("-inf")
        self._is_closed = False

    def see(self, job: dict[str, Any], pods: list[dict[str, Any]], found: Iterable[object] = ()) -> None:
        """Add the state of `job` and `pods`, and the logs of containers that have ended since the last call.

        Parameters:
            found: why pods do not run.
        """
        self.timeline.see(job, pods)
        if self.folder is None:
            return
        if not self.told:
            self._begin(job)
        if self.adds and not self.told["configuration"].get("image"):
            self.told["configuration"] = configuration(job, pods, self.api.kind)
            self.adds &= TAKES not in self.told["configuration"].get("environment", {})
        if self.adds:
            self._judge(job, pods, found)
            self.logs.read(pods)
        if time.monotonic() >= self._due:
            self.keep()
            self._due = time.monotonic() + KEEP_EVERY_S

    def follow(self, line: LogLine) -> None:
        """Add a line that the job's leader has just printed."""
        with self._lock:
            self._followed.append(line)
        self._take(line)

    def _take(self, line: LogLine) -> None:
        values = named(line.text)
        if not line.at or not values:
            return
        entry = {"at": line.at, **values}
        with self._lock:
            self._printed[json.dumps(entry)] = entry
            if len(self._printed) > MOST_PRINTED:
                ordered = sorted(self._printed.items(), key=lambda pair: str(pair[1]["at"]))
                self._printed = dict([*ordered[:-1:2], ordered[-1]])

    def close(self, pods: list[dict[str, Any]], outcome: str = "") -> None:
        """Read the rest of the logs of `pods`, write everything, and copy a succeeded run's model to the volume's top.

        Parameters:
            outcome: how the job ended, if the job itself cannot say it.
        """
        if self.told and self.adds:
            self.logs.read(pods, is_last=True)
            if outcome:
                self.told |= {"outcome": outcome, "end": _now()}
        if self.folder and self.model and self.adds and self.has_succeeded:
            with self._told("its model cannot be copied to the top of the volume"):
                place(self.folder, self.model)
        self._is_closed = True
        self.keep()

    @property
    def has_ended(self) -> bool:
        """Whether the job itself has said how it ended."""
        return self.told.get("outcome") in job_status.ENDS

    @property
    def has_succeeded(self) -> bool:
        """Whether the job is known to have succeeded."""
        return bool(self.told.get("outcome") == job_status.SUCCEEDED)

    def keep(self) -> None:
        """Write new content into the run's folder. If that fails, a line says so, and the training continues."""
        if self.folder is None or not self.told:
            return
        with self._told("its record cannot be written"):
            files = self.files()
            if self.adds and (len(files) > 2 or self.told.get("end")):
                _ensure_folder(self.folder)
            if not self.folder.is_dir():
                return
            if agreed.RECORD in files and not _is_ours(self.folder / agreed.RECORD):
                self._say(f"its record is not written: {self.folder / agreed.RECORD} belongs to your program")
                return
            # The record's files are never newer than the run's own files, whose time says when the run ended.
            own = [each for each in self.folder.iterdir() if not agreed.is_of_record(each.name)]
            latest = max((each.stat().st_mtime for each in own), default=None)
            for name, content in files.items():
                if self._written.get(name) != content:
                    with replacing(self.folder / name, latest) as file:
                        file.write(content)
                    self._written[name] = content

    def files(self) -> dict[str, bytes]:
        """The record's files, by their names; only the timeline if there is nothing to add.

        The end is written last, after all other work for the run: a run with an end is not read again.
        """
        timeline = {agreed.TIMELINE: f"{json.dumps(self.timeline.entries(), indent=1)}\n".encode()}
        if not self.told or not self.adds:
            return timeline
        told = self.told if self._is_closed else {**self.told, "outcome": None, "end": None}
        with self._lock:
            printed = sorted(self._printed.values(), key=lambda entry: str(entry["at"]))
        lines = "".join(f"{json.dumps(each)}\n" for each in printed)
        return {
            agreed.RECORD: f"{json.dumps(told, indent=1)}\n".encode(),
            **timeline,
            **({agreed.PRINTED: lines.encode()} if lines else {}),
            **{f"{name}{agreed.LOG}": text.encode() for name, text in self.logs.texts().items()},
        }

    def _begin(self, job: Mapping[str, Any]) -> None:
        """Read the existing record: of an earlier wait, or of an earlier job with the same run."""
        assert self.folder
        before = agreed.recorded(self.folder)
        with suppress(OSError):
            self.timeline.add((self.folder / agreed.TIMELINE).read_text())
        if agreed.has_end(before, self.api.uid) and not (self.sends and not before.get(SENT)):
            self.adds, self.told = False, before
            return
        same = before if before.get("uid") == self.api.uid else {}
        self.told = {
            "job": self.api.name,
            "kind": self.api.kind.kind,
            "namespace": self.api.namespace,
            "uid": self.api.uid,
            "model": self.model or before.get("model"),
            "configuration": same.get("configuration") or {},
            "started": same.get("started"),
            "begin": same.get("begin") or _time(job["metadata"].get("creationTimestamp")),
            "end": None,
            "outcome": None,
            "message": "",
        }
        with suppress(OSError):
            for line in (self.folder / agreed.PRINTED).read_text(errors="replace").splitlines():
                with suppress(ValueError, TypeError, KeyError):
                    entry = json.loads(line)
                    self._printed[json.dumps(entry)] = {**entry, "at": str(entry["at"])}
        for file in self.folder.glob(f"{self.api.name}-*{agreed.LOG}"):
            with suppress(OSError):
                self.logs.add(file.name.removesuffix(agreed.LOG), file.read_text(errors="replace"))

    def _judge(self, job: dict[str, Any], pods: list[dict[str, Any]], found: Iterable[object]) -> None:
        now, message = job_status.condition(job)
        self._leader = self.api.leader(job)
        states = (
            (each.get(key) or {}).get(how) or {}
            for pod in pods
            if pod["metadata"]["name"].startswith(self._leader)
            for each in job_status.containers(pod.get("status", {}))
            if each["name"] == self.api.kind.container
            for key in ("state", "lastState")
            for how in ("running", "terminated")
        )
        starts = [self.told.get("started"), *(_time(state.get("startedAt")) for state in states)]
        self.told["started"] = min(filter(None, starts), default=None)
        self.told["message"] = "; ".join([*filter(None, [message]), *(str(each) for each in found)])
        if now in job_status.ENDS:
            ends = [_time(each.get("lastTransitionTime")) for each in agreed.conditions(job)]
            self.told |= {"outcome": now, "end": max(filter(None, ends), default=None) or _now()}

    def _take_of(self, pod: str, line: LogLine) -> None:
        if pod.startswith(self._leader):
            self._take(line)

    def _followed_of(self, pod: str) -> list[LogLine]:
        with self._lock:
            return [*self._followed] if pod.startswith(self._leader) else []

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """Show an OSError inside the block as a sentence that begins with `what`."""
        try:
            yield
        except OSError as error:
            self._say(f"{what}: {error}")

    def _say(self, line: str) -> None:
        """Show a sentence once."""
        if line not in self._said:
            self._said.add(line)
            self.api.show(f"{self.api.name}: {line}")


def configuration(job: Mapping[str, Any], pods: Iterable[Mapping[str, Any]], kind: JobKind) -> dict[str, Any]:
    """Program, variables and number of processes of the replicas; empty if neither job nor pods say it.

    A TrainJob without its pods says neither image nor environment. A variable from a Secret is written as the name of
    the Secret: the variable's value is never read.
    """
    spec = job["spec"]
    templates = [each.get("template") or {} for each in (spec.get("pytorchReplicaSpecs") or {}).values()]
    found = [each for pod in templates or pods for each in (pod.get("spec") or {}).get("containers") or []]
    found = [each for each in found if each["name"] == kind.container] or [
        *filter(None, [spec.get("trainer")])
    ]
    return _of_container(found[0]) | {"processes": _processes(job)} if found else {}


def _of_container(container: Mapping[str, Any]) -> dict[str, Any]:
    variables = {each["name"]: _value(each) for each in container.get("env") or []}
    sources = [
        f"{kind.removesuffix('Ref')} {each[kind]['name']}"
        for each in container.get("envFrom") or []
        for kind in ("secretRef", "configMapRef")
        if each.get(kind)
    ]
    return {
        "image": container.get("image", ""),
        "command": [*(container.get("command") or []), *(container.get("args") or [])],
        "environment": {
            name: value
            for name, value in variables.items()
            if name not in NO_CHOICE and not name.startswith(INJECTED)
        },
        **({"environmentFrom": sources} if sources else {}),
    }


def _value(variable: Mapping[str, Any]) -> str:
    source = variable.get("valueFrom") or {}
    for kind, what in (("secretKeyRef", "secret"), ("configMapKeyRef", "configMap")):
        if held := source.get(kind):
            return f"({what} {held['name']}, key {held['key']})"
    return str(variable.get("value") or "")


def _processes(job: Mapping[str, Any]) -> int | None:
    spec = job["spec"]
    per_pod = spec.get("nprocPerNode") or (spec.get("trainer") or {}).get("numProcPerNode") or 1
    return job_status.wanted_pods(dict(job)) * int(per_pod) if str(per_pod).isdigit() else None


def place(folder: Path, model: str) -> None:
    """Copy the model of the run in `folder` to the top of its volume, if the model there is missing or older.

    Our trainer does this itself. Raises OSError.
    """
    own, top = folder / model, folder.parent.parent / model
    if not own.is_file() or (top.exists() and top.stat().st_mtime >= own.stat().st_mtime):
        return
    with own.open("rb") as content, replacing(top) as file:
        shutil.copyfileobj(content, file)


def _is_ours(file: Path) -> bool:
    return not file.exists() or bool(agreed.recorded(file.parent)) or not file.read_bytes().strip()


def _ensure_folder(folder: Path) -> None:
    """Create the folder of a run, and runs/. Pods may write there as in the volume's own folder."""
    volume = folder.parent.parent
    volume.mkdir(parents=True, exist_ok=True)
    known = volume.stat()
    for each in (folder.parent, folder):
        if each.is_dir():
            continue
        each.mkdir()
        try:
            os.chown(each, known.st_uid, known.st_gid)
            each.chmod(known.st_mode & 0o777 | 0o070)
        except PermissionError:  # the volume's folder belongs to another user, who must be able to write, too
            each.chmod(0o777)


def _time(text: object) -> str | None:
    return str(text).replace("+00:00", "Z").replace(" ", "T") if text else None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
