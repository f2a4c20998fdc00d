"""Services and Ingresses."""

from __future__ import annotations

from toolchain.plugins.kubernetes.awaiting.scene import ENDPOINTS, Scene, Verdict
from toolchain.plugins.kubernetes.objects import name_of, nested
from toolchain.plugins.kubernetes.values import Object

# After each change of the endpoints stragglers get this long; less when no pod is on its way.
_SETTLE = 10.0
_SETTLE_COMPLETE = 2.0
_NO_PODS = (
    "Service does not target any Pods. Selected Pods may not be ready, or field '.spec.selector' may not "
    "match labels on any Pods"
)


def service(scene: Scene) -> Verdict:
    """It has endpoints, and an address where it is a load balancer."""
    obj = scene.obj
    kind = nested(obj, "spec", "type", default="ClusterIP")
    has_address = kind != "LoadBalancer" or bool(nested(obj, "status", "loadBalancer", "ingress"))
    if kind == "ExternalName" or nested(obj, "spec", "clusterIP") == "None":
        return Verdict(is_ready=has_address)
    endpoints = next((e for e in scene.all(ENDPOINTS) if name_of(e) == scene.name), {})
    has_endpoints = bool(endpoints.get("subsets"))
    findings = [] if has_endpoints else [_NO_PODS]
    if not has_address:
        findings.append("Service was not allocated an IP address; does your cloud provider support this?")
    quiet = scene.now - scene.changed_at.get(ENDPOINTS, 0.0)
    settle = _SETTLE if _has_pending(endpoints) else _SETTLE_COMPLETE
    is_settled = scene.is_single_look or quiet >= settle
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


def ingress(scene: Scene) -> Verdict:
    """Its backends have endpoints, and it has an address."""
    known = {name_of(endpoints) for endpoints in scene.all(ENDPOINTS) if endpoints.get("subsets")}
    missing = sorted(_backends(scene.obj) - known)
    if missing:
        findings = [f'Ingress has a rule whose service has no endpoints: "{name}"' for name in missing]
        return Verdict(status="[1/3] Finding a matching service for each Ingress path", findings=findings)
    if not nested(scene.obj, "status", "loadBalancer", "ingress"):
        finding = (
            "Ingress .status.loadBalancer field was not updated with a hostname/IP address. "
            "Is an ingress controller running?"
        )
        return Verdict(
            status="[2/3] Waiting for update of .status.loadBalancer with hostname/IP", findings=[finding]
        )
    return Verdict(is_ready=True, status="Ingress initialization complete")


def _backends(obj: Object) -> set[str]:
    found = set()
    paths = [
        path
        for rule in nested(obj, "spec", "rules", default=[]) or []
        for path in nested(rule, "http", "paths", default=[]) or []
    ]
    for backend in [path.get("backend") for path in paths] + [nested(obj, "spec", "defaultBackend")]:
        name = nested(backend, "service", "name") or nested(backend, "serviceName")
        if name:
            found.add(str(name))
    return found
