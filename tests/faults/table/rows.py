"""The rows of the table of faults. Each belongs to at least one test, marked with its key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum


class Way(StrEnum):
    """How a job comes to its pods; what the keys of its rows end with."""

    PYTORCHJOB = ""
    TRAINJOB = "v2"
    KUEUE = "kueue"


@dataclass(frozen=True)
class Row:
    """One kind of fault.

    Parameters:
        tries: how often it is done.
        phases: those that have to be hit, by the words that the tests find them with; none where it has one moment.
    """

    section: str
    fault: str
    tries: int
    phases: tuple[str, ...] = ()


EPOCHS = 3
REPLICA, KUBERNETES, VOLUME = "A replica", "Kubernetes, while a job trains", "The volume, while a job trains"
LATE, CLOCKS = "Replicas that meet late", "Clocks"
REASONS = "What keeps a job from starting; the seconds are those until `make up` has said why"
OF_A_JOB = (REPLICA, KUBERNETES, VOLUME, LATE, CLOCKS, REASONS)
"""The sections whose faults strike a job: each row is tried in every way."""
_EPOCHS = tuple(f"epoch {number}" for number in range(1, EPOCHS + 1))
FROM_NOTHING = ("set-up", "refresh", "cluster", "operator", "image", "job", "wait", "last look")
DISK_PHASES = ("set-up", "refresh", "job", "wait")
DOWN_PHASES = ("set-up", "destroy")
ENGINE_DISK_PHASES = ("set-up", "cluster", "image", "wait")
POWER_PHASES = ("set-up", "cluster", "operator", "image", "job", "wait")
UP_PHASES = ("set-up", "refresh", "operator", "image", "job", "wait")

_REPLICAS = {
    f"{replica}-{key}": Row(REPLICA, f"{replica}: {text}", EPOCHS, _EPOCHS)
    for replica in ("worker", "master")
    for key, text in (
        ("deleted", "its pod deleted, in each epoch"),
        ("killed", "its process killed with -9, in each epoch"),
        ("oom-killed", "its process killed by the kernel for want of memory, in each epoch"),
    )
}
_OF_PYTORCHJOBS = {
    **_REPLICAS,
    "operator-away": Row(KUBERNETES, "operator away for a minute, a worker's pod deleted", 1),
    "node-restarted": Row(KUBERNETES, "node restarted", 1),
    "kubelet-away": Row(KUBERNETES, "kubelet stopped for a minute", 1),
    "etcd-killed": Row(KUBERNETES, "etcd killed with -9", 1),
    "containerd-restarted": Row(KUBERNETES, "containerd restarted", 1),
    "registry-away": Row(KUBERNETES, "registry away for a minute, a worker's pod deleted", 1),
    "api-server-killed-up": Row(
        "Kubernetes, at a random moment",
        "API server killed with -9 in each phase of `make up`",
        12,
        UP_PHASES,
    ),
    "api-server-killed-down": Row(
        "Kubernetes, at a random moment", "API server killed with -9 during `make down`", 2, ("destroy",)
    ),
    "up-killed": Row(
        "`make up` and `make down` themselves",
        "`make up` from nothing killed with -9 at a random moment: all its processes, the leader alone, in turns",
        20,
        FROM_NOTHING,
    ),
    "down-killed": Row(
        "`make up` and `make down` themselves", "`make down`, in the same way", 20, DOWN_PHASES
    ),
    "power-cut-up": Row(
        "`make up` and `make down` themselves",
        "power cut during `make up` from nothing: engine, cluster and command killed at once, /run emptied",
        len(POWER_PHASES),
        POWER_PHASES,
    ),
    "power-cut-down": Row(
        "`make up` and `make down` themselves",
        "power cut during `make down`",
        len(DOWN_PHASES),
        DOWN_PHASES,
    ),
    "up-interrupted": Row("`make up` and `make down` themselves", "`make up` from nothing, Ctrl-C", 4),
    "up-killed-unsaved": Row(
        "`make up` and `make down` themselves",
        "`make up` from nothing killed with -9 when the cluster is Ready and the state does not have it yet",
        1,
        ("before the state has it",),
    ),
    "state-lost": Row(
        "The state",
        "state and its copies deleted, the API server away during `make up`, which refuses; then `ADOPT`",
        1,
    ),
    "state-without-cluster": Row(
        "The state",
        "the cluster deleted from the state alone; `make up` refuses and says what the cluster holds; then `ADOPT`",
        1,
    ),
    "two-of-one-stack": Row("Several at once", "two `make up` of one stack", 1),
    "two-stacks": Row("Several at once", "`make up` of two stacks of one clone, from nothing", 1),
    "two-users": Row(
        "Several at once",
        "`make up` of root and of a user of root's engine, from nothing; root ends first",
        1,
    ),
    "two-clones": Row("Several at once", "`make up` of two clones, from nothing", 1),
    "two-clones-cold": Row(
        "Several at once", "the same from cold caches: every tool is downloaded and built for both", 1
    ),
    "volume-full": Row(VOLUME, "full until the trainer has said so", 1),
    "volume-read-only": Row(VOLUME, "read-only until the trainer has said so", 1),
    "volume-folder-deleted": Row(VOLUME, "the runs' folder deleted", 1),
    "volume-of-somebody-else": Row(
        VOLUME, "the runs' folder somebody else's until the trainer has said so", 1
    ),
    "volume-without-links": Row(VOLUME, "one without hard links (exFAT), the master killed with -9", 1),
    "disk-full-clone": Row(
        "The machine", "the clone's disk full in a phase of `make up`", len(DISK_PHASES), DISK_PHASES
    ),
    "disk-full-caches": Row(
        "The machine", "the caches' disk full in a phase of `make up`", len(DISK_PHASES), DISK_PHASES
    ),
    "disk-full-engine": Row(
        "The machine",
        "the engine's disk full in a phase of `make up` from nothing in which the engine writes",
        len(ENGINE_DISK_PHASES),
        ENGINE_DISK_PHASES,
    ),
    "model-loaded": Row(
        "The model, while it is written",
        "`mnist_cnn.pt` loaded in a loop while its writers are killed with -9",
        100,
        ("while a file was written", "between two files"),
    ),
    "dns-away": Row(LATE, "DNS away for 30 s when they meet", 1),
    "replica-late": Row(LATE, "a worker a minute late", 1),
    "clock-jumps": Row(CLOCKS, "an hour forward, then back, in both pods while they train", 2),
    "image-missing": Row(REASONS, "an image that no registry has", 1),
    "wrong-architecture": Row(REASONS, "an image for another processor", 1),
    "quota-exceeded": Row(REASONS, "the namespace's quota exceeded", 1),
    "unschedulable": Row(REASONS, "no node that the pods may run on", 1),
    "cluster-stopped": Row("The machine", "node and registry stopped, kubeconfig file deleted", 1),
    "cluster-deleted": Row("The machine", "cluster deleted behind Pulumi's back", 1),
    "engine-killed": Row(
        "The machine", "container engine killed with -9, sockets, pid files and mounts left", 3
    ),
    "machine-restarted": Row("The machine", "power cut; reboot that empties /run", 2),
}


WORDS = {Way.TRAINJOB: "TrainJob", Way.KUEUE: "Kueue"}


def key_of(row: str, way: Way) -> str:
    """The key of `row` where the job goes this way."""
    return f"{row}-{way}" if way else row


def _of_each_way() -> Iterator[tuple[str, Row]]:
    for key, row in _OF_PYTORCHJOBS.items():
        yield key, row
        if row.section in OF_A_JOB:
            for way, word in WORDS.items():
                yield key_of(key, way), replace(row, fault=f"{word}: {row.fault}")


ROWS = dict(_of_each_way())


def way_of(key: str) -> Way:
    """The way of the row with this key."""
    return next((way for way in WORDS if key.endswith(f"-{way}")), Way.PYTORCHJOB)
