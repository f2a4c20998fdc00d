"""One stack with 1, 10, 100 and 500 jobs, on 1,000 simulated nodes of a real cluster.

API server, etcd, scheduler, controllers and training-operator are those that `make up` brings; kwok plays the kubelets,
and each pod ends by itself. The jobs come from a matrix, with one replica each. Beside it, taking turns, `kubectl apply
--server-side` of the same objects, until all jobs have succeeded, and `kubectl delete`.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client, config

from infra import dataset, stack_plan
from infra.config.load import from_raw
from tests.bench import peak_memory, simulated_nodes
from tests.bench.conftest import Recorder, show, table
from tests.e2e import clones
from tests.e2e.project import Project
from tests.matrix import service_account
from tests.matrix.project import AppliedProject, with_changes

pytestmark = [pytest.mark.e2e, pytest.mark.bench]

NODES = 1000
# Jobs -> rounds of a thorough run; the times are medians of them.
ROUNDS = {1: 3, 10: 3, 100: 3, 500: 1}
MANY = 100
"""Jobs, more of which only a thorough run has."""
VOLUME = {"storage.kind": "nfs", "storage.nfsServer": "nfs.example", "storage.nfsPath": "/models"}
"""A volume that all nodes see; no simulated pod mounts it."""
OPERATOR = {"concurrency": 8, "qps": 200, "burst": 400}
UPDATE = ("--yes", "--skip-preview")
STEPS = {
    "preview": ("preview",),
    "up": ("up", *UPDATE),
    "up, no change": ("up", *UPDATE, "--refresh", "--expect-no-changes"),
    "refresh": ("refresh", *UPDATE),
    "destroy": ("destroy", *UPDATE),
}
SWITCHED_JOBS = 100
SWITCHES = (
    "PULUMI_DIY_BACKEND_DISABLE_CHECKPOINT_BACKUPS",
    "PULUMI_DISABLE_INTEGRITY_CHECKING",
    "PULUMI_SKIP_CHECKPOINTS",
)
APPLY, ENDED, DELETE = "kubectl apply", "kubectl apply, until all have ended", "kubectl delete"
COMPARED = {"up": ENDED, "destroy": DELETE}
USER = "measured"
COUNTER = re.compile(
    rf'^apiserver_flowcontrol_dispatched_requests_total{{flow_schema="{USER}",.*}} (\S+)$', re.MULTILINE
)


@dataclass(frozen=True)
class Cluster:
    """A cluster with simulated nodes.

    Parameters:
        kubeconfig: of a ServiceAccount that may do everything; its requests are counted.
        admin: one whose requests are not.
        tops: process ids, here, below which the cluster's processes run.
    """

    kubeconfig: Path
    admin: Path
    tops: tuple[int, ...]

    def asked(self) -> int:
        """Requests of the ServiceAccount that the API server has taken so far."""
        asked = ["kubectl", f"--kubeconfig={self.admin}", "get", "--raw", "/metrics"]
        told = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
        return sum(int(float(each)) for each in COUNTER.findall(told))


class Scale:
    """One size: the stack and the same objects for kubectl, and what has been measured of them."""

    def __init__(self, jobs: int, folder: Path, cluster: Cluster) -> None:
        self.jobs, self.cluster = jobs, cluster
        self.project = AppliedProject(folder, cluster.kubeconfig, f"scale-{jobs}")
        self.project.configured(**self._changes(f"scale-{jobs}"))
        self.times: dict[str, list[float]] = {}
        self.requests: dict[str, list[int]] = {}
        self.peaks: dict[str, int] = {}
        self.state_kib = 0
        self.namespace = f"kubectl-{jobs}"
        self.manifest = folder / "all.yaml"
        self.manifest.write_text(yaml.safe_dump_all(self._objects()))

    def _changes(self, namespace: str) -> dict[str, Any]:
        return {
            "cluster.namespace": namespace,
            "job.replicas": {"worker": None},
            "matrix.options": {"training.seed": [*range(self.jobs)]},
            **VOLUME,
            **simulated_nodes.CHOSEN,
        }

    def _objects(self) -> list[dict[str, Any]]:
        stack = from_raw(self.namespace, with_changes(self._changes(self.namespace)), "")
        planned = stack_plan.reviewed(stack)
        found = stack_plan.of(stack, planned, dataset.of_jobs(stack))
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        return [namespace, *(each.manifest for each in found if each.phase != stack_plan.SPACES)]

    def round(self) -> None:
        """Everything once."""
        asked, began = self.cluster.asked(), time.perf_counter()
        self.take(APPLY, lambda: self._kubectl("apply", "--server-side", "-f", str(self.manifest)))
        wait = ("wait", "--for=condition=Succeeded", "--timeout=1h", "pytorchjobs", "--all")
        self._kubectl(*wait, "-n", self.namespace)
        self._note(ENDED, began, asked)
        self.take(DELETE, lambda: self._kubectl("delete", "-f", str(self.manifest)))
        for name, words in STEPS.items():
            self.take(name, lambda words=words: self.pulumi(*words))  # type: ignore[misc]
            if name == "up":
                (state,) = (self.project.folder.parent / "state").rglob(f"{self.project.stack}.json")
                self.state_kib = state.stat().st_size // 1024
        self._add(peak_memory.below(*self.cluster.tops))

    def take(self, name: str, action: Callable[[], object]) -> None:
        asked, began = self.cluster.asked(), time.perf_counter()
        action()
        self._note(name, began, asked)

    def _note(self, name: str, began: float, asked: int) -> None:
        self.times.setdefault(name, []).append(time.perf_counter() - began)
        self.requests.setdefault(name, []).append(self.cluster.asked() - asked)

    def pulumi(self, *words: str) -> None:
        self._run("pulumi", *words, "--stack", self.project.stack, "--non-interactive")

    def _kubectl(self, *words: str) -> None:
        self._run("kubectl", f"--kubeconfig={self.cluster.kubeconfig}", *words)

    def _run(self, *command: str) -> None:
        _, peaks = peak_memory.run([*command], self.project.folder, self.project.environment)
        self._add(peaks)

    def _add(self, peaks: dict[str, int]) -> None:
        for role, peak in peaks.items():
            self.peaks[role] = max(peak, self.peaks.get(role, 0))

    def median(self, name: str) -> float:
        return statistics.median(self.times[name])


@pytest.fixture(scope="module")
def measured(request: pytest.FixtureRequest, record: Recorder) -> Iterator[list[Scale]]:
    """What each size adds; at the end the table and the data of all."""
    found: list[Scale] = []
    yield found
    if found:
        show(request, f"\n{_table(found)}")
        record("scale", [*_rows(found)])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """That of a stack of its own, whose operator is as fast as it can be set, with simulated nodes."""
    folder = tmp_path_factory.mktemp("cluster")
    with clones.temporary("scale") as clone:
        clone.configure({"trainstack:operator": OPERATOR})
        clone.up()
        kubeconfig = Path(clone.environment()["KUBECONFIG"])
        with simulated_nodes.running(kubeconfig, NODES, folder / "kwok.log") as kwok:
            yield Cluster(counted(kubeconfig, folder), kubeconfig, (kwok, first_process(clone)))


def first_process(clone: Project) -> int:
    """Of the node's container, by its number outside."""
    node = f"{clone.cluster}-control-plane"
    return int(clone.run("docker", "inspect", "--format", "{{.State.Pid}}", node).stdout)


