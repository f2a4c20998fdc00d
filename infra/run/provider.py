"""The dynamic resource that stands for a run. Its creation waits for the end of the run."""

from __future__ import annotations

import json
import os

import pulumi
from kubernetes.config import ConfigException
from pulumi.dynamic import CreateResult, ReadResult

from infra import agreed
from infra.dynamic import ADDRESS, DynamicResource, Props, Provider, missing, plain_props, show
from infra.objects.api import ApiAddress
from infra.objects.job_kinds import NAMES, PYTORCHJOB, JobKind
from infra.objects.retry import UnreachableError
from infra.process import CommandError
from infra.run import job_status
from infra.run.copy import CopyError, send
from infra.run.job_api import JobApi, api_of
from infra.run.reader_pod import MountedClaim
from infra.run.record import SENT, Record
from infra.run.result import epochs_of, metrics_of, record_folder, run_folder
from infra.run.waiting import FailedBeforeError, Waiting

RESULTS = ("jobStatus", "accuracy", "loss")
"""The outputs of an ended run."""


class RunProvider(Provider):
    """Properties: `kubeconfigPath`, `context`, `namespace`, `job`, `uid`, `run`, `suspend`.

    Only for some jobs: `kind`, if the job is not a PyTorchJob; `queue`, if the job waits for Kueue;
    `ttlSecondsAfterFinished`, if the job is deleted after it finished; `ended`, the outputs of a deleted job's run;
    `model`, if the run leaves a model.

    Where the run's files are: `models`, a folder of this machine; or `copies`, this machine's folder for files from a
    remote volume, with `image`, `claim`, `mountPath`, `pod` and `user` if the run leaves a model.
    """

    replaced_by = ("namespace", "job", "uid", "run")
    taken_over = (*ADDRESS, agreed.TTL)

    def create(self, props: Props) -> CreateResult:
        if ended := props.get("ended"):  # its job no longer exists
            return CreateResult(props["run"], plain_props(props) | ended)
        api, folder = _job(props), run_folder(props)
        record = Record(api, record_folder(props), props.get("model"), sends=bool(props.get("claim")))
        wait = Waiting(
            api,
            suspended=bool(props.get("suspend")),
            queue=props.get("queue") or "",
            epochs=lambda: epochs_of(folder),
            record=record,
        )
        try:
            ended = wait.until_end()
        except FailedBeforeError:
            _tell(props)
            raise
        finally:
            _send(record, props)
        result: dict[str, float | None] = {"accuracy": None, "loss": None}
        if ended == job_status.SUCCEEDED:
            result = metrics_of(wait.follower, props, show)
        return CreateResult(props["run"], plain_props(props) | {"jobStatus": ended} | result)

    def read(self, id_: str, props: Props) -> ReadResult:
        """The run is missing if its job is missing or has another condition now, or if the whole cluster is gone.

        A succeeded run with `ttlSecondsAfterFinished` stays after its job was deleted. A cluster is gone only if
        `make up` has proved it.

        If the kubeconfig was moved, or its context renamed, the cluster cannot be asked: the run stays, and the next
        update writes the new address. Raises UnreachableError; in this case, the state stays unchanged.
        """
        api = _job(props)
        if os.environ.get(agreed.DELETE_UNREACHABLE, "").lower() in ("1", "true"):
            api.patience.limit_s = 0
            try:
                job = api.job()
            except UnreachableError:
                return missing()
        else:
            try:
                api.ensure_usable()
            except ConfigException:
                return ReadResult(id_, plain_props(props))
            job = api.job()
        if job is None and agreed.has_finished(props):
            return ReadResult(id_, plain_props(props))
        if job is None or job_status.condition(job)[0] != props["jobStatus"]:
            return missing()
        return ReadResult(id_, plain_props(props))


def _send(record: Record, props: Props) -> None:
    """Write the record of an ended job to a remote volume; a line says if that fails.

    Only for a job with a model: other jobs need no right to create pods.
    """
    if not record.sends or not record.has_ended or not record.adds:
        return
    record.told[SENT] = True
    record.keep()
    volume, model = MountedClaim.from_props(props), props.get("model") or ""
    try:
        send(volume, props["run"], model, record.files(), on_top=record.has_succeeded)
    except (CopyError, CommandError, UnreachableError) as error:
        reason = str(error).strip().splitlines()[-1]
        show(
            f"{props['job']}: the run's record is only in {record_folder(props)}, not on the volume: {reason}"
        )


def _tell(props: Props) -> None:
    """Tell `make up` that this job had failed before the update began."""
    if file := os.environ.get(agreed.FAILED_JOBS):
        job = {"namespace": props["namespace"], "name": props["job"], "uid": props["uid"]}
        job["kind"] = _kind(props).resource
        with open(file, "a") as lines:  # several runs may write at the same time: one write each
            lines.write(json.dumps(job) + "\n")


def _job(props: Props) -> JobApi:
    kind = _kind(props)
    address = ApiAddress.from_props(props)
    return api_of(kind)(address, props["namespace"], props["job"], props["uid"], show, kind)


def _kind(props: Props) -> JobKind:
    return NAMES[props.get("kind") or PYTORCHJOB.kind]


class Run(DynamicResource, provider=RunProvider):
    """Outputs: `jobStatus`, `accuracy`, `loss`. Replaced if the job is replaced."""

    jobStatus: pulumi.Output[str]  # noqa: N815 - Pulumi finds outputs by their names
    accuracy: pulumi.Output[float | None]
    loss: pulumi.Output[float | None]
