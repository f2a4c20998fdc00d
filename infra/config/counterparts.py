"""Writes docs/trainer-v2.md: what each key of a job is called in a PyTorchJob and in a TrainJob.

`python -m infra.config.counterparts` reads the `paths` of each key's `setting`.
tests/unit/infra/job/test_trainjob.py compares these paths with rendered objects.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from infra import paths
from infra.config.api_paths import NEITHER, Counterpart
from infra.config.job import JobConfig
from infra.config.section import said

PAGE = paths.ROOT / "docs" / "trainer-v2.md"
COUNTERPARTS: dict[str, Counterpart] = {
    key: replace(each, v1=each.v1 or key) for key, each in said(JobConfig, "paths").items()
}
"""The path of a key below `job` -> its names in a PyTorchJob and in a TrainJob."""
INTRODUCTION = """\
# A job as PyTorchJob and as TrainJob

<!-- Written by `python -m infra.config.counterparts` from the models in infra/config. Change those instead. -->

With `operator: {api: v1}`, the default, a job of the stack file is a PyTorchJob of Kubeflow's training-operator. With
`operator: {api: v2}` it is a TrainJob of Kubeflow Trainer with its own TrainingRuntime, and JobSet runs it. Volume,
image, data, the run's id and folder, outputs and closing lines are the same.

```yaml
config:
  trainstack:operator:
    api: v2
```

The stack installs the controllers of Kubeflow Trainer 2.3.0 and JobSet 0.12.0; each creates the certificates of its
webhooks. If no registry has their images, `make up` compiles them, once for all stacks of a machine. In somebody else's
cluster, an existing Trainer is used and nothing is installed. An existing JobSet is kept, and only Trainer is added.

## Move a stack, and back

1. Write `api: v2`. `make review` shows the TrainJob, its TrainingRuntime and the controllers instead of PyTorchJob and
   training-operator.
2. Run `make up`. It first deletes an unfinished PyTorchJob and waits for the end of its pods, because both jobs write
   to one run. It then installs the controllers, starts the TrainJob, and removes the training-operator at the end.
   Volume, runs, models and data stay. A finished run does not train again, an interrupted one continues, also after a
   failed `make up`.
3. To go back, do the same with `api: v1`.

For GitOps engines and v2, see [GitOps](gitops.md#with-operatorapi-v2).

If the stack installed the PyTorchJob definition and somebody else has a PyTorchJob in the cluster, the stack cannot
move: `make up` names the job and refuses before anything changes. TrainJobs and JobSets block the way back, too.

## From Trainer 2.2

`make up` replaces Trainer 2.2 and JobSet 0.11 with 2.3 and 0.12. A training job continues: its pods stay, and the new
controllers finish it. You cannot go back to an older minor version of a controller. An older program finds the newer
controller in the cluster, by the label `app.kubernetes.io/version`, and refuses before anything changes. `make down`
with the newer program removes the controller and keeps the models.

Trainer 2.3 keeps a copy of each TrainJob's first runtime in the ConfigMap `<job>-runtime-snapshot`. If somebody changes
a runtime by hand, only later TrainJobs use the change. Trainer no longer prevents the deletion of a runtime.

## How far a job is

In a kind cluster, the stack enables Trainer's feature gate `TrainJobStatus`. Every five seconds, the trainer reports
percentage, time left, and the metrics of `metrics.jsonl`. They are in the TrainJob's status; `make up`, `make watch`
and `make status` show them. The report's timeline shows every 10 %.

```console
$ kubectl get trainjob pytorch-simple --namespace kubeflow --output jsonpath='{.status.trainerStatus}'
{"estimatedRemainingSeconds":12,"lastUpdatedTime":"…","metrics":[…],"progressPercentage":45}
```

If Trainer is missing or slow, or refuses a report, training does not slow down or end: one line of rank 0's log says
so. Your own program may report, too: each pod's variables `KUBEFLOW_TRAINER_SERVER_…` give the address and the token
([KEP-2779](https://github.com/kubeflow/trainer/tree/v2.3.0/proposals/2779-trainjob-progress)).

In other clusters the gate stays off: with the gate on, Trainer stops at its start if it cannot reach the issuer of the
cluster's tokens. If your Trainer has the gate on, the trainer reports, too. A job with `egress` must then list that
Trainer's port: `{port: 10443, namespace: …}`.

A TrainJob that was suspended or queued under Trainer 2.2 has a JobSet without these variables, and nobody can add them
to a JobSet. The job then gets no pods, even when it may run; its event `TrainJobResourcesCreationFailed` names
`spec.replicatedJobs`. Delete the JobSet: `kubectl delete jobset <job> --namespace <namespace>`. Trainer creates it
again with the variables, and a job that may run starts at once.

## Limits of v2

- Keys without a counterpart are refused: see `none` in the table.
- Replicas start one by one, as with v1. In a Kueue queue (`queue`), a job starts when there is room for all replicas.
- The policies check the Jobs and pods of a TrainJob. For the stack file, a review and `make up` check them. For a
  hand-applied TrainJob, the guard refuses Jobs and pods; an event on the JobSet or Job says so.
- While a TrainJob is being deleted, Trainer 2.3.0 still reconciles it and creates its JobSet again. So the stack
  suspends a training TrainJob, deletes it in the background, and waits until its pods are gone. Before you delete a
  training TrainJob by hand, suspend it: otherwise its pods start again for a moment.
- `make status ARGS=--metrics` has no `trainstack_job_failed_replicas` for a TrainJob: its status counts Jobs, not pods.
- The runbooks name PyTorchJobs: type `trainjob` instead of `pytorchjob`, and
  `--selector jobset.sigs.k8s.io/jobset-name=<job>` instead of `training.kubeflow.org/job-name`.

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
