"""Replicas that meet late: DNS away, a replica refused for a minute. And clocks that jump while they train."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from tests.e2e.project import Project
from tests.faults.table import training
from tests.faults.table.trial import Trial

DNS_AWAY_S = 30
LATE_S = 60
NAMESPACE = "--namespace=kubeflow"
COREDNS = ("deployment/coredns", "--namespace=kube-system")

pytestmark = pytest.mark.slow(reason="a training each, and a minute of waiting")


@pytest.mark.row("dns-away")
def test_replicas_meet_once_dns_is_back(
    project: Project, undisturbed_short: tuple[float, float], trial: Trial
) -> None:
    project.run("kubectl", "scale", *COREDNS, "--replicas=0")
    gone = ("--for=delete", "pod", "--selector=k8s-app=kube-dns", "--namespace=kube-system", "--timeout=90s")
    project.run("kubectl", "wait", *gone)
    try:
        with training.started(project, training.SHORT) as run:
            run.make.reaches("wait")
            trial.strike("wait")
            time.sleep(DNS_AWAY_S)
            assert run.progress == (0, 0), "nobody could find the master"
            project.run("kubectl", "scale", *COREDNS, "--replicas=2")
            run.goes_on(0)
            trial.recovered()
            assert run.result() == undisturbed_short
    finally:
        project.run("kubectl", "scale", *COREDNS, "--replicas=2")


@pytest.mark.row("replica-late")
def test_a_late_replica_is_waited_for(
    project: Project, undisturbed_short: tuple[float, float], trial: Trial
) -> None:
    # The operator's own pod is the first of the two.
    project.run("kubectl", NAMESPACE, "create", "quota", "one-replica", "--hard=pods=2")
    try:
        with training.started(project, training.SHORT) as run:
            run.make.reaches("wait")
            trial.strike("wait")
            time.sleep(LATE_S)
            assert run.progress == (0, 0), "one replica alone does not train"
            project.run("kubectl", NAMESPACE, "delete", "quota", "one-replica")
            run.goes_on(0)
            trial.recovered()
            assert run.result() == undisturbed_short
    finally:
        project.run("kubectl", NAMESPACE, "delete", "quota", "one-replica", "--ignore-not-found")


@pytest.fixture
def faketime(project: Project, tmp_path: Path) -> str:
    """Debian's libfaketime, put on the models' volume; where the pods see it."""
    subprocess.run(["apt-get", "download", "libfaketime"], cwd=tmp_path, check=True, capture_output=True)
    (package,) = tmp_path.glob("*.deb")
    subprocess.run(["dpkg-deb", "--extract", str(package), str(tmp_path)], check=True)
    (library,) = tmp_path.rglob("libfaketime.so.1")
    (project.models / library.name).write_bytes(library.read_bytes())
    return f"/opt/mnist/models/{library.name}"


@pytest.mark.row("clock-jumps")
def test_clocks_that_jump_change_no_result(
    project: Project, undisturbed: tuple[float, float], trial: Trial, faketime: str
) -> None:
    clock = project.models / "clock"
    clock.write_text("+0")
    environment = {
        "LD_PRELOAD": faketime,
        "FAKETIME_TIMESTAMP_FILE": "/opt/mnist/models/clock",
        "FAKETIME_NO_CACHE": "1",
        "DONT_FAKE_MONOTONIC": "1",  # the kernel's own does not jump either
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    with training.started(project, environment=environment) as run:
        for epoch, offset in ((1, "+3600"), (2, "-3600")):
            run.reaches(epoch, 0.3)
            hit, step = run.progress
            clock.write_text(offset)
            trial.strike(f"{offset} s, epoch {hit}")
            assert clock_of_master(project) == pytest.approx(time.time() + int(offset), abs=1800)
            run.goes_on(step)
            trial.recovered()
        assert run.result() == undisturbed


def clock_of_master(project: Project) -> float:
    """Seconds since the epoch, as the master's pod has them."""
    words = ("exec", f"{training.JOB}-master-0", "--", "python3", "-c", "import time; print(time.time())")
    return float(project.run("kubectl", NAMESPACE, *words).stdout)
