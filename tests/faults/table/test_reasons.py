"""A job that cannot start: `make up` says why within half a minute, and the job runs once the cause is gone."""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.e2e.project import Project
from tests.e2e.waiting import wait_until
from tests.faults.table import cluster, training
from tests.faults.table.trial import Trial, of_each_way

WITHIN_S = 30
NO_SUCH = "trainstack/no-such:1"
OTHER = "trainstack/other-processor:1"
# The head of a program for a 64-bit ARM: type EXEC, machine 183. The kernel refuses it before it reads on.
ARM64 = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xb7\x00\x01\x00\x00\x00" + bytes(40)


def other_processor(project: Project) -> None:
    """Put an image whose python3 is for another processor into the node."""
    with io.BytesIO() as packed:
        with tarfile.open(fileobj=packed, mode="w") as archive:
            entry = tarfile.TarInfo("usr/bin/python3")
            entry.size, entry.mode = len(ARM64), 0o755
            archive.addfile(entry, io.BytesIO(ARM64))
        pipe(project, ["docker", "import", "-", OTHER], packed.getvalue())
    saved = subprocess.run(
        ["docker", "save", OTHER], env=project.environment(), capture_output=True, check=True
    )
    imported = ["docker", "exec", "--interactive", cluster.node(project), "ctr", "--namespace=k8s.io"]
    pipe(project, [*imported, "images", "import", "-"], saved.stdout)


def pipe(project: Project, command: list[str], content: bytes) -> None:
    subprocess.run(command, env=project.environment(), input=content, capture_output=True, check=True)


def quota(project: Project) -> None:
    project.run("kubectl", "--namespace=kubeflow", "create", "quota", "few", "--hard=pods=1")


def no_quota(project: Project) -> None:
    project.run("kubectl", "--namespace=kubeflow", "delete", "quota", "few", "--ignore-not-found")


def label(project: Project) -> None:
    project.run("kubectl", "label", "node", cluster.node(project), "disk=fast", "--overwrite")


def nothing(project: Project) -> None:
    """The stack file alone is wrong."""


@dataclass(frozen=True)
class Case:
    """`words`: the reason as Kubernetes calls it. `ends`: whether `make up` gives the job up by itself."""

    words: str
    before: Callable[[Project], None] = nothing
    mend: Callable[[Project], None] = nothing
    changed: dict[str, dict[str, Any]] | None = None
    ends: bool = False


CASES = {
    "image-missing": Case(
        "ErrImagePull|ImagePullBackOff",
        changed={"trainstack:image": {"reference": f"localhost:5000/{NO_SUCH}", "unpinned": True}},
        ends=True,
    ),
    "wrong-architecture": Case(
        "WrongArchitecture",
        before=other_processor,
        changed={"trainstack:image": {"reference": f"docker.io/{OTHER}", "unpinned": True}},
        ends=True,
    ),
    "quota-exceeded": Case("exceeded quota", before=quota, mend=no_quota),
    "unschedulable": Case(
        "Unschedulable",
        mend=label,
        changed={"trainstack:job": {"pod": {"spec": {"nodeSelector": {"disk": "fast"}}}}},
    ),
}


@pytest.fixture
def mended(clone: Project) -> Iterator[None]:
    committed = clone.stack_file.read_text()
    yield
    clone.stack_file.write_text(committed)
    no_quota(clone)


@pytest.mark.slow(reason="a run of make up that waits for what cannot come, and a second one")
@pytest.mark.usefixtures("mended")
@pytest.mark.parametrize(("way", "row"), of_each_way(CASES))
def test_the_reason_is_said(clone: Project, trial: Trial, row: str) -> None:
    case = CASES[row]
    clone.stand_up()
    committed = clone.stack_file.read_text()
    case.before(clone)
    clone.configure(case.changed or {})
    with training.started(clone, training.SHORT) as run:
        run.make.reaches("wait")
        trial.strike("wait")
        wait_until(f"it says {case.words}", lambda: run.make.says(case.words), pause=0.1)
        trial.recovered()
        if case.ends:
            assert run.make.ended() != 0, "nobody can run this"
            clone.stack_file.write_text(committed)
            clone.up()
        case.mend(clone)
        assert case.ends or run.make.ended() == 0, run.make.output
    assert (trial.faults[-1].seconds or 0) <= WITHIN_S
