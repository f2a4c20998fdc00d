"""What changing a key of the stack file does to a stack that is up: a rule for every key, as data.

tests/matrix changes every key on a running stack and holds the outcome to these rules; docs/configuration.md shows
them.
"""

from __future__ import annotations

from enum import StrEnum

from infra.config.cluster import ClusterKind


class Outcome(StrEnum):
    """The most that a change replaces. Models and files on the volume are kept in every case."""

    NOTHING = "nothing"
    IN_PLACE = "in place"
    JOB_REPLACED = "job replaced"
    VOLUME_REPLACED = "job, claim and volume replaced, files kept"
    CLUSTER_REPLACED = "cluster replaced, files kept"
    REFUSED = "refused before anything is touched"


def _keys(section: str, names: str) -> list[str]:
    return [f"{section}.{name}" for name in names.split()]


_RULES: dict[Outcome, list[str]] = {
    Outcome.NOTHING: [
        *_keys("storage", "allowedRoots"),
        *_keys("image", "unpinned"),
        *_keys("matrix", "maxParallel"),
        *_keys("sweep", "options name trials parallel objective prune seed"),
        "protected",
    ],
    Outcome.IN_PLACE: [
        *_keys("cluster", "podSecurity guard channel addons"),
        *_keys("cluster.quota", "cpu memory gpu pods"),
        *_keys("cluster.limitRange", "cpu memory memoryRatio"),
        *_keys("operator", "install namespace concurrency qps burst"),
        *_keys("storage", "labels capacity shared prepare owner mode"),
        *_keys("job", "model egress"),
        *_keys("job.egress", "port protocol cidr namespace"),
        "jobs",
        *_keys("matrix", "options exclude"),
    ],
    Outcome.JOB_REPLACED: [
        *_keys("operator", "api gang"),
        *_keys("storage", "mountPath dataPath group"),
        *_keys("storage.keepRuns", "number days"),
        *_keys("image", "target preset context dockerfile repository reference"),
        *_keys("job", "name restartPolicy command args env nprocPerNode annotations labels pod queue"),
        *_keys("job.envFrom", "secret configMap prefix"),
        *_keys("job", "rerun runId datasetsPath user readOnlyRoot"),
        *_keys("job.replicas", "master worker"),
        *_keys("job.training", "epochs digitsEpochs dataset batchSize testBatchSize lr momentum gamma seed"),
        *_keys("job.training", "logInterval backend"),
        *_keys("job.resources", "cpu memory gpu"),
        *_keys("job.resources.requests", "cpu memory"),
        *_keys("job.runPolicy", "backoffLimit activeDeadlineSeconds cleanPodPolicy suspend schedulingPolicy"),
        *_keys("job.runPolicy.schedulingPolicy", "minAvailable queue minResources priorityClass"),
        *_keys("job.runPolicy.schedulingPolicy", "scheduleTimeoutSeconds"),
        *_keys(
            "job.elasticPolicy", "minReplicas maxReplicas rdzvBackend rdzvPort rdzvHost rdzvId standalone"
        ),
        *_keys("job.elasticPolicy", "maxRestarts metrics"),
    ],
    Outcome.VOLUME_REPLACED: [
        *_keys("cluster", "namespace"),
        *_keys(
            "storage", "kind volume claim storageClass request accessMode hostPath node nfsServer nfsPath"
        ),
    ],
    Outcome.CLUSTER_REPLACED: _keys(
        "cluster", "kind name workers apiServerPort kubeconfig context server id"
    ),
    Outcome.REFUSED: [
        *_keys("storage", "reclaimPolicy"),
        *_keys("job.runPolicy", "ttlSecondsAfterFinished"),
    ],
}
OUTCOMES: dict[str, Outcome] = {key: outcome for outcome, keys in _RULES.items() for key in keys}
"""The path of a key -> the usual outcome: of one without keys of its own, `job.training.epochs`, and of a section whose
empty value says something else than its absence, `job.egress`."""

# The cluster's nodes mount the folder of the models, and data is always there.
ON_KIND = {
    "storage.hostPath": Outcome.CLUSTER_REPLACED,
    "storage.dataPath": Outcome.NOTHING,
}

_MOVES = "The stack moves: its objects go from the old cluster, whose nodes keep the files."
_NAMES = "It only names the cluster: the stack moves where the kubeconfig leads to another one."
NOTES = {
    "operator.api": "The operator is replaced, too. The run goes on under its id.",
    "operator.gang": "The scheduler is installed or removed, and the operator starts anew.",
    "cluster.kubeconfig": _MOVES,
    "cluster.context": _MOVES,
    "cluster.server": _NAMES,
    "cluster.id": _NAMES,
    "storage.kind": "No file is moved. A claim of kind class or claim is never deleted.",
    "storage.claim": "With kind claim only the job is replaced.",
    "storage.storageClass": "With kind class the old claim stays with its files.",
    "storage.request": "With kind class in place, where the class lets a claim grow.",
    "storage.accessMode": "With kind class refused: the claim has files.",
    "storage.volume": "Outside kind the folder has this name: give hostPath, too, to keep the old one.",
    "storage.labels": "`type` and `name` replace job, claim and volume: the claim selects by them.",
    "storage.hostPath": "With kind the cluster is replaced: its nodes mount the folder.",
    "storage.dataPath": "With kind nothing changes: the data folder is always there.",
    "jobs": "A job that is added or removed leaves the others as they are; `job` may become the first of `jobs`.",
    "matrix.options": "Jobs whose values stay are left as they are; another key renames, and so replaces, all jobs.",
    "matrix.exclude": "The jobs that are left out are removed; their finished runs stay on the volume.",
    "matrix.maxParallel": "Jobs that have started are not stopped.",
    "sweep.options": "`make sweep` then asks for another name: trials of other options cannot be compared.",
    "job.queue": "The new one waits for Kueue. The run goes on under its id.",
    "storage.keepRuns.number": "Its run goes on under its id.",
    "storage.keepRuns.days": "Its run goes on under its id.",
    "storage.group": "Its run goes on under its id.",
    "job.user": "Its run goes on under its id.",
    "storage.reclaimPolicy": "Only Retain passes the policies: with Delete the files would go with the claim.",
}
"""What a rule leaves out, one sentence each."""


def outcome(key: str, kind: ClusterKind) -> Outcome:
    """What changing `key` does to a stack on a cluster of `kind`. Raises KeyError for a key without a rule."""
    return ON_KIND.get(key, OUTCOMES[key]) if kind.has_our_nodes else OUTCOMES[key]
