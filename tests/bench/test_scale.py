"""One stack with 1, 10, 100 and 500 jobs, on an API server without nodes.

Jobs end by a played operator: what is measured is Pulumi, our program and the plugins, and the server's answers. The
jobs come from a matrix, with one replica each. Beside it, taking turns, `kubectl apply --server-side` of the same
objects, until all jobs have succeeded, and `kubectl delete`. Requests are those of the server's audit log.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client, config

from infra import dataset
from infra.config.load import from_raw
from infra.guard import component as guard
from infra.review import rendering
from standins.tests.apiserver import ApiServer
from standins.tests.conftest import api_server  # noqa: F401 - a fixture
from tests.bench import peak_memory
from tests.bench.conftest import show, table
from tests.matrix import service_account
from tests.matrix.conftest import operator  # noqa: F401 - a fixture
from tests.matrix.played_operator import PlayedOperator
from tests.matrix.project import AppliedProject, with_changes

pytestmark = [pytest.mark.e2e, pytest.mark.bench]

# Jobs -> rounds; the times are medians of them.
ROUNDS = {1: 3, 10: 3, 100: 3, 500: 1}
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


class Scale:
    """One size: the stack and the same objects for kubectl, and what has been measured of them."""

    def __init__(self, jobs: int, folder: Path, server: ApiServer, kubeconfig: Path) -> None:
        self.jobs, self.kubeconfig, self.audit = jobs, kubeconfig, server.audit
        self.project = AppliedProject(folder, kubeconfig, f"scale-{jobs}")
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
        }

    def _objects(self) -> list[dict[str, Any]]:
        stack = from_raw(self.namespace, with_changes(self._changes(self.namespace)), "")
        planned = rendering.rendered_plan(stack)
        workload = rendering.workload(stack, planned, str(stack.image.reference), dataset.of_jobs(stack))
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        others = [each for each in workload if each["kind"] != "Namespace"]
        return [namespace, *others, *guard.manifests(stack)]

    def round(self) -> None:
        """Everything once."""
        began, asked = time.perf_counter(), self._asked()
        self._take(APPLY, lambda: self._kubectl("apply", "--server-side", "-f", str(self.manifest)))
        wait = ("wait", "--for=condition=Succeeded", "--timeout=1h", "pytorchjobs", "--all")
        self._kubectl(*wait, "-n", self.namespace)
        self._note(ENDED, began, asked)
        self._take(DELETE, lambda: self._kubectl("delete", "-f", str(self.manifest)))
        for name, words in STEPS.items():
            self._take(name, lambda words=words: self._pulumi(*words))  # type: ignore[misc]
            if name == "up":
                (state,) = (self.project.folder.parent / "state").rglob(f"{self.project.stack}.json")
                self.state_kib = state.stat().st_size // 1024

    def _take(self, name: str, action: Callable[[], object]) -> None:
        began, asked = time.perf_counter(), self._asked()
        action()
        self._note(name, began, asked)

    def _note(self, name: str, began: float, asked: int) -> None:
        self.times.setdefault(name, []).append(time.perf_counter() - began)
        self.requests.setdefault(name, []).append(self._asked() - asked)

    def _asked(self) -> int:
        """Requests of ServiceAccounts that the server has answered; only what is measured here has one."""
        with self.audit.open("rb") as log:
            return sum(1 for _ in log)

    def _pulumi(self, *words: str) -> None:
        self._run("pulumi", *words, "--stack", self.project.stack, "--non-interactive")

    def _kubectl(self, *words: str) -> None:
        self._run("kubectl", f"--kubeconfig={self.kubeconfig}", *words)

    def _run(self, *command: str) -> None:
        _, peaks = peak_memory.run([*command], self.project.folder, self.project.environment)
        self.peaks = {
            role: max(peaks.get(role, 0), self.peaks.get(role, 0)) for role in {**peaks, **self.peaks}
        }

    def median(self, name: str) -> float:
        return statistics.median(self.times[name])


@pytest.fixture(scope="module")
def measured(request: pytest.FixtureRequest) -> Iterator[list[Scale]]:
    """What each size adds; at the end the tables of all."""
    found: list[Scale] = []
    yield found
    for told in _tables(found):
        show(request, f"\n{told}")


@pytest.fixture(scope="module")
def audited(api_server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: F811 - the fixture
    """A kubeconfig of an administrator whose requests the server writes down."""
    connection: Any = config.new_client_from_config(str(api_server.kubeconfig))  # type: ignore[no-untyped-call]
    core: Any = client.CoreV1Api(connection)
    core.create_namespaced_service_account("default", {"metadata": {"name": "measured"}})
    subject = {"kind": "ServiceAccount", "name": "measured", "namespace": "default"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    binding: Any = {"metadata": {"name": "measured"}, "roleRef": role, "subjects": [subject]}
    client.RbacAuthorizationV1Api(connection).create_cluster_role_binding(binding)
    folder = tmp_path_factory.mktemp("audited")
    return service_account.kubeconfig(api_server, core, "default", "measured", folder)


@pytest.mark.parametrize("jobs", ROUNDS)
def test_a_stack_of_many_jobs(
    jobs: int,
    measured: list[Scale],
    api_server: ApiServer,  # noqa: F811 - the fixture
    operator: PlayedOperator,  # noqa: F811 - the fixture
    audited: Path,
    tmp_path: Path,
) -> None:
    scale = Scale(jobs, tmp_path, api_server, audited)
    try:
        scale._pulumi("preview")  # compiles modules, as the first command on a machine does
        scale.times.clear()
        scale.requests.clear()
        for _ in range(ROUNDS[jobs]):
            scale.round()
    except BaseException:
        scale.project.destroy()
        raise
    measured.append(scale)


def test_switches_of_the_cli(
    request: pytest.FixtureRequest,
    api_server: ApiServer,  # noqa: F811 - the fixture
    operator: PlayedOperator,  # noqa: F811 - the fixture
    audited: Path,
    tmp_path: Path,
) -> None:
    """What changes how often, or with how much care, the CLI writes a stack's state."""
    scale = Scale(SWITCHED_JOBS, tmp_path, api_server, audited)
    scale._pulumi("preview")
    rows = []
    for name in ("", *SWITCHES, ""):
        switch = {name: "true"} if name else {}
        with pytest.MonkeyPatch.context() as changed:
            changed.setattr(scale.project, "environment", scale.project.environment | switch)
            scale.times.clear()
            for step in ("up", "destroy"):
                scale._take(step, lambda step=step: scale._pulumi(*STEPS[step]))  # type: ignore[misc]
        rows.append([name or "nothing", *(f"{scale.median(step):.1f} s" for step in ("up", "destroy"))])
    title = f"{SWITCHED_JOBS} jobs, with | up | destroy"
    show(request, f"\n{table(title, rows)}")


def _tables(found: list[Scale]) -> Iterator[str]:
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
    yield table(f"median (range) | {sizes}", rows)
