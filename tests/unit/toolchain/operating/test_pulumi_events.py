"""Pulumi's event log: what is said of it, and what is not."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from toolchain.operating import pulumi_events
from toolchain.operating.pulumi_events import Reader
from toolchain.paths import LINKS, VENV


class Read:
    """A reader, and what it says, tells and notes."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.events: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self.reader = Reader(
            self.lines.append, lambda event: self.events.append(dict(event)), self.notes.append
        )


@pytest.fixture
def read() -> Read:
    return Read()


def said(message: str, severity: str = "info", **more: Any) -> dict[str, Any]:
    return {"diagnosticEvent": {"message": f"{message}\n", "severity": severity, "color": "never", **more}}


def resource(kind: str, urn: str, operation: str = "create", custom: bool = True) -> dict[str, Any]:
    return {
        kind: {"metadata": {"op": operation, "urn": urn, "type": "t", "old": None, "new": {"custom": custom}}}
    }


JOB = "urn:pulumi:dev::trainstack::a$kubernetes:kubeflow.org/v1:PyTorchJob::PyTorchJob/pytorch-simple"
RUN = "urn:pulumi:dev::trainstack::trainstack:job:Job$pulumi-python:dynamic/trainstack:Run::pytorch-simple"


@pytest.mark.parametrize("folder", [LINKS, VENV / "bin"])
@pytest.mark.parametrize("name", ["language-python", "resource-kubernetes", "resource-pulumi-python"])
def test_no_warning_of_a_plugin_of_ours(read: Read, folder: Path, name: str) -> None:
    read.reader.take(said(f"using pulumi-{name} from $PATH at {folder}/pulumi-{name}", "warning"))
    assert read.lines == []


def test_a_plugin_of_the_users_is_warned_of(read: Read) -> None:
    read.reader.take(
        said("using pulumi-resource-kubernetes from $PATH at /opt/pulumi-resource-kubernetes", "warning")
    )
    assert read.lines == [
        "warning: using pulumi-resource-kubernetes from $PATH at /opt/pulumi-resource-kubernetes"
    ]


@pytest.mark.parametrize(
    ("severity", "expected"),
    [
        ("debug", []),
        ("info", ["it is so"]),
        ("info#err", ["it is so"]),
        ("warning", ["warning: it is so"]),
        ("error", ["error: it is so"]),
    ],
)
def test_every_kind_of_message(read: Read, severity: str, expected: list[str]) -> None:
    read.reader.take(said("it is so", severity))
    assert read.lines == expected
    assert read.reader.has_error is (severity == "error")


def test_a_message_for_the_moment_is_for_the_live_view_alone(read: Read) -> None:
    read.reader.take(said("Waiting for the Deployment", ephemeral=True, urn=JOB))
    assert (read.lines, read.events) == (
        [],
        [{"is": "object", "urn": JOB, "text": "Waiting for the Deployment"}],
    )


def test_an_error_keeps_its_lines(read: Read) -> None:
    read.reader.take(said("boom\n  fix: mend it", "error"))
    assert read.lines == ["error: boom\n  fix: mend it"]


CLAIM = "urn:pulumi:dev::trainstack::a$kubernetes:core/v1:PersistentVolumeClaim::PersistentVolumeClaim/a/b"


@pytest.mark.parametrize(
    ("urn", "text", "expected"),
    [
        (CLAIM, "the server answered 403: {}", "PersistentVolumeClaim a/b: the server answered 403: {}"),
        (CLAIM, "PersistentVolumeClaim a/b: gone", "PersistentVolumeClaim a/b: gone"),
        (RUN, "boom", "boom"),
        ("", "boom", "boom"),
    ],
    ids=["unnamed", "named", "another resource", "of the whole update"],
)
def test_an_error_names_its_object(read: Read, urn: str, text: str, expected: str) -> None:
    read.reader.take(said(text, "error", urn=urn))
    assert read.lines == [f"error: {expected}"]
    assert pulumi_events.about_object({"urn": urn, "message": f"error: {text}\n"}) == expected


