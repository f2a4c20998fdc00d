"""What is read from a volume elsewhere, by a kubectl that meets an API server which is away."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra import agreed
from infra.job.helper_pods import spec_fields
from infra.objects.api import ApiAddress
from infra.objects.retry import PAUSE_S, UnreachableError
from infra.process import CommandError
from infra.run import copy, reader_pod
from infra.run.copy import CopyError, fetch
from infra.run.reader_pod import ARCHIVE, AWAY, MISSING, MountedClaim
from tests.unit.infra.samples import stopped_clock

RUN = "mnist-0a1b2c3d"
VOLUME = MountedClaim(ApiAddress("/k", "c"), "kubeflow", "trainer@sha256:0", "models", "/opt/mnist/models")


class Kubectl:
    """Notes what it is asked for; fails as often as it is told to."""

    def __init__(self) -> None:
        self.commands: list[tuple[str, ...]] = []
        self.failures: list[str] = []
        self.exec_codes: list[tuple[int, str]] = []
        self.pod: dict[str, Any] = {}
        self.archive = b""

    def output(self, *command: str, stdin: str | None = None) -> str:
        self.commands.append(command)
        if self.failures:
            raise CommandError(self.failures.pop(0))
        if stdin:
            self.pod = json.loads(stdin)
        return ""

    def run(
        self, command: list[str], input: bytes | None, stdout: Any, stderr: Any, env: dict[str, str]
    ) -> subprocess.CompletedProcess[bytes]:
        assert env.keys() >= agreed.KUBECTL.keys()
        code, said = self.exec_codes.pop(0) if self.exec_codes else (0, "")
        whole = self.archive if ARCHIVE in command else b"model"
        stdout.write(whole[: len(whole) // 2] if code else whole)
        return subprocess.CompletedProcess(command, code, None, said.encode())


@pytest.fixture
def kubectl(monkeypatch: pytest.MonkeyPatch) -> Kubectl:
    made = Kubectl()
    stopped_clock(monkeypatch)
    monkeypatch.setattr(reader_pod, "output", made.output)
    monkeypatch.setattr("infra.run.reader_pod.subprocess.run", made.run)
    monkeypatch.setattr("infra.objects.retry.PAUSE_S", PAUSE_S)
    return made


def copied(tmp_path: Path) -> bytes:
    target = tmp_path / "models" / "mnist_cnn.pt"
    fetch(VOLUME, RUN, "mnist_cnn.pt", target, lambda line: None)
    there = {file.name for file in target.parent.iterdir()}
    assert there <= {"mnist_cnn.pt", "runs"}, "no partial file is left"
    return target.read_bytes()


def test_the_pod_only_reads_and_goes(kubectl: Kubectl, tmp_path: Path) -> None:
    assert copied(tmp_path) == b"model"
    assert [command[7] for command in kubectl.commands] == ["apply", "wait", "delete"]
    (mount,) = kubectl.pod["spec"]["containers"][0]["volumeMounts"]
    assert mount["readOnly"]
    assert kubectl.pod["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"]


@pytest.mark.parametrize("writes", [True, False])
def test_the_pod_is_in_the_group_of_the_folder(writes: bool) -> None:
    volume = replace(VOLUME, fields=spec_fields([], group=5000))
    spec = reader_pod.manifest("reader", volume, writes=writes)["spec"]["securityContext"]
    assert spec == {"runAsUser": 1000, "runAsGroup": 0, "runAsNonRoot": True, "supplementalGroups": [5000]}


@pytest.mark.parametrize("phrase", AWAY)
def test_a_server_that_is_away_is_waited_for(phrase: str, kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl.failures = [f"Unable to connect: {phrase}"] * 3
    kubectl.exec_codes = [(1, f"error: {phrase}")]
    assert copied(tmp_path) == b"model", "what came before the break is not kept"


def packed(*members: tuple[str, bytes | None]) -> bytes:
    """An archive as the pod's tar makes it, each file of second 1000; without content it is a link to /etc/passwd."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        folder = tarfile.TarInfo("./")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.mtime, member.size = 1000, len(content or b"")
            if content is None:
                member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
            archive.addfile(member, io.BytesIO(content or b""))
    return made.getvalue()


@pytest.mark.parametrize("is_the_runs", [False, True], ids=["one job", "several jobs"])
def test_the_whole_run_comes_with_its_times(kubectl: Kubectl, tmp_path: Path, is_the_runs: bool) -> None:
    kubectl.archive = packed(("./mnist_cnn.pt", b"trained"), ("./report.html", b"<html>"))
    run = tmp_path / "runs" / RUN
    target = (run if is_the_runs else tmp_path) / "mnist_cnn.pt"
    kubectl.exec_codes = [(1, "error: unexpected EOF")]
    fetch(VOLUME, RUN, "mnist_cnn.pt", target, lambda line: None)
    files = {"mnist_cnn.pt": b"trained", "report.html": b"<html>"}
    assert {file.name: file.read_bytes() for file in run.iterdir()} == files
    assert target.read_bytes() == b"trained"
    assert (run / "report.html").stat().st_mtime == 1000


