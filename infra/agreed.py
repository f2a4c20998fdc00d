"""Names and rules that the Pulumi program (infra/) and toolchain/ share.

The toolchain runs before any package is installed. So this module, infra.atomic_file, infra.cluster_kinds, infra.paths,
infra.process, infra.objects.kinds and infra.objects.labels import only the standard library.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any


class ProgramError(Exception):
    """An error with a complete text for the user: what is wrong and the fix. It needs no traceback."""


# Variables that `make up` sets for the program.
ADOPT = "TRAINSTACK_ADOPT"
"""The owner id of a stack whose state is lost; the user passes the id."""
REPLACE_CLUSTER = "TRAINSTACK_REPLACE_CLUSTER"
"""`yes` if the user allows `make up` to replace the stack's own cluster."""
LOST_OBJECTS = "TRAINSTACK_LOST_OBJECTS"
"""The file in which the program tells `make up` what to do first, for example which objects to put into the state."""
ADOPTING = "TRAINSTACK_ADOPTING"
"""`yes` while `make up` asks which resources the program registers for lost objects."""
LEAVING = "being deleted"
"""In each warning of the program about an object that waits for the end of its deletion."""
FAILED_JOBS = "TRAINSTACK_FAILED_JOBS"
"""The file in which the program lists jobs that had failed before this update: `make up` runs them again."""
TRIALS = "TRAINSTACK_TRIALS"
"""The file with the trials of `make sweep`."""
OPENAPI = "TRAINSTACK_OPENAPI"
"""The file with the OpenAPI document of the pinned API server; a review reads it."""
DRAWN_EVERY_S = "TRAINSTACK_DRAWN_EVERY_S"
"""Seconds between two lines about steps when progress is drawn."""
MACHINE = "TRAINSTACK_MACHINE"
"""The folder that all clones of a machine share, instead of USUAL_MACHINE."""
USUAL_MACHINE = "/var/lib/trainstack"
DELETE_UNREACHABLE = "PULUMI_K8S_DELETE_UNREACHABLE"
"""A variable of Pulumi: its kubernetes plugin removes unreachable objects from the state.

It is set only for a cluster that no longer exists, or that this update replaces."""

ASTRAY = (
    "BUILDX_BUILDER",
    "DOCKER_DEFAULT_PLATFORM",
    "KIND_EXPERIMENTAL_DOCKER_NETWORK",
    "KIND_EXPERIMENTAL_PROVIDER",
)
"""Variables of docker and kind that redirect our own calls to another engine's images or nodes, or to another network.
We remove them from the environment of every child process."""
KUBECTL = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false"}
"""For `kubectl exec`. A value that the user's shell sets is kept. Over WebSockets, `kubectl exec` may lose output on a
busy machine. Since 1.30 kubectl prefers WebSockets (`RemoteCommandWebsockets` in kubectl 1.34,
pkg/cmd/util/helpers.go)."""
BUILDKIT = "DOCKER_BUILDKIT"
"""Docker's variable for BuildKit. A user's Dockerfile may need BuildKit. Our Dockerfiles do not, and BuildKit fails if
docker has no buildx."""

# Variables with names of images in this machine's engine.
NODE_IMAGE = "TRAINSTACK_NODE_IMAGE"
REGISTRY_IMAGE = "TRAINSTACK_REGISTRY_IMAGE"
OPERATOR_IMAGE = "TRAINSTACK_OPERATOR_IMAGE"
INIT_IMAGE = "TRAINSTACK_INIT_IMAGE"
TRAINER_IMAGE = "TRAINSTACK_TRAINER_IMAGE"
JOBSET_IMAGE = "TRAINSTACK_JOBSET_IMAGE"
KUEUE_IMAGE = "TRAINSTACK_KUEUE_IMAGE"
CPU_BASE = "TRAINSTACK_CPU_BASE"
GPU_BASE = "TRAINSTACK_GPU_BASE"

# Types in Pulumi's state.
OWNER = "pulumi-python:dynamic/trainstack:Owner"
JOB = "trainstack:job:Job"
"""The component of a job: its objects, and what follows its run."""
RUN = "pulumi-python:dynamic/trainstack:Run"
PROVIDER = "pulumi:providers:kubernetes"
OBJECT = "kubernetes:"
"""The prefix of the type of every Kubernetes object."""