def test_whether_an_error_says_its_fix_is_noticed(read: Read) -> None:
    read.reader.take(said("boom", "error"))
    assert not read.reader.has_fix
    read.reader.take(said("boom\n  fix: mend it", "error"))
    assert read.reader.has_fix
    read.reader.begin()
    assert not read.reader.has_fix


def test_nothing_is_said_twice_by_the_rounds_of_an_update(read: Read) -> None:
    for _ in range(3):
        read.reader.begin()
        for text in ("dataset auto is digits", "dataset auto is digits", "other"):
            read.reader.take(said(text))
    assert read.lines == ["dataset auto is digits", "other"]


def test_what_happens_again_is_said_again(read: Read) -> None:
    read.reader.begin()
    away, back = "the API server does not answer", "the API server is back after 3 s"
    for text in (away, back, away, back):
        read.reader.take(said(text))
    assert read.lines == [away, back, away, back]


def test_what_is_under_way_is_noted(read: Read) -> None:
    for kind, urn in (("resourcePreEvent", JOB), ("resourcePreEvent", RUN), ("resOutputsEvent", JOB)):
        read.reader.take(resource(kind, urn))
    assert read.notes == [
        "PyTorchJob pytorch-simple",
        "PyTorchJob pytorch-simple, Run pytorch-simple",
        "Run pytorch-simple",
    ]
    assert [event["now"] for event in read.events] == ["runs", "runs", "done"]


@pytest.mark.parametrize(
    "event", [resource("resourcePreEvent", JOB, "same"), resource("resourcePreEvent", JOB, custom=False)]
)
def test_what_nobody_makes_is_not_noted(read: Read, event: dict[str, Any]) -> None:
    read.reader.take(event)
    assert (read.notes, read.events) == ([], [])


def test_progress_of_a_job_is_told_in_short(read: Read) -> None:
    for text in ("j: Running", "j: Train Epoch: 1 [0/10 (0%)]\tloss=2.0", "j: accuracy=0.5", "j: loss=0.1"):
        read.reader.take(said(f"{text}\n"))
    read.reader.end()
    assert read.lines == ["j: Running", "j: epoch 1: accuracy=0.5 loss=0.1"]


def test_a_log_is_read_to_its_end_as_it_is_written(tmp_path: Path) -> None:
    file, over = tmp_path / "events", threading.Event()
    whole = [json.dumps(said(str(number))) for number in range(5)]
    file.write_text(f"{whole[0]}\n{whole[1][:20]}")
    found: list[str] = []
    for event in pulumi_events.follow(file, over):
        found.append(event["diagnosticEvent"]["message"].strip())
        if len(found) == 1:
            with file.open("a") as more:
                more.write(whole[1][20:] + "\n" + "\n".join(whole[2:]) + "\n")
            over.set()
    assert found == ["0", "1", "2", "3", "4"]


def refreshed(name: str, **metadata: Any) -> dict[str, Any]:
    kind = "kubernetes:core/v1:ConfigMap"
    urn = f"urn:pulumi:dev::trainstack::{kind}::ConfigMap/kubeflow/{name}"
    found = {"op": "refresh", "urn": urn, "type": kind, "old": {"custom": True}, "new": {"custom": True}}
    return {"resOutputsEvent": {"metadata": {**found, **metadata}}}


def test_what_a_refresh_finds_is_said(read: Read) -> None:
    diff = {"spec.b": {"diffKind": "update"}, "data.a": {"diffKind": "delete"}}
    for event in (
        refreshed("as-it-was", detailedDiff={}),
        refreshed("unread", detailedDiff=None),
        refreshed("edited", detailedDiff=diff),
        refreshed("deleted", new=None),
        refreshed("updated", op="update", detailedDiff=diff),
        refreshed("a-file", type="pulumi-python:dynamic/trainstack:ModelCopy", new=None),
    ):
        read.reader.take(event)
    assert read.lines == [
        "found changed in the cluster: ConfigMap kubeflow/edited (data.a, spec.b)",
        "found gone from the cluster: ConfigMap kubeflow/deleted",
    ]


