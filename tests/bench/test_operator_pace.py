"""How many jobs a second the real controllers take, with their own settings and with others of section `operator`.

The jobs' pods fit on no node, so that nothing but the controllers, the API server and the scheduler works.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.config.operator import OperatorApi
from infra.objects.job_kinds import OF_API, RUNTIME, TRAINER_GROUP
from tests.bench.conftest import Recorder, show, table
from tests.e2e import clones
from tests.e2e.project import Project
from tests.e2e.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.bench]

JOBS = 100
REPLICAS = 2
NAMESPACE = "pace"
ROUNDS = 2
"""Of a thorough run, which has all SETTINGS; any other has the first and the last one once."""
SETTINGS: dict[str, dict[str, int | None]] = {
    "the operator's own": {"concurrency": None, "qps": None, "burst": None},
    "concurrency 8": {"concurrency": 8, "qps": None, "burst": None},
    "qps 200, burst 400": {"concurrency": None, "qps": 200, "burst": 400},
    "concurrency 8, qps 200, burst 400": {"concurrency": 8, "qps": 200, "burst": 400},
}
POD: dict[str, Any] = {
    "nodeSelector": {"example.org/nowhere": "true"},
    "containers": [{"image": "none"}],
}


def pod(container: str) -> dict[str, Any]:
    return {**POD, "containers": [{**POD["containers"][0], "name": container}]}


def pytorchjobs() -> list[dict[str, Any]]:
    template = {"spec": pod(OF_API[OperatorApi.V1].container)}
    replicas = {
        "Master": {"replicas": 1, "template": template},
        "Worker": {"replicas": REPLICAS - 1, "template": template},
    }
    return [
        {
            "apiVersion": "kubeflow.org/v1",
            "kind": "PyTorchJob",
            "metadata": {"name": f"job-{number}"},
            "spec": {"pytorchReplicaSpecs": replicas},
        }
        for number in range(JOBS)
    ]


def trainjobs() -> list[dict[str, Any]]:
    version = f"{TRAINER_GROUP}/v1alpha1"
    step = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    node = {
        "name": "node",
        "template": {
            "metadata": {"labels": step},
            "spec": {"template": {"spec": pod(OF_API[OperatorApi.V2].container)}},
        },
    }
    runtime = {
        "apiVersion": version,
        "kind": RUNTIME,
        "metadata": {"name": NAMESPACE, "labels": {"trainer.kubeflow.org/framework": "torch"}},
        "spec": {
            "mlPolicy": {"numNodes": REPLICAS, "torch": {}},
            "template": {"spec": {"replicatedJobs": [node]}},
        },
    }
    jobs = [
        {
            "apiVersion": version,
            "kind": "TrainJob",
            "metadata": {"name": f"job-{number}"},
            "spec": {"runtimeRef": {"kind": RUNTIME, "name": NAMESPACE}},
        }
        for number in range(JOBS)
    ]
    return [runtime, *jobs]


WANTED = {OperatorApi.V1: pytorchjobs, OperatorApi.V2: trainjobs}


@pytest.fixture(scope="module")
def clone() -> Iterator[Project]:
    with clones.temporary("pace") as project:
        yield project


def created(clone: Project, kind: str) -> list[datetime]:
    listed = clone.run("kubectl", "get", kind, "--namespace", NAMESPACE, "--output", "json").stdout
    times = (each["metadata"]["creationTimestamp"] for each in json.loads(listed)["items"])
    return sorted(datetime.fromisoformat(each) for each in times)


def jobs_a_second(clone: Project, api: OperatorApi, manifest: Path) -> float:
    """Until the last pod of the last job is made, by the server's clock, which tells whole seconds."""
    clone.run("kubectl", "create", "namespace", NAMESPACE)
    apply = ("kubectl", "apply", "--server-side", "--namespace", NAMESPACE, "--filename", str(manifest))

    def is_applied() -> bool:  # Trainer's webhook may not have heard of the runtime yet
        done = clone.run(*apply, check=False)
        print(done.stderr)
        return done.returncode == 0

    wait_until("the jobs are taken", is_applied)
    wait_until("each has its pods", lambda: len(created(clone, "pods")) == JOBS * REPLICAS)
    pods = created(clone, "pods")
    began = created(clone, OF_API[api].resource)[0]
    clone.run("kubectl", "delete", "namespace", NAMESPACE, timeout=1200)
    return JOBS / max(1.0, (pods[-1] - began).total_seconds())


@pytest.mark.parametrize("api", OperatorApi)
def test_jobs_a_second(
    api: OperatorApi,
    clone: Project,
    thorough: bool,
    record: Recorder,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    manifest = tmp_path / "jobs.yaml"
    manifest.write_text(yaml.safe_dump_all(WANTED[api]()))
    first, *_, last = SETTINGS
    found: dict[str, list[float]] = {name: [] for name in (SETTINGS if thorough else (first, last))}
    for _ in range(ROUNDS if thorough else 1):
        for name in found:
            given = SETTINGS[name]
            clone.configure({"trainstack:operator": {"api": api.value, **given}})
            clone.up()
            found[name].append(jobs_a_second(clone, api, manifest))
    rows = [
        [name, f"{statistics.median(each):.1f} ({min(each):.1f} to {max(each):.1f})"]
        for name, each in found.items()
    ]
    title = f"{OF_API[api].kind}: {JOBS} jobs of {REPLICAS} replicas, with | jobs a second"
    show(request, f"\n{table(title, rows)}")
    kind = OF_API[api].kind
    data = [{"kind": kind, "settings": name, "jobs_per_s": each} for name, each in found.items()]
    record(f"operator-{api.value}", data)