OWNER_ID = re.compile(r"[0-9a-f]{16}")

# Files of a run's folder. The trainer writes the report; the program that follows the job writes the rest, its record.
TIMELINE, REPORT, RECORD, PRINTED, LOG = "timeline.json", "report.html", "run.json", "printed.jsonl", ".log"


def mapping(file: Path) -> dict[str, Any]:
    """The mapping in a JSON file; empty if the file is missing, damaged, or has no mapping."""
    try:
        found = json.loads(file.read_text(errors="replace"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def recorded(folder: Path) -> dict[str, Any]:
    """The content of our run.json in a run's folder; empty if there is none, or if a user's program wrote it."""
    found = mapping(folder / RECORD)
    return found if {"uid", "outcome"} <= found.keys() else {}


def has_end(told: Mapping[str, Any], uid: str) -> bool:
    """Whether the content of run.json has the end of the job with this uid."""
    return bool(told.get("uid") == uid and told.get("end"))


def is_of_record(name: str) -> bool:
    """Whether a file of this name in a run's folder belongs to the run's record.

    The time of such a file does not say when the run ended.
    """
    return name in (TIMELINE, RECORD, PRINTED) or name.endswith(LOG)


# How a job ends, as its conditions say (kubeflow/common's JobConditionType).
SUCCEEDED, FAILED = "Succeeded", "Failed"
SUSPENDED = "Suspended"


def conditions(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The conditions of a PyTorchJob or a TrainJob that are true, in the order of its status.

    "Suspended" counts only while the specification asks for it. The training-operator keeps this condition on a resumed
    job until the operator has created a pod, and a quota may refuse the pod.
    """
    spec = job.get("spec") or {}
    is_asked = spec.get("suspend") or (spec.get("runPolicy") or {}).get("suspend")
    held = [each for each in (job.get("status") or {}).get("conditions") or [] if each["status"] == "True"]
    return [each for each in held if is_asked or each["type"] != SUSPENDED]


TTL = "ttlSecondsAfterFinished"
"""A property of a run in Pulumi's state: seconds until its finished job is deleted; None if the job stays."""


def has_finished(run: Mapping[str, object]) -> bool:
    """Whether the run's properties in the state say that the run succeeded, and that its job is deleted after that."""
    return run.get(TTL) is not None and run.get("jobStatus") == SUCCEEDED


def progress(job: Mapping[str, Any]) -> str:
    """The last progress that a TrainJob's program reported: `45 % done, 0:01:12 left`; empty if it reported nothing.

    Source: TrainerStatus in pkg/apis/trainer/v1alpha1/trainjob_types.go of Kubeflow Trainer 2.3.0.
    """
    status = job.get("status") or {}
    told = status.get("trainerStatus") or {}
    percentage, left_s = told.get("progressPercentage"), told.get("estimatedRemainingSeconds")
    stands = bool(conditions(job))  # it has ended, or is suspended
    found = [] if percentage is None else [f"{percentage} % done"]
    if left_s is not None and not stands:
        found.append(f"{timedelta(seconds=left_s)} left")
    return ", ".join(found)


REQUEST_MARK = "<!-- trainstack review -->"
"""The first line of the review page of a whole pull request."""

# Folders of the clone.
LOCAL, STACKS, MODELS, DATA = ".trainstack", "stacks", "models", "data"
FOLDERS = ".folders"
"""The folder below DATA with links to other folders of this machine, which `job.data` names."""


def usual_kubeconfig(environment: Mapping[str, str] = os.environ) -> Path:
    """The first existing file of KUBECONFIG, else its first file; without KUBECONFIG the file in the home folder."""
    named = [Path(each) for each in environment.get("KUBECONFIG", "").split(os.pathsep) if each]
    files = named or [Path.home() / ".kube" / "config"]
    return next((each for each in files if each.exists()), files[0])


EXTENDS = "trainstack:extends"
"""The key with which a stack file names its base file."""


def listed(names: Sequence[str], most: int) -> str:
    """The first `most` of `names`, and the number of the others."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
