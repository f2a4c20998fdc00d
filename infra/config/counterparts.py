"""What each key of a job is called in a PyTorchJob and in a TrainJob with its TrainingRuntime.

`python -m infra.config.counterparts` writes docs/trainer-v2.md from it. tests/unit/infra/job/test_trainjob.py holds it
to what is rendered.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from infra import paths

PAGE = paths.ROOT / "docs" / "trainer-v2.md"
REPLICA = "pytorchReplicaSpecs.*"
POD = f"{REPLICA}.template"
CONTAINER = f"{POD}.spec.containers[0]"
JOBSET = "TrainingRuntime: template.spec"
JOB = f"{JOBSET}.replicatedJobs[0].template.spec"
RUNTIME_POD = f"{JOB}.template"
RUNTIME_CONTAINER = f"{RUNTIME_POD}.spec.containers[0]"
NEITHER = "-"
RUN_V1 = f"metadata.labels, {POD}.metadata.labels, {CONTAINER}.env"
RUN_V2 = (
    "metadata.labels, trainer.env, TrainingRuntime: metadata.labels, "
    f"{RUNTIME_POD}.metadata.labels, {RUNTIME_CONTAINER}.env"
)


@dataclass(frozen=True)
class Counterpart:
    """One key of a job.

    Parameters:
        v1: the paths in the PyTorchJob, below `spec` unless it is metadata, with commas between them.
        v2: the same in the TrainJob, or after `TrainingRuntime: ` in that; empty where there is none.
        note: what differs.
    """

    v1: str
    v2: str
    note: str = ""


def _words(name: str) -> Counterpart:
    return Counterpart(f"{CONTAINER}.{name}", f"trainer.{name}")


def _training() -> Counterpart:
    return Counterpart(f"{CONTAINER}.command, {CONTAINER}.args", "trainer.command, trainer.args")


def _container(*paths: str) -> Counterpart:
    return _in_pod(*(f"spec.containers[0].{path}" for path in paths))


def _in_pod(*paths: str) -> Counterpart:
    return Counterpart(
        ", ".join(f"{POD}.{path}" for path in paths), ", ".join(f"{RUNTIME_POD}.{path}" for path in paths)
    )


def _metadata(name: str) -> Counterpart:
    own = f"metadata.{name}"
    return Counterpart(f"{own}, {POD}.{own}", f"{own}, TrainingRuntime: {own}, {RUNTIME_POD}.{own}")


_VARIABLES = _container("env")
_SOURCES = _container("envFrom")
_OUTSIDE = Counterpart(NEITHER, NEITHER, "A NetworkPolicy of its own, the same in both.")
_NO_RUN_POLICY = "A TrainJob has no such field."
_NOT_ELASTIC = "Trainer 2.2 trains with as many replicas as it was given: a value is refused."
_WHOLE_GANG = "A gang of Trainer is all replicas with what they ask for: a value is refused."
_REPLICAS = Counterpart(
    f"{REPLICA}.replicas",
    "trainer.numNodes, TrainingRuntime: mlPolicy.numNodes",
    "Master and Worker are one kind of replica; rank 0 is the pod with index 0.",
)

COUNTERPARTS: dict[str, Counterpart] = {
    "name": Counterpart(
        "metadata.name",
        "metadata.name",
        "The runtime has the job's name. v2 has room for 48 characters, for 47 with more than ten replicas.",
    ),
    "replicas.master": _REPLICAS,
    "replicas.worker": _REPLICAS,
    "restartPolicy": Counterpart(
        f"{REPLICA}.restartPolicy",
        f"{JOBSET}.failurePolicy",
        "v1 starts the container that failed anew, v2 all replicas at once. ExitCode ends the job at exit codes 1 to "
        "127 in both, by `podFailurePolicy` in v2. Always is refused with v2.",
    ),
    "command": _words("command"),
    "args": _words("args"),
    **{
        f"training.{name}": _training()
        for name in [
            "epochs",
            "digitsEpochs",
            "batchSize",
            "testBatchSize",
            "lr",
            "momentum",
            "gamma",
            "seed",
            "logInterval",
            "backend",
        ]
    },
    "training.dataset": _VARIABLES,
    "env": _VARIABLES,
    "envFrom.secret": _SOURCES,
    "envFrom.configMap": _SOURCES,
    "envFrom.prefix": _SOURCES,
    **{f"egress.{name}": _OUTSIDE for name in ("port", "protocol", "cidr", "namespace")},
    "resources.cpu": _container("resources.limits.cpu"),
    "resources.memory": _container("resources.limits.memory"),
    "resources.gpu": _container("resources.limits"),
    "resources.requests.cpu": _container("resources.requests.cpu"),
    "resources.requests.memory": _container("resources.requests.memory"),
    "runPolicy.backoffLimit": Counterpart(
        "runPolicy.backoffLimit",
        f"{JOBSET}.failurePolicy.maxRestarts",
        "v1 counts the restarts of each container, v2 those of all replicas together.",
    ),
    "runPolicy.activeDeadlineSeconds": Counterpart(
        f"runPolicy.activeDeadlineSeconds, {POD}.spec.activeDeadlineSeconds",
        "activeDeadlineSeconds",
        "The training-operator looks at it only when something happens: v1's pods end by themselves a second later. "
        "Both delete the pods of a job that has exceeded it, and count anew after a suspension.",
    ),
    "runPolicy.ttlSecondsAfterFinished": Counterpart("runPolicy.ttlSecondsAfterFinished", "", _NO_RUN_POLICY),
    "runPolicy.cleanPodPolicy": Counterpart(
        "runPolicy.cleanPodPolicy", "", f"{_NO_RUN_POLICY} Finished pods stay; another value is refused."
    ),
    "runPolicy.suspend": Counterpart("runPolicy.suspend", "suspend"),
    "queue": Counterpart(
        "metadata.labels, runPolicy.suspend",
        "metadata.labels, suspend",
        "Kueue takes `suspend` over: see [Queues](kueue.md).",
    ),
    **{
        f"runPolicy.schedulingPolicy.{name}": Counterpart(
            f"runPolicy.schedulingPolicy.{name}", "", _WHOLE_GANG
        )
        for name in ("minAvailable", "queue", "minResources", "priorityClass")
    },
    "runPolicy.schedulingPolicy.scheduleTimeoutSeconds": Counterpart(
        "runPolicy.schedulingPolicy.scheduleTimeoutSeconds",
        "TrainingRuntime: podGroupPolicy.coscheduling.scheduleTimeoutSeconds",
        "Of the gang's PodGroup, where `operator.gang` is scheduler-plugins.",
    ),
    **{
        f"elasticPolicy.{name}": Counterpart(f"elasticPolicy.{name}", "", _NOT_ELASTIC)
        for name in [
            "minReplicas",
            "maxReplicas",
            "rdzvBackend",
            "rdzvPort",
            "rdzvHost",
            "rdzvId",
            "standalone",
            "maxRestarts",
            "metrics",
        ]
    },
    "nprocPerNode": Counterpart("nprocPerNode", "trainer.numProcPerNode"),
    "annotations": _metadata("annotations"),
    "labels": _metadata("labels"),
    "pod": Counterpart(POD, RUNTIME_POD, "The container pytorch is called node there."),
    "user": _in_pod("spec.securityContext.runAsUser"),
    "readOnlyRoot": _container("securityContext.readOnlyRootFilesystem"),
    "model": Counterpart(NEITHER, NEITHER, "What the stack expects on the volume."),
    "rerun": Counterpart(RUN_V1, RUN_V2, "As part of the run's id."),
    "runId": Counterpart(RUN_V1, RUN_V2, "As the run's id. Such a job has one replica of one process."),
    "datasetsPath": _container("volumeMounts", "env"),
}
"""The path of a key below `job` -> what it is called."""


INTRODUCTION = """\
# A job as PyTorchJob and as TrainJob

