"""The PyTorchJob as data."""

from __future__ import annotations

import copy
import hashlib
import json
from typing import Any

from infra.config.job import JobConfig
from infra.job.pod import JobContext, template
from infra.objects.labels import MANAGED_BY, RUN, SKIP_AWAIT
from infra.objects.manifest import Manifest

API_VERSION = "kubeflow.org/v1"
KIND = "PyTorchJob"


def run_id(name: str, spec: dict[str, Any]) -> str:
    """`<name>-<8 hex of the spec>`: the folder below runs/ and a label. The same spec gives the same id."""
    text = json.dumps(spec, sort_keys=True, separators=(",", ":"))
    return f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def run_policy(job: JobConfig) -> dict[str, Any]:
    policy = job.run_policy.model_dump(mode="json", by_alias=True, exclude_none=True)
    return policy if job.run_policy.suspend else {key: policy[key] for key in policy if key != "suspend"}


def spec(job: JobConfig, context: JobContext) -> dict[str, Any]:
    """The job's spec without its run id."""
    replicas = {"Master": job.replicas.master, "Worker": job.replicas.worker}
    elastic = job.elastic_policy
    return {
        "nprocPerNode": str(job.nproc_per_node),
        "runPolicy": run_policy(job),
        **(
            {"elasticPolicy": elastic.model_dump(mode="json", by_alias=True, exclude_none=True)}
            if elastic
            else {}
        ),
        "pytorchReplicaSpecs": {
            kind: {
                "replicas": count,
                "restartPolicy": job.restart_policy.value,
                "template": template(job, context, kind.lower()),
            }
            for kind, count in replicas.items()
            if count
        },
    }


def identified(plain: dict[str, Any], run: str) -> dict[str, Any]:
    """`plain` with the run's id as label and environment variable of every pod."""
    labelled = copy.deepcopy(plain)
    for replica in labelled["pytorchReplicaSpecs"].values():
        replica["template"]["metadata"]["labels"][RUN] = run
        for entry in replica["template"]["spec"]["containers"]:
            entry["env"] = [{"name": "TRAINER_RUN", "value": run}, *entry["env"]]
    return labelled


def manifest(job: JobConfig, context: JobContext) -> Manifest:
    """The whole PyTorchJob."""
    plain = spec(job, context)
    run = run_id(job.name, plain)
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": job.name,
            "namespace": context.namespace,
            "labels": {**MANAGED_BY, **job.labels, RUN: run},
            "annotations": {**job.annotations, **SKIP_AWAIT},
        },
        "spec": identified(plain, run),
    }


def run_of(job: Manifest) -> str:
    """The run id that `manifest` gave the job."""
    return str(job["metadata"]["labels"][RUN])
