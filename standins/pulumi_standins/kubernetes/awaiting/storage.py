"""Volumes, claims, and the few other kinds that are ready by a field of their own."""

from __future__ import annotations

from pulumi_standins.kubernetes.awaiting.scene import Scene, Verdict, condition
from pulumi_standins.kubernetes.errors import ApiError, UnreachableError
from pulumi_standins.kubernetes.objects import Kind, nested

_STORAGE_CLASS = Kind("storage.k8s.io", "v1", "StorageClass")


def volume(scene: Scene) -> Verdict:
    """It is available or bound."""
    phase = nested(scene.obj, "status", "phase", default="")
    if phase in ("Available", "Bound"):
        status = "✅ PV marked available" if phase == "Available" else "✅ PV has been bound"
        return Verdict(is_ready=True, status=status)
    text = f"PersistentVolume is {phase or 'not yet seen by its controller'}"
    return Verdict(status=text, findings=[text])


def claim(scene: Scene) -> Verdict:
    """It is bound; one whose class waits for its first consumer only has to be pending."""
    phase = nested(scene.obj, "status", "phase", default="")
    if phase == "Bound":
        return Verdict(is_ready=True)
    mode, warning = _binding_mode(scene)
    if mode == "WaitForFirstConsumer" and phase == "Pending":
        return Verdict(is_ready=True)
    findings = [f"PersistentVolumeClaim is {phase or 'not yet seen by its controller'}"]
    name = nested(scene.obj, "spec", "storageClassName", default="")
    selector = nested(scene.obj, "spec", "selector", "matchLabels", default={})
    status = f'Waiting for a volume of class "{name}"' + (f" with labels {selector}" if selector else "")
    return Verdict(
        status=status, warnings=[warning] if warning else [], findings=findings + [warning] * bool(warning)
    )


def _binding_mode(scene: Scene) -> tuple[str, str]:
    name = nested(scene.obj, "spec", "storageClassName", default="")
    if not name:
        return "", f'no storage class found for "{scene.name}"'
    try:
        found = scene.cluster.get(_STORAGE_CLASS, "", name)
    except (ApiError, UnreachableError) as error:
        return "", f'getting storagclass "{name}": {error}'
    return str(found.get("volumeBindingMode", "")), ""


def quota(scene: Scene) -> Verdict:
    """The controller has taken over the limits."""
    is_ready = nested(scene.obj, "spec", "hard") == nested(scene.obj, "status", "hard")
    text = "The quota's limits are not in its status yet"
    return Verdict(is_ready=is_ready, status=text, findings=[text])


def secret(scene: Scene) -> Verdict:
    """A service account's token has been filled in."""
    is_token = scene.obj.get("type") == "kubernetes.io/service-account-token"
    text = "The token controller has not filled in the secret"
    return Verdict(is_ready=not is_token or bool(scene.obj.get("data")), status=text, findings=[text])


def definition(scene: Scene) -> Verdict:
    """The server serves the kind that the CRD defines."""
    established, accepted = condition(scene.obj, "Established"), condition(scene.obj, "NamesAccepted")
    if established.get("status") == "True":
        return Verdict(is_ready=True)
    if accepted.get("status") == "False":
        finding = f"[{accepted.get('reason')}] {accepted.get('message')}"
        return Verdict(is_hopeless=True, findings=[finding])
    text = "Waiting for the CustomResourceDefinition to be established"
    return Verdict(status=text, findings=[text])