<!-- Written by `python -m infra.config.counterparts` from infra/config/counterparts.py. Change that instead. -->

With `operator: {api: v1}`, the default, a job of the stack file is a PyTorchJob of Kubeflow's training-operator. With
`operator: {api: v2}` it is a TrainJob of Kubeflow Trainer, on a TrainingRuntime of its own, which JobSet runs. Volume,
image, data, the run's id and folder, outputs and closing lines are the same.

```yaml
config:
  trainstack:operator:
    api: v2
```

The stack installs the controllers of Kubeflow Trainer 2.2.0 and JobSet 0.11.1; each makes its webhooks' certificates
itself. Where no registry has their images, `make up` compiles them, once for all stacks of a machine. In a cluster of
somebody else's that has Trainer, nothing is installed; one that has JobSet alone keeps it, and gets Trainer beside it.

## Move a stack, and back

1. Write `api: v2`. `make review` shows the TrainJob, its TrainingRuntime and the controllers in place of PyTorchJob and
   training-operator.
2. `make up`. The PyTorchJob and its pods end, then the operator changes, then the TrainJob starts. Volume, runs, models
   and data stay. The run's id is the same: a finished run is not trained again, an interrupted one goes on.
3. Back the same way, with `api: v1`.

What GitOps engines do with a stack of v2 is in [GitOps](gitops.md#with-operatorapi-v2).

As long as somebody else has a PyTorchJob in the cluster, a stack that brought its definition cannot leave it: `make up`
names the job and refuses, before anything is touched. The way back asks the same of TrainJobs and JobSets.

## Limits of v2

- Keys that have no counterpart are refused where they are set: see `none` in the table.
- Without `operator.gang`, replicas start one by one, as with v1. With it a gang is all replicas: it may not be smaller.
- The policies are about the Jobs and pods of a TrainJob. A review and `make up` judge those of the stack file; of a
  TrainJob that is applied by hand, the guard refuses Jobs and pods, and an event on its JobSet or Job tells.
- Trainer 2.2.0 goes on reconciling a TrainJob that is being deleted, and makes its JobSet again. So the stack suspends
  a TrainJob that trains before it deletes it. One that somebody deletes by hand while it trains starts its pods again
  for a moment: suspend it first.
- `make status ARGS=--metrics` has no `trainstack_job_failed_replicas` for a TrainJob: its status counts Jobs, not pods.
- The runbooks name PyTorchJobs: type `trainjob` in place of `pytorchjob`, and
  `--selector jobset.sigs.k8s.io/jobset-name=<job>` in place of `training.kubeflow.org/job-name`.

## Keys

Paths are below `spec` unless they are metadata. `*` stands for Master and Worker.

| key of `job` | PyTorchJob | TrainJob and TrainingRuntime | what differs |
| --- | --- | --- | --- |
"""


def page() -> str:
    """The whole of docs/trainer-v2.md."""
    return INTRODUCTION + "".join(
        f"| `{key}` | {_code(each.v1)} | {_code(each.v2) if each.v2 else 'none'} | {each.note or '-'} |\n"
        for key, each in COUNTERPARTS.items()
    )


def _code(paths: str) -> str:
    return paths if paths == NEITHER else ", ".join(f"`{each}`" for each in paths.split(", "))


def main(target: Path = PAGE) -> None:
    """Write the page to `target`."""
    target.write_text(page())


if __name__ == "__main__":
    main()
