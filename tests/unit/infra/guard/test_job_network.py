"""A job's replicas reach each other, DNS, and what its stack file lists: nobody else is reached, or reaches them."""

from __future__ import annotations

from typing import Any

import yaml

from infra import paths
from infra.config import from_file
from infra.guard import job_network
from infra.job.manifest import manifest
from tests.unit.infra.samples import IMAGE, JOB, job_context, stack

EXISTING: dict[str, Any] = {"cluster": {"kind": "existing"}, "image": {"reference": IMAGE}}


def egress(*entries: dict[str, Any]) -> list[dict[str, Any]]:
    """The rules of the entries, behind those of every job."""
    (found,) = job_network.policies(stack(job={**JOB, "egress": list(entries)}))
    rules: list[dict[str, Any]] = found["spec"]["egress"]
    return rules[2:]


def test_the_replicas_reach_each_other_and_dns() -> None:
    (found,) = job_network.policies(stack())
    replicas = {"matchLabels": {"pytorch_job_name": "pytorch-simple"}}
    assert found["spec"]["podSelector"] == replicas
    assert found["spec"]["ingress"] == [{"from": [{"podSelector": replicas}]}]
    assert found["spec"]["egress"] == [
        {"to": [{"podSelector": replicas}]},
        {"ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]},
    ]


def test_it_selects_every_replica_of_its_job_and_no_other() -> None:
    known = stack(jobs=[{"name": "one"}, {"name": "two"}])
    policies = {each["metadata"]["name"]: each["spec"] for each in job_network.policies(known)}
    for job in known.jobs:
        replicas = manifest(job, job_context())["spec"]["pytorchReplicaSpecs"]
        labels = [each["template"]["metadata"]["labels"] for each in replicas.values()]
        for name, spec in policies.items():
            wanted = spec["podSelector"]["matchLabels"].items()
            assert [wanted <= each.items() for each in labels] == [name == job.name] * len(labels)


def test_what_the_stack_file_lists_is_reached() -> None:
    assert egress({"port": 443}) == [{"ports": [{"protocol": "TCP", "port": 443}]}]
    (network,) = egress({"port": 2049, "cidr": "192.0.2.0/24"})
    assert network["to"] == [{"ipBlock": {"cidr": "192.0.2.0/24"}}]
    (etcd,) = egress({"port": 2379, "namespace": "etcd", "protocol": "UDP"})
    assert etcd["to"] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "etcd"}}}]
    assert etcd["ports"] == [{"protocol": "UDP", "port": 2379}]


def test_in_a_cluster_that_is_there_only_who_asks_gets_one() -> None:
    assert job_network.policies(stack(**EXISTING)) == []
    assert len(job_network.policies(stack(**EXISTING, job={**JOB, "egress": []}))) == 1


def test_every_stack_that_downloads_its_data_may() -> None:
    """Pods that see no data folder fetch it: MNIST over TLS, and Fashion-MNIST from a mirror without."""
    for path in (paths.ROOT / "stacks").glob("Pulumi.*.yaml"):
        known = from_file(path)
        fetches = not known.models_are_here and any(
            job.training.dataset == "fashion-mnist" for job in known.jobs
        )
        policies = job_network.policies(known)
        if fetches and policies:
            listed = yaml.safe_load(path.read_text())["config"]["trainstack:job"]["egress"]
            assert {each["port"] for each in listed} == {80, 443}, path.name