def counted(kubeconfig: Path, folder: Path) -> Path:
    """A kubeconfig of a ServiceAccount that may do everything, and waits for nobody, as an administrator."""
    admin: Any = config.new_client_from_config(str(kubeconfig))  # type: ignore[no-untyped-call]
    core: Any = client.CoreV1Api(admin)
    core.create_namespaced_service_account("default", {"metadata": {"name": USER}})
    subject = {"kind": "ServiceAccount", "name": USER, "namespace": "default"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    binding: Any = {"metadata": {"name": USER}, "roleRef": role, "subjects": [subject]}
    client.RbacAuthorizationV1Api(admin).create_cluster_role_binding(binding)
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    rule = {
        "subjects": [{"kind": "ServiceAccount", "serviceAccount": {"name": USER, "namespace": "default"}}],
        "resourceRules": [{**everything, "clusterScope": True, "namespaces": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }
    spec = {"priorityLevelConfiguration": {"name": "exempt"}, "matchingPrecedence": 2, "rules": [rule]}
    flow: Any = {"metadata": {"name": USER}, "spec": spec}
    client.FlowcontrolApiserverV1Api(admin).create_flow_schema(flow)
    return service_account.kubeconfig(kubeconfig, core, "default", USER, folder)


@pytest.mark.parametrize(
    "jobs", [pytest.param(jobs, marks=[pytest.mark.thorough] if jobs > MANY else []) for jobs in ROUNDS]
)
def test_a_stack_of_many_jobs(
    jobs: int, measured: list[Scale], cluster: Cluster, thorough: bool, tmp_path: Path
) -> None:
    scale = Scale(jobs, tmp_path, cluster)
    try:
        scale.pulumi("preview")  # compiles modules, as the first command on a machine does
        for _ in range(ROUNDS[jobs] if thorough else 1):
            scale.round()
    except BaseException:
        scale.project.destroy()
        raise
    measured.append(scale)


def test_switches_of_the_cli(
    request: pytest.FixtureRequest, cluster: Cluster, thorough: bool, tmp_path: Path
) -> None:
    """What changes how often, or with how much care, the CLI writes a stack's state; the last switch changes most."""
    scale = Scale(SWITCHED_JOBS, tmp_path, cluster)
    scale.pulumi("preview")
    rows = []
    for name in ("", *SWITCHES, "") if thorough else ("", SWITCHES[-1]):
        switch = {name: "true"} if name else {}
        with pytest.MonkeyPatch.context() as changed:
            changed.setattr(scale.project, "environment", scale.project.environment | switch)
            scale.times.clear()
            for step in ("up", "destroy"):
                scale.take(step, lambda step=step: scale.pulumi(*STEPS[step]))  # type: ignore[misc]
        rows.append([name or "nothing", *(f"{scale.median(step):.1f} s" for step in ("up", "destroy"))])
    title = f"{SWITCHED_JOBS} jobs, with | up | destroy"
    show(request, f"\n{table(title, rows)}")


def _rows(found: list[Scale]) -> Iterator[dict[str, Any]]:
    for each in found:
        for name, times in each.times.items():
            yield {"jobs": each.jobs, "step": name, "seconds": [round(one, 3) for one in times]}


def _table(found: list[Scale]) -> str:
    rows = []
    for name in (APPLY, ENDED, DELETE, *STEPS):
        cells = []
        for each in found:
            times = each.times[name]
            cells.append(f"{each.median(name):.2f} s ({min(times):.2f} to {max(times):.2f})")
        rows.append([name, *cells])
    for name, other in COMPARED.items():
        ratios = [f"{each.median(name) / each.median(other):.1f} x" for each in found]
        rows.append([f"{name} to {other}", *ratios])
    for name in (ENDED, DELETE, *STEPS):
        counts = [f"{statistics.median(each.requests[name]):.0f}" for each in found]
        rows.append([f"requests: {name}", *counts])
    rows.append(["state", *(f"{each.state_kib} KiB" for each in found)])
    for role in sorted({role for each in found for role in each.peaks}):
        rows.append([f"peak of {role}", *(f"{each.peaks.get(role, 0)} MiB" for each in found)])
    sizes = " | ".join(f"{each.jobs} jobs" for each in found)
    return table(f"median (range) | {sizes}", rows)
