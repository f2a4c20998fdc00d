"""Services and Ingresses."""

from __future__ import annotations

from pulumi_standins.kubernetes.awaiting.snapshot import ENDPOINTS, SERVICE, Snapshot, Verdict
from pulumi_standins.kubernetes.objects import name_of, nested
from pulumi_standins.kubernetes.values import Object

# After each change of the endpoints stragglers get this long; less when no pod is on its way.
_SETTLE = 10.0
_SETTLE_COMPLETE = 2.0
# An Ingress without any endpoints in its namespace may be meant so.
_NO_ENDPOINTS = 60.0
_NO_PODS = (
    "Service does not target any Pods. Selected Pods may not be ready, or field '.spec.selector' may not "
    "match labels on any Pods"
)


def service(snapshot: Snapshot) -> Verdict:
    """A Service is ready with endpoints, and as a load balancer also with an address."""
    obj = snapshot.obj
    kind = nested(obj, "spec", "type", default="ClusterIP")
    has_address = kind != "LoadBalancer" or bool(nested(obj, "status", "loadBalancer", "ingress"))
    if kind == "ExternalName" or nested(obj, "spec", "clusterIP") == "None":
        return Verdict(is_ready=has_address)
    endpoints = next((e for e in snapshot.all(ENDPOINTS) if name_of(e) == snapshot.name), {})
    has_endpoints = bool(endpoints.get("subsets"))
    findings = [] if has_endpoints else [_NO_PODS]
    if not has_address:
        findings.append("Service was not allocated an IP address; does your cloud provider support this?")
    quiet = snapshot.now - snapshot.changed_at.get(ENDPOINTS, 0.0)
    settle = _SETTLE if _has_pending(endpoints) else _SETTLE_COMPLETE
    is_settled = snapshot.is_single_look or snapshot.is_last_look or quiet >= settle
    if has_endpoints and has_address and is_settled:
        return Verdict(is_ready=True, status="Service initialization complete")
    if has_endpoints and is_settled:
        return Verdict(status="[2/3] Attempting to allocate IP address to Service", findings=findings)
    return Verdict(
        status="[1/3] Finding Pods to direct traffic to",
        findings=findings,
        look_again=settle - quiet if has_endpoints else None,
    )


def _has_pending(endpoints: Object) -> bool:
    return any(subset.get("notReadyAddresses") for subset in endpoints.get("subsets") or [])


def ingress(snapshot: Snapshot) -> Verdict:
    """An Ingress is ready with an address; services of its rules that stay missing are warned of."""
    missing = _rules_without_service(snapshot)
    left = 0.0 if snapshot.is_single_look else _until_settled(snapshot)
    status = "[2/3] Waiting for update of .status.loadBalancer with hostname/IP"
    findings = []
    if missing and left > 0:
        status = "[1/3] Finding a matching service for each Ingress path"
        findings.append("Ingress has at least one rule with an unavailable target endpoint.")
    has_address = bool(nested(snapshot.obj, "status", "loadBalancer", "ingress"))
    if not has_address:
        findings.append(
            "Ingress .status.loadBalancer field was not updated with a hostname/IP address. "
            "Is an ingress controller running?"
        )
    warnings = [f"No matching service found for ingress rule: {rule}" for rule in missing]
    if findings:
        look_again = left if missing and left > 0 else None
        shown = warnings if look_again is None else []
        return Verdict(status=status, warnings=shown, findings=findings + warnings, look_again=look_again)
    return Verdict(is_ready=True, status="Ingress initialization complete", warnings=warnings)


def _until_settled(snapshot: Snapshot) -> float:
    """Seconds until endpoints that have not appeared count as missing."""
    if ENDPOINTS in snapshot.changed_at:
        return _SETTLE - (snapshot.now - snapshot.changed_at[ENDPOINTS])
    return _NO_ENDPOINTS - snapshot.now


def _rules_without_service(snapshot: Snapshot) -> list[str]:
    """The rules, as `"host/path" -> "service"`, whose service has no endpoints object and is not external."""
    known = {name_of(endpoints) for endpoints in snapshot.all(ENDPOINTS)}
    known |= {name_of(s) for s in snapshot.all(SERVICE) if nested(s, "spec", "type") == "ExternalName"}
    found = []
    for rule in nested(snapshot.obj, "spec", "rules", default=[]) or []:
        for path in nested(rule, "http", "paths", default=[]) or []:
            name = nested(path, "backend", "service", "name")
            if name and name not in known:
                place = f"{rule.get('host', '')}{path.get('path', '')}"
                shown = f'"{place}"' if place else '"" (default path)'
                found.append(f'{shown} -> "{name}"')
    return found