def test_of_what_was_to_go_nothing_is_said(read: Read) -> None:
    """The program tells why it has."""
    read.reader.expected = {"PyTorchJob/kubeflow/mnist"}
    for name in ("mnist", "other"):
        metadata = {"namespace": "kubeflow", "name": name}
        held = {"custom": True, "inputs": {"kind": "PyTorchJob", "metadata": metadata}}
        read.reader.take(refreshed(name, old=held, new=None))
    assert read.lines == ["found gone from the cluster: ConfigMap kubeflow/other"]


def test_of_many_findings_only_some_are_said(read: Read) -> None:
    for number in range(pulumi_events.MOST_DRIFTED + 7):
        read.reader.take(refreshed(str(number), new=None))
    read.reader.end()
    assert len(read.lines) == pulumi_events.MOST_DRIFTED + 1
    assert read.lines[-1] == "found changed or gone in the cluster: 7 more objects"
    read.reader.begin()
    read.reader.end()
    assert len(read.lines) == pulumi_events.MOST_DRIFTED + 1, "the next pulumi has found nothing yet"


COMPONENT = "urn:pulumi:dev::trainstack::trainstack"
IMAGE = f"{COMPONENT}:image:Image::dev-image"


def made(urn: str, parent: str = "") -> dict[str, Any]:
    return {"resourcePreEvent": {"metadata": {"urn": urn, "op": "create", "new": {"parent": parent}}}}


def object_of(kind: str, name: str, component: str) -> tuple[str, dict[str, Any]]:
    urn = f"{component.rpartition('::')[0]}${kind}::{name}"
    return urn, made(urn, component)


def failure(urn: str, parent: str) -> dict[str, Any]:
    return {"resOpFailedEvent": {"metadata": {"urn": urn, "op": "create", "new": {"parent": parent}}}}


def job(name: str) -> str:
    return f"{COMPONENT}:job:Job::{name}"


REFUSED, BEGUN = object_of("kubernetes:kubeflow.org/v1:PyTorchJob", "PyTorchJob/bad", job("bad"))
FAILED = f"{job('bad').rpartition('::')[0]}$pulumi-python:dynamic/trainstack:Run::bad"
BUILT = f"{IMAGE.rpartition('::')[0]}$pulumi-python:dynamic/trainstack:BuiltImage::dev"


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([BEGUN, failure(REFUSED, job("bad"))], {REFUSED: "bad"}),
        ([failure(FAILED, job("bad"))], {FAILED: "bad"}),
        ([failure(FAILED, job("bad")), said("no such", "error", urn=FAILED)], {FAILED: "bad"}),
        ([BEGUN, said("a preview says no more", "error", urn=REFUSED)], {REFUSED: "bad"}),
        ([BEGUN, said("retried", "warning", urn=REFUSED)], {}),
        ([failure(REFUSED, job("bad")), said("update failed", "error")], {REFUSED: "bad"}),
        ([failure(REFUSED, job("bad")), failure(BUILT, IMAGE)], {}),
        ([failure(REFUSED, job("bad")), said("the program", "error", urn=f"{COMPONENT}::Stack::dev")], {}),
        ([failure(REFUSED, job("bad")), failure(FAILED, job("good"))], {}),
        ([], {}),
    ],
)
def test_jobs_that_have_failed_alone_are_told(events: list[dict[str, Any]], expected: dict[str, str]) -> None:
    registered = [made(IMAGE), *(made(job(name)) for name in ("good", "bad"))]
    assert pulumi_events.failed_jobs([*registered, *events]) == expected


def test_the_only_job_is_not_left_out() -> None:
    assert pulumi_events.failed_jobs([made(job("bad")), failure(REFUSED, job("bad"))]) == {}
