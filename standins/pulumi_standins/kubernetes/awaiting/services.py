"""Services."""

from __future__ import annotations

from pulumi_standins.kubernetes.awaiting.snapshot import ENDPOINTS, Snapshot, Verdict
from pulumi_standins.kubernetes.objects import name_of, nested

# Seconds to wait for further changes after a change of the endpoints; fewer if all pods behind them are ready.
_SETTLE = 10.0
_SETTLE_COMPLETE = 2.0
_NO_PODS = (
    "Service does not target any Pods. Selected Pods may not be ready, or field '.spec.selector' may not "
    "match labels on any Pods"
)


def service(snapshot: Snapshot) -> Verdict:
    """A Service is ready when its endpoints stay the same and their pods are ready; a load balancer needs an address.

    A Service without pods is ready, too. If a Service has no selector, others create its endpoints, so there is no wait
    for the endpoints.
    """
    obj = snapshot.obj
    kind = nested(obj, "spec", "type", default="ClusterIP")
    has_address = kind != "LoadBalancer" or bool(nested(obj, "status", "loadBalancer", "ingress"))
    is_silent = kind == "ExternalName" or nested(obj, "spec", "clusterIP") == "None"
    endpoints = next((e for e in snapshot.all(ENDPOINTS) if name_of(e) == snapshot.name), None)
    subsets = (endpoints or {}).get("subsets") or []
    has_pods = any(subset.get("addresses") for subset in subsets)
    is_pending = any(subset.get("notReadyAddresses") for subset in subsets)
    findings = [] if has_pods or is_silent else [_NO_PODS]
    if not has_address and not is_silent:
        findings.append("Service was not allocated an IP address; does your cloud provider support this?")
    if is_silent or not nested(obj, "spec", "selector"):
        return Verdict(is_ready=has_address, findings=findings)
    settle = _SETTLE_COMPLETE if has_pods and not is_pending else _SETTLE
    left = settle - snapshot.quiet(ENDPOINTS, snapshot.name)
    is_settled = snapshot.is_single_look or snapshot.is_last_look or (endpoints is not None and left <= 0)
    if has_address and is_settled and not is_pending:
        return Verdict(is_ready=True, status="Service initialization complete")
    step = "[1/3] Finding Pods to direct traffic to"
    if is_settled and has_pods:
        step = "[2/3] Attempting to allocate IP address to Service"
    return Verdict(status=step, findings=findings, look_again=left if endpoints and left > 0 else None)
