"""Replicas that meet late: DNS away, a replica refused for a minute. And clocks that jump while they train."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from tests.e2e.project import Project
from tests.faults.table import cluster, training
from tests.faults.table.trial import Trial, each_way

DNS_AWAY_S = 30
LATE_S = 60
NAMESPACE = "--namespace=kubeflow"
COREDNS = ("deployment/coredns", "--namespace=kube-system")

pytestmark = pytest.mark.slow(reason="a training each, and a minute of waiting")


@pytest.mark.parametrize("way", each_way("dns-away"))
def test_replicas_meet_once_dns_is_back(
    clone: Project, undisturbed_short: tuple[float, float], trial: Trial
) -> None:
    clone.run("kubectl", "scale", *COREDNS, "--replicas=0")
    gone = ("--for=delete", "pod", "--selector=k8s-app=kube-dns", "--namespace=kube-system", "--timeout=90s")
    clone.run("kubectl", "wait", *gone)
    try:
        with training.started(clone, training.SHORT) as run:
            run.make.reaches("wait")
            trial.strike("wait")
            time.sleep(DNS_AWAY_S)
            assert run.progress == (0, 0), "nobody could find the master"
            clone.run("kubectl", "scale", *COREDNS, "--replicas=2")
            run.goes_on(0)
            trial.recovered()
            assert run.result() == undisturbed_short
    finally:
        clone.run("kubectl", "scale", *COREDNS, "--replicas=2")


@pytest.mark.parametrize("way", each_way("replica-late"))
def test_a_late_replica_is_waited_for(
    clone: Project, undisturbed_short: tuple[float, float], trial: Trial
) -> None:
    pods = len(cluster.OPERATORS[clone.api]) + 1
    clone.run("kubectl", NAMESPACE, "create", "quota", "one-replica", f"--hard=pods={pods}")
    try:
        with training.started(clone, training.SHORT) as run:
            run.make.reaches("wait")
            trial.strike("wait")
            time.sleep(LATE_S)
            assert run.progress == (0, 0), "one replica alone does not train"
            clone.run("kubectl", NAMESPACE, "delete", "quota", "one-replica")
            run.goes_on(0)
            trial.recovered()
            assert run.result() == undisturbed_short
    finally:
        clone.run("kubectl", NAMESPACE, "delete", "quota", "one-replica", "--ignore-not-found")


@pytest.fixture
def faketime(clone: Project, tmp_path: Path) -> str:
    """Debian's libfaketime, put on the models' volume; where the pods see it."""
    subprocess.run(["apt-get", "download", "libfaketime"], cwd=tmp_path, check=True, capture_output=True)
    (package,) = tmp_path.glob("*.deb")
    subprocess.run(["dpkg-deb", "--extract", str(package), str(tmp_path)], check=True)
    (library,) = tmp_path.rglob("libfaketime.so.1")
    (clone.models / library.name).write_bytes(library.read_bytes())
    return f"/opt/mnist/models/{library.name}"


@pytest.mark.parametrize("way", each_way("clock-jumps"))
def test_clocks_that_jump_change_no_result(
    clone: Project, undisturbed: tuple[float, float], trial: Trial, faketime: str
) -> None:
    clock = clone.models / "clock"
    clock.write_text("+0")
    environment = {
        "LD_PRELOAD": faketime,
        "FAKETIME_TIMESTAMP_FILE": "/opt/mnist/models/clock",
        "FAKETIME_NO_CACHE": "1",
        "DONT_FAKE_MONOTONIC": "1",  # the kernel's own does not jump either
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    with training.started(clone, environment=environment) as run:
        for epoch, offset in ((1, "+3600"), (2, "-3600")):
            run.reaches(epoch, 0.3)
            hit, step = run.progress
            clock.write_text(offset)
            trial.strike(f"{offset} s, epoch {hit}")
            assert clock_of_master(clone) == pytest.approx(time.time() + int(offset), abs=1800)
            run.goes_on(step)
            trial.recovered()
        assert run.result() == undisturbed


def clock_of_master(clone: Project) -> float:
    """Seconds since the epoch, as the master's pod has them."""
    words = (
        "exec",
        cluster.pod_name(clone, "master"),
        "--",
        "python3",
        "-c",
        "import time; print(time.time())",
    )
    return float(clone.run("kubectl", NAMESPACE, *words).stdout)
