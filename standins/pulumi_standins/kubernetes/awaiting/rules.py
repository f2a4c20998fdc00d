"""The kinds that are waited for, and the rule for each: add a line here to wait for another kind.

A rule names a function that judges a `Snapshot`; the functions are in the modules beside this one, by API group. The
real plugin waits for the same kinds, and for those in border.py: pulumi-kubernetes 4.30.0,
provider/pkg/await/awaiters.go. tests/data/await_cases.yaml has each branch of its rules.
"""

from __future__ import annotations

from pulumi_standins.kubernetes.awaiting import pods, services, status_fields, volumes, workloads
from pulumi_standins.kubernetes.awaiting.snapshot import CLAIM, ENDPOINTS, POD, REPLICA_SET, Rule

RULES = {
    "apiextensions.k8s.io/v1/CustomResourceDefinition": Rule(status_fields.definition, seconds=60),
    "apps/v1/DaemonSet": Rule(workloads.daemon_set, (POD,), on_refresh=True),
    "apps/v1/Deployment": Rule(workloads.deployment, (REPLICA_SET, POD, CLAIM), on_refresh=True),
    "apps/v1/StatefulSet": Rule(workloads.stateful_set, (POD,), on_refresh=True),
    "batch/v1/Job": Rule(workloads.job, (POD,), on_refresh=True),
    "v1/PersistentVolume": Rule(volumes.volume, seconds=300),
    "v1/PersistentVolumeClaim": Rule(volumes.claim, seconds=300),
    "v1/Pod": Rule(pods.judge, on_refresh=True),
    "v1/ResourceQuota": Rule(status_fields.quota, seconds=60),
    "v1/Secret": Rule(status_fields.secret, seconds=5),
    "v1/Service": Rule(services.service, (ENDPOINTS,), on_refresh=True),
}
"""By `apiVersion/Kind`."""
