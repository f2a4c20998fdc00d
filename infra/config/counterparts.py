"""Writes docs/trainer-v2.md: what each key of a job is called in a PyTorchJob and in a TrainJob.

`python -m infra.config.counterparts` takes it from the `paths` of each key's `setting`.
tests/unit/infra/job/test_trainjob.py holds them to what is rendered.
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
"""The path of a key below `job` -> what it is called."""
INTRODUCTION = """\
# A job as PyTorchJob and as TrainJob

<!-- Written by `python -m infra.config.counterparts` from the models in infra/config. Change those instead. -->

With `operator: {api: v1}`, the default, a job of the stack file is a PyTorchJob of Kubeflow's training-operator. With
`operator: {api: v2}` it is a TrainJob of Kubeflow Trainer, on a TrainingRuntime of its own, which JobSet runs. Volume,
image, data, the run's id and folder, outputs and closing lines are the same.

```yaml
config:
  trainstack:operator:
    api: v2
```

The stack installs the controllers of Kubeflow Trainer 2.3.0 and JobSet 0.12.0; each makes its webhooks' certificates
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

## From Trainer 2.2

`make up` puts Trainer 2.3 and JobSet 0.12 into the place of 2.2 and 0.11. A job that trains goes on: its pods stay, and
its end comes from the new controllers. There is no way back to an older minor version of a controller: a program that
brings one finds the newer in the cluster, by the label `app.kubernetes.io/version`, and refuses before anything is
touched. `make down` with the newer program takes it away, and keeps the models.

Trainer 2.3 keeps a copy of the runtime that a TrainJob begins with, in the ConfigMap `<job>-runtime-snapshot`. What
somebody changes in a runtime by hand is for TrainJobs that come later. Trainer no longer keeps it from being deleted.

## How far a job is

In a cluster of kind the stack switches Trainer's feature gate `TrainJobStatus` on, and the trainer reports to it every
five seconds: percentage, time left, and the metrics of `metrics.jsonl`. They are in the TrainJob's status; `make up`,
`make watch` and `make status` show them, and the report's timeline has each tenth.

```console
$ kubectl get trainjob pytorch-simple --namespace kubeflow --output jsonpath='{.status.trainerStatus}'
{"estimatedRemainingSeconds":12,"lastUpdatedTime":"…","metrics":[…],"progressPercentage":45}
```

A Trainer that is away, slow or refuses slows and ends no training: one line of rank 0's log says so. A program of your
own may report, too: variables `KUBEFLOW_TRAINER_SERVER_…` of each pod tell where, and by which token
([KEP-2779](https://github.com/kubeflow/trainer/tree/v2.3.0/proposals/2779-trainjob-progress)).

In other clusters the gate stays off: with it, a Trainer ends at its start that cannot reach the issuer of the cluster's
tokens. Where yours has it on, the trainer reports as well. A job with `egress` then lists that Trainer's port:
`{port: 10443, namespace: …}`.

A TrainJob that was suspended or queued under Trainer 2.2 has a JobSet without these variables, and JobSet lets nobody
add them. The job stays without pods even when it may run; its event `TrainJobResourcesCreationFailed` names
`spec.replicatedJobs`. Delete the JobSet: `kubectl delete jobset <job> --namespace <namespace>`. Trainer makes another
one with the variables, and a job that may run starts at once.

## Limits of v2

- Keys that have no counterpart are refused where they are set: see `none` in the table.
- Replicas start one by one, as with v1. In a queue of Kueue's (`queue`) a job starts with room for all of them.
- The policies are about the Jobs and pods of a TrainJob. A review and `make up` judge those of the stack file; of a
  TrainJob that is applied by hand, the guard refuses Jobs and pods, and an event on its JobSet or Job tells.
- Trainer 2.3.0 goes on reconciling a TrainJob that is being deleted, and makes its JobSet again. So the stack suspends
  a TrainJob that trains, deletes it in the background, and waits until its pods have gone. One that somebody deletes by
  hand while it trains starts its pods again for a moment: suspend it first.
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
