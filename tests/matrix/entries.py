"""A second valid value for every key of the stack file, and what has to be given beside it.

A key stands here once. `tests/unit/infra/config/test_changes.py` fails for one that does not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Sections = dict[str, Any]


@dataclass(frozen=True)
class Entry:
    """One change.

    Parameters:
        value: the key's second value; it differs from its default and from BASE.
        given: further keys, path to value, before and after the change: those without which the key may not stand.
        without: sections that the change removes.
        along: further keys that the change brings along: those that are allowed with the second value alone.
    """

    value: Any
    given: dict[str, Any] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    along: dict[str, Any] = field(default_factory=dict)

    def applied(self, key: str) -> dict[str, Any]:
        """What stands in the stack file when `key` has this value; the keys of a list stand in its entries."""
        removed = dict.fromkeys(self.without)
        return {**self.given, **removed, whole(key): self.value, **self.along}


def whole(key: str) -> str:
    """The key that a stack file sets: of a list of mappings the list."""
    return next((each for each in LISTS if key.startswith(f"{each}.")), key)


LISTS = ("job.data", "job.envFrom", "job.egress")
"""Keys that are lists of mappings."""


def data(**source: Any) -> list[dict[str, Any]]:
    """A value of `job.data`: one entry."""
    return [{"path": "/data", **source}]


JOB = {"name": "mnist", "model": None}
QUOTA = {"cluster.quota": {"pods": 8}}
RANGE = {"cluster.limitRange": {"memoryRatio": 4}}
EGRESS = {"job.egress": [{"port": 443}]}
QUEUE: Sections = {
    "localQueues": ["training"],
    "cohort": "research",
    "flavors": [{"nominalQuota": {"cpu": 8, "memory": "32Gi", "pods": 4}, "borrowingLimit": {"cpu": 4}}],
    "preemption": {"withinClusterQueue": "LowerPriority"},
    "priorities": {"urgent": 100},
}
"""A value of `cluster.queue`."""
GANG = {"job.runPolicy.schedulingPolicy": {"queue": "first"}}
PATIENT = {"job.runPolicy.schedulingPolicy": {"scheduleTimeoutSeconds": 30}}
ELASTIC = {"job.elasticPolicy": {"minReplicas": 1, "maxReplicas": 2}}
ALONE = {
    "job.elasticPolicy": {"minReplicas": 1, "maxReplicas": 1},
    "job.replicas.master": None,
    "job.replicas.worker": 1,
}
SEEDS = {"matrix.options": {"training.seed": [1, 2]}}
SEARCH = {"sweep.options": {"training.lr": [0.01, 0.1]}}
SOURCE = {"job.envFrom": [{"secret": "first"}]}
CLAIM = {"job.data": data(claim="first")}
FOLDER = {"job.data": data(folder="/var/lib/trainstack/first")}
EXPORT = {"job.data": data(nfs={"server": "first.example", "path": "/first"})}
NFS = {"storage.nfsServer": "first.example", "storage.nfsPath": "/first"}

# On an API server without nodes, by a kubeconfig.
OBJECTS: dict[str, Entry] = {
    "cluster.namespace": Entry("other"),
    "cluster.podSecurity": Entry("restricted"),
    "cluster.guard": Entry("warn"),
    "cluster.quota.cpu": Entry("9", QUOTA),
    "cluster.quota.memory": Entry("9Gi", QUOTA),
    "cluster.quota.gpu": Entry(9, QUOTA),
    "cluster.quota.pods": Entry(9, QUOTA),
    "cluster.limitRange.cpu": Entry("2", RANGE),
    "cluster.limitRange.memory": Entry("2Gi", RANGE),
    "cluster.limitRange.memoryRatio": Entry(5, RANGE),
    "storage.kind": Entry("nfs", along=NFS),
    "storage.nfsServer": Entry("second.example", {"storage.kind": "nfs", **NFS}),
    "storage.nfsPath": Entry("/second", {"storage.kind": "nfs", **NFS}),
    "protected": Entry(True, {"cluster.context": "test"}),  # the API server's
    "storage.volume": Entry("other-volume"),
    "storage.claim": Entry("other-claim"),
    "storage.labels": Entry({"team": "a"}),
    "storage.storageClass": Entry("other"),
    "storage.capacity": Entry("12Gi"),
    "storage.request": Entry("5120Mi"),  # the server writes it as 5Gi: no change
    "storage.accessMode": Entry("ReadWriteOnce"),
    "storage.reclaimPolicy": Entry("Delete"),
    "storage.hostPath": Entry("/var/lib/trainstack/other"),
    "storage.mountPath": Entry("/other"),
    "storage.allowedRoots": Entry(["/var/lib/trainstack", "/srv"]),
    "storage.keepRuns.number": Entry(2, {"storage.keepRuns": {"number": 1}}),
    "storage.keepRuns.days": Entry(2, {"storage.keepRuns": {"days": 1}}),
    "storage.node": Entry("node"),
    "storage.shared": Entry(True),
    "storage.prepare": Entry(True),
    "storage.owner": Entry(1001, {"storage.prepare": True}),
    "storage.group": Entry(1001, {"storage.prepare": True}),
    "storage.mode": Entry("2770", {"storage.prepare": True}),
    "image.reference": Entry("localhost:5000/trainer:2"),
    "image.unpinned": Entry(False, {"image.reference": "localhost:5000/trainer:1@sha256:" + "0" * 64}),
    "job.name": Entry("other"),
    "job.replicas.master": Entry(1, {**ELASTIC, "job.replicas.master": None}),
    "job.replicas.worker": Entry(2),
    "job.restartPolicy": Entry("Never"),
    "job.command": Entry(["python3", "x.py"]),
    "job.args": Entry(["--no-cuda"]),
    "job.training.epochs": Entry(2),
    "job.training.digitsEpochs": Entry(3, {"job.training.dataset": "auto"}),
    "job.training.dataset": Entry("digits"),
    "job.training.batchSize": Entry(32),
    "job.training.testBatchSize": Entry(100),
    "job.training.lr": Entry(0.02),
    "job.training.momentum": Entry(0.6),
    "job.training.gamma": Entry(0.8),
    "job.training.seed": Entry(7),
    "job.training.logInterval": Entry(5),
    "job.training.backend": Entry("gloo"),
    "job.env": Entry({"TEAM": "a"}),
    "job.envFrom.secret": Entry([{"secret": "second"}], SOURCE),
    "job.envFrom.configMap": Entry([{"configMap": "second"}], SOURCE),
    "job.envFrom.prefix": Entry([{"secret": "first", "prefix": "DB_"}], SOURCE),
    "job.egress": Entry([]),
    "job.egress.port": Entry([{"port": 80}], EGRESS),
    "job.egress.protocol": Entry([{"port": 443, "protocol": "UDP"}], EGRESS),
    "job.egress.cidr": Entry([{"port": 443, "cidr": "192.0.2.0/24"}], EGRESS),
    "job.egress.namespace": Entry([{"port": 443, "namespace": "other"}], EGRESS),
    "job.data": Entry([], CLAIM),
    "job.data.path": Entry([{"path": "/other-data", "claim": "first"}], CLAIM),
    "job.data.claim": Entry(data(claim="second"), CLAIM),
    "job.data.folder": Entry(data(folder="/var/lib/trainstack/second"), FOLDER),
    "job.data.nfs.server": Entry(data(nfs={"server": "second.example", "path": "/first"}), EXPORT),
    "job.data.nfs.path": Entry(data(nfs={"server": "first.example", "path": "/second"}), EXPORT),
    "job.data.configMap": Entry(data(configMap="second"), {"job.data": data(configMap="first")}),
    "job.resources.cpu": Entry("2"),
    "job.resources.memory": Entry("3Gi"),
    "job.resources.gpu": Entry(1),
    "job.resources.gpuResource": Entry("amd.com/gpu", {"job.resources.gpu": 1}),
    "job.resources.requests.cpu": Entry("300m"),
    "job.resources.requests.memory": Entry("600Mi"),
    "job.runPolicy.backoffLimit": Entry(5),
    "job.runPolicy.activeDeadlineSeconds": Entry(7200),
    "job.runPolicy.ttlSecondsAfterFinished": Entry(86400),
    "job.runPolicy.cleanPodPolicy": Entry("All"),
    "job.runPolicy.suspend": Entry(True),
    "job.queue": Entry("team-a"),
    "job.runPolicy.schedulingPolicy": Entry({}),
    "job.runPolicy.schedulingPolicy.minAvailable": Entry(2, GANG),
    "job.runPolicy.schedulingPolicy.queue": Entry("second", GANG),
    "job.runPolicy.schedulingPolicy.minResources": Entry({"cpu": "2"}, GANG),
    "job.runPolicy.schedulingPolicy.priorityClass": Entry("high", GANG),
    "job.runPolicy.schedulingPolicy.scheduleTimeoutSeconds": Entry(60, PATIENT),
    "job.elasticPolicy.minReplicas": Entry(2, ELASTIC),
    "job.elasticPolicy.maxReplicas": Entry(3, ELASTIC),
    "job.elasticPolicy.rdzvBackend": Entry("etcd", ELASTIC),
    "job.elasticPolicy.rdzvPort": Entry(29401, ELASTIC),
    "job.elasticPolicy.rdzvHost": Entry("etcd", ELASTIC),
    "job.elasticPolicy.rdzvId": Entry("other", ELASTIC),
    "job.elasticPolicy.standalone": Entry(True, ALONE),
    "job.elasticPolicy.maxRestarts": Entry(4, ELASTIC),
    "job.elasticPolicy.metrics": Entry([{"type": "Resource"}], ELASTIC),
    "job.nprocPerNode": Entry(2),
    "job.annotations": Entry({"team": "a"}),
    "job.labels": Entry({"team": "a"}),
    "job.pod": Entry({"spec": {"nodeSelector": {"disk": "ssd"}}}),
    "job.user": Entry(1001),
    "job.readOnlyRoot": Entry(False),
    "job.rerun": Entry(1),
    "matrix.options": Entry({"training.seed": [1, 2, 3]}, SEEDS),
    "matrix.exclude": Entry(
        [{"training.seed": 2}],
        {
            "matrix.options": {"training.seed": [1, 2, 3]},
            "matrix.exclude": [{"training.seed": 1}, {"training.seed": 2}],
        },
    ),
    "matrix.maxParallel": Entry(1, SEEDS),
    "sweep.options": Entry({"training.lr": [0.01, 0.2]}, SEARCH),
    "sweep.name": Entry("other", SEARCH),
    "sweep.trials": Entry(3, SEARCH),
    "sweep.parallel": Entry(3, SEARCH),
    "sweep.objective": Entry("loss", SEARCH),
    "sweep.prune": Entry(False, SEARCH),
    "sweep.seed": Entry(3, SEARCH),
    "jobs": Entry([JOB, {**JOB, "name": "second"}], without=("job",)),
}
# On a kind cluster: these make another cluster, build an image, or need nodes.
ON_KIND: dict[str, Entry] = {
    "cluster.name": Entry("trainstack-matrix-renamed"),
    "cluster.workers": Entry(2),
    "operator.install": Entry("always"),
    "operator.namespace": Entry("training-operator"),
    "cluster.apiServerPort": Entry(26443),
    "image.preset": Entry("traindb"),
    "image.context": Entry("examples/own-network"),
    "job.model": Entry(None),
}
# Not tried in these two, and why or where.
ELSEWHERE: dict[str, str] = {
    "operator.api": "takes the controllers of both: tests/e2e/test_trainer_v2.py",
    **dict.fromkeys(
        ("operator.concurrency", "operator.qps", "operator.burst"),
        "takes an operator of the stack's own: tests/e2e/test_job_behaviours.py",
    ),
    **dict.fromkeys(
        (
            "operator.queue",
            "job.priority",
            *(f"cluster.queue.{each}" for each in ("name", "localQueues", "cohort", "priorities")),
            *(f"cluster.queue.flavors.{each}" for each in ("name", "nodeLabels")),
            *(
                f"cluster.queue.flavors.{each}.{name}"
                for each in ("nominalQuota", "borrowingLimit")
                for name in ("cpu", "memory", "gpu", "pods")
            ),
            "cluster.queue.preemption.withinClusterQueue",
            "cluster.queue.preemption.reclaimWithinCohort",
        ),
        "takes Kueue: tests/e2e/test_kueue.py",
    ),
    "job.runId": "takes a finished run, with its model: tests/e2e/test_over_runs.py",
    "image.dockerfile": "an image of another make, which runs a script of its own: tests/e2e/test_examples.py",
    "image.repository": "pushing to a registry elsewhere: tests/e2e/test_repository.py",
    "cluster.kind": "takes a second cluster of another kind: tests/unit/infra/clusters/test_selection.py",
    "cluster.channel": "on a stand-in of MicroK8s: tests/unit/infra/clusters/microk8s/test_installation.py",
    "cluster.addons": "on a stand-in of MicroK8s: tests/unit/infra/clusters/microk8s/test_installation.py",
    "cluster.kubeconfig": "between two API servers: tests/matrix/test_another_server.py",
    "cluster.context": "between two API servers: tests/matrix/test_another_server.py",
    "cluster.server": "named and compared: tests/unit/infra/clusters/existing/test_named.py",
    "cluster.id": "named and compared: tests/unit/infra/clusters/existing/test_named.py",
    "image.target": "the image for GPUs weighs several GB that package registries have for pip alone",
}
