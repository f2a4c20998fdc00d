"""The pod template of a replica, as data."""

from __future__ import annotations

from typing import Any

from infra.config.job import JobConfig
from infra.config.mount_paths import TMP
from infra.config.pod_template import CONTAINER
from infra.config.strategic_merge import merged
from infra.config.training import Dataset, options
from infra.config.variables import SecretKey, Value
from infra.job import helper_pods, secret
from infra.job.context import JobContext
from infra.objects.labels import MANAGED_BY, OF_JOB
from infra.objects.pod_security import restricted_container

OF_OPERATOR = ("job-name", "replica-type")
"""Labels of pods from the operator's first versions. Users still select by them."""
TAKES = "TRAINER_TAKE_FINISHED"
"""The variable of a job that does not train: it takes the model of a finished run."""
# Runs instead of the training program, because that program would write into the finished run's folder.
_TAKE = """
cd "$TRAINER_MODEL_DIR"
[ -f "runs/$TRAINER_RUN/$1" ] || { echo "run $TRAINER_RUN has left no $1 on the volume" >&2; exit 1; }
cp "runs/$TRAINER_RUN/$1" ".$1.$TRAINER_RUN"
mv ".$1.$TRAINER_RUN" "$1"
echo "took the model of run $TRAINER_RUN; nothing is trained"
"""
# Group 0 may write to the image's folders and to the volume, so any uid works.
GID = 0


def command_line(job: JobConfig, dataset: Dataset | None) -> tuple[list[str], list[str]]:
    """Command and args. Training options are args (`--epochs 1`), or follow the command if there is one (`--epochs=1`).

    If the job takes a finished run, the command copies that run's model to the top of the volume.
    """
    if job.run_id:
        return ["sh", "-ec", _TAKE, "take", job.model or ""], []
    chosen = options(job.training)
    if number := epochs(job, dataset):
        chosen["epochs"] = str(number)
    if job.command:
        return [*job.command, *(f"--{name}={value}" for name, value in chosen.items())], list(job.args)
    return [], [word for name, value in chosen.items() for word in (f"--{name}", value)] + list(job.args)


def epochs(job: JobConfig, dataset: Dataset | None) -> int | None:
    """How many epochs the job trains on `dataset`; None for the trainer's own choice."""
    given = job.training
    on_digits = given.dataset is Dataset.AUTO and dataset is Dataset.DIGITS
    return (given.digits_epochs if on_digits else None) or given.epochs


def environment(job: JobConfig, context: JobContext) -> list[dict[str, Any]]:
    """The container's environment variables without the run's id. A secret variable has only a reference."""
    env: dict[str, Any] = {"TRAINER_MODEL_DIR": context.mount_path}
    if job.data:
        env["TRAINER_DATA_DIR"] = job.data[0].path
    if context.dataset:
        env["TRAINER_DATASET"] = context.dataset.value
    env |= {each["name"]: each["value"] for each in takes(job)}
    if context.keep_runs:
        env |= context.keep_runs.environment()
    # Kubernetes expands $(NAME) only for earlier variables. Pulumi sorts the stack file's mappings, and a review reads
    # them in the file's order: so we sort them.
    given = env | dict(sorted(job.env.items()))
    return [{"name": name, **_value(job, name, value)} for name, value in given.items()]


def takes(job: JobConfig) -> list[dict[str, str]]:
    """The variable that says that the job takes a finished run; empty for a job that trains."""
    return [{"name": TAKES, "value": "true"}] if job.run_id else []


def _value(job: JobConfig, name: str, value: Value) -> dict[str, Any]:
    if isinstance(value, str):
        return {"value": value}
    holder, key = (value.secret, value.key) if isinstance(value, SecretKey) else (secret.name(job), name)
    return {"valueFrom": {"secretKeyRef": {"name": holder, "key": key}}}


def sources(job: JobConfig) -> list[dict[str, Any]]:
    """The container's `envFrom`."""
    found: list[dict[str, Any]] = []
    for each in job.env_from:
        kind, name = ("secretRef", each.secret) if each.secret else ("configMapRef", each.config_map)
        found.append({**({"prefix": each.prefix} if each.prefix else {}), kind: {"name": name}})
    return found


def volumes(job: JobConfig, context: JobContext) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The pod's volumes and the container's mounts. Other folders are read-only if `readOnlyRoot` is true."""
    found: list[dict[str, Any]] = [
        {"name": "models", "persistentVolumeClaim": {"claimName": context.claim}},
        {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}},
    ]
    mounts: list[dict[str, Any]] = [
        {"name": "models", "mountPath": context.mount_path},
        {"name": "tmp", "mountPath": TMP},
    ]
    for place, each in enumerate(job.data or ()):
        name = f"data-{place + 1}" if place else "data"
        claim = each.volume(context.stack) if each.has_volume else each.claim
        source = {"persistentVolumeClaim": {"claimName": claim, "readOnly": True}}
        found.append(
            {"name": name, **({"configMap": {"name": each.config_map}} if each.config_map else source)}
        )
        mounts.append({"name": name, "mountPath": each.path, "readOnly": True})
    return found, mounts


def container(job: JobConfig, context: JobContext, mounts: list[dict[str, Any]]) -> dict[str, Any]:
    """The container of a replica.

    Parameters:
        mounts: its volume mounts, as `volumes` returns them.
    """
    command, args = command_line(job, context.dataset)
    return {
        "name": CONTAINER,
        "image": context.image,
        "imagePullPolicy": "IfNotPresent",
        **({"command": command} if command else {}),
        **({"args": args} if args else {}),
        "env": environment(job, context),
        **({"envFrom": sources(job)} if job.env_from else {}),
        "resources": {"limits": job.resources.limits(), "requests": job.resources.requests.quantities()},
        "securityContext": {**restricted_container(), "readOnlyRootFilesystem": job.read_only_root},
        "volumeMounts": mounts,
    }


def scheduling(job: JobConfig, context: JobContext) -> dict[str, Any]:
    """The field of the pod's spec that spreads the replicas over the nodes; nothing if there is one node."""
    if context.nodes == 1:
        return {}
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": of_replicas(job),
    }
    return {"topologySpreadConstraints": [spread]}


def of_replicas(job: JobConfig) -> dict[str, Any]:
    """The selector of a PyTorchJob's pods."""
    return {"matchLabels": {"job-name": job.name}}


def template(job: JobConfig, context: JobContext, replica: str) -> dict[str, Any]:
    """The pod template of the replica type `replica` (master, worker): ours, merged with `job.pod`."""
    found, mounts = volumes(job, context)
    older = {"job-name": job.name, OF_JOB: job.name, "replica-type": replica}
    ours = {
        "metadata": {
            "labels": {**MANAGED_BY, **job.labels},
            **({"annotations": dict(job.annotations)} if job.annotations else {}),
        },
        "spec": {
            "containers": [container(job, context, mounts)],
            "volumes": found,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": {
                "runAsUser": job.user,
                "runAsGroup": GID,
                **helper_pods.membership(context.group),
                "runAsNonRoot": True,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            **scheduling(job, context),
        },
    }
    whole = merged(ours, job.pod)
    metadata = whole.get("metadata", {})
    return {
        "metadata": {**metadata, "labels": {**metadata.get("labels", {}), **older}},
        "spec": {name: value for name, value in whole["spec"].items() if value != []},
    }