def test_nothing_of_the_volume_is_written_anywhere_else(kubectl: Kubectl, tmp_path: Path) -> None:
    names = ("../out", "/out", "./events/out", "./link")
    planted = [(name, None if name == "./link" else b"out") for name in names]
    kubectl.archive = packed(*planted, ("./in", b"in"))
    assert copied(tmp_path / "stack") == b"model", "the run has none of its own, so that of the volume's top"
    files = [path.name for path in tmp_path.rglob("*") if path.is_file() or path.is_symlink()]
    assert sorted(files) == ["in", "mnist_cnn.pt"]


def test_a_server_that_stays_away_is_an_error(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl.failures = ["connection refused"] * 200
    with pytest.raises(UnreachableError):
        copied(tmp_path)


def test_a_file_that_is_not_there_is_said_at_once(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl.exec_codes = [(0, ""), (MISSING, "none of these files exists: /a /b")]
    with pytest.raises(
        CopyError, match="model cannot be copied from the volume: none of these files exists: /a /b"
    ):
        copied(tmp_path)
    assert not (tmp_path / "models" / "mnist_cnn.pt").exists()


def test_other_errors_are_not_tried_again(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl.failures = ["forbidden"]
    with pytest.raises(CommandError, match="forbidden"):
        copied(tmp_path)


@pytest.fixture
def volume(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MountedClaim:
    """A folder in the place of a volume: what would run in a pod runs here."""
    run = {True: list[str](), False: ["false"]}
    monkeypatch.setattr(copy, "running", lambda *_, **options: nullcontext(run[options["writes"]]))
    return replace(VOLUME, mount_path=str(tmp_path))


@pytest.mark.parametrize(
    ("top", "on_top", "placed"),
    [(None, True, True), (900, True, True), (1000, True, False), (900, False, False)],
    ids=["none", "older", "its own", "failed"],
)
def test_a_record_goes_to_the_volume_and_a_model_on_top(
    volume: MountedClaim, tmp_path: Path, top: int | None, on_top: bool, placed: bool
) -> None:
    run = tmp_path / "runs" / RUN
    run.mkdir(parents=True)
    (run / "own.pt").write_text("new")
    os.utime(run / "own.pt", (1000, 1000))
    if top:
        (tmp_path / "own.pt").write_text("old")
        os.utime(tmp_path / "own.pt", (top, top))
    copy.send(volume, RUN, "own.pt", {"run.json": b"{}", "j-master-0.log": b"step"}, on_top=on_top)
    files = {"own.pt": "new", "run.json": "{}", "j-master-0.log": "step"}
    assert {each.name: each.read_text() for each in run.iterdir()} == files
    assert {each.stat().st_mtime for each in run.iterdir()} == {1000}, "it tells when the run has ended"
    latest = tmp_path / "own.pt"
    assert (latest.read_text() if latest.exists() else None) == ("new" if placed else "old" if top else None)
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []


def test_a_run_that_left_no_folder_gets_one_for_its_record(volume: MountedClaim, tmp_path: Path) -> None:
    copy.send(volume, RUN, "", {"run.json": b"{}"}, on_top=True)
    assert (tmp_path / "runs" / RUN / "run.json").read_bytes() == b"{}"


@pytest.mark.parametrize("before", ["", '{"uid": "u", "outcome": null}', '{"lr": 1}'])
def test_a_file_of_the_programs_own_stays(volume: MountedClaim, tmp_path: Path, before: str) -> None:
    run = tmp_path / "runs" / RUN
    run.mkdir(parents=True)
    (run / "run.json").write_text(before)
    (run / "own.pt").write_text("weights")
    own = "lr" in before
    with pytest.raises(CopyError, match=r"run\.json belongs to your program") if own else nullcontext():
        copy.send(volume, RUN, "own.pt", {"run.json": b"new"}, on_top=True)
    assert (run / "run.json").read_text() == (before if own else "new")
    assert (tmp_path / "own.pt").read_text() == "weights"
    assert [each.name for each in run.iterdir() if each.name.startswith(".")] == []


@pytest.mark.parametrize("said", ["", "Error: no such pod"])
def test_a_kubectl_that_fails_says_so_and_asks_without_websockets(
    monkeypatch: pytest.MonkeyPatch, volume: MountedClaim, said: str
) -> None:
    """One that was killed says nothing."""

    def run(command: list[str], env: dict[str, str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        assert env.items() >= agreed.KUBECTL.items()
        return subprocess.CompletedProcess(command, -9, None, said.encode())

    monkeypatch.setattr("infra.run.reader_pod.subprocess.run", run)
    with pytest.raises(CopyError, match=said or "kubectl exec ended with -9"):
        copy.send(volume, RUN, "", {"run.json": b"{}"}, on_top=False)


def test_a_volume_that_takes_no_record_is_an_error(volume: MountedClaim, tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file in its place")
    with pytest.raises(CopyError, match="runs"):
        copy.send(volume, RUN, "", {"run.json": b"{}"}, on_top=True)


def test_the_pod_that_writes_is_the_jobs_user() -> None:
    props = {"namespace": "n", "image": "i", "claim": "c", "mountPath": "/m", "user": 2000}
    spec = reader_pod.manifest("writes", MountedClaim.from_props(props), writes=True)["spec"]
    assert spec["securityContext"]["runAsUser"] == 2000
