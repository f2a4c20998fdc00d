"""A network policy for each job: which addresses its replicas reach, and who reaches the replicas."""

from __future__ import annotations

from infra.config import Stack
from infra.config.egress import Egress
from infra.config.job import JobConfig
from infra.objects.labels import NAME_OF_NAMESPACE, OF_JOB, stack_labels
from infra.objects.manifest import Manifest
from infra.trainer_controller.patches import REPORTS_PORT

DNS = 53


def policies(stack: Stack) -> list[Manifest]:
    """A NetworkPolicy for each job with `egress`, and for every job in a cluster that the stack creates."""
    own = stack.cluster.kind.is_ours
    return [_network_policy(stack, job) for job in stack.jobs if own or job.egress is not None]


def _network_policy(stack: Stack, job: JobConfig) -> Manifest:
    """The replicas reach each other, DNS, the receiver of their reports, and the addresses of `job.egress`.

    No other pod reaches a replica.

    Source: https://kubernetes.io/docs/concepts/services-networking/network-policies/
    """
    replicas = {"matchLabels": {OF_JOB: job.name}}
    dns = [{"protocol": protocol, "port": DNS} for protocol in ("UDP", "TCP")]
    reports = Egress(port=REPORTS_PORT, namespace=stack.operator.namespace)
    wanted = [reports] if stack.operator.takes_reports(stack.cluster) else []
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": job.name,
            "namespace": stack.cluster.namespace,
            "labels": stack_labels(stack.name),
        },
        "spec": {
            "podSelector": replicas,
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": [{"podSelector": replicas}]}],
            "egress": [
                {"to": [{"podSelector": replicas}]},
                {"ports": dns},
                *(_rule(each) for each in (*wanted, *(job.egress or ()))),
            ],
        },
    }


def _rule(each: Egress) -> Manifest:
    ports = {"ports": [{"protocol": each.protocol.value, "port": each.port}]}
    if each.cidr:
        return {"to": [{"ipBlock": {"cidr": each.cidr}}], **ports}
    if each.namespace:
        place = {"namespaceSelector": {"matchLabels": {NAME_OF_NAMESPACE: each.namespace}}}
        return {"to": [place], **ports}
    return ports
