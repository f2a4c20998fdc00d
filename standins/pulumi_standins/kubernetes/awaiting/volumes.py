"""PersistentVolumes and PersistentVolumeClaims."""

from __future__ import annotations

from pulumi_standins.kubernetes.awaiting.snapshot import Snapshot, Verdict
from pulumi_standins.kubernetes.errors import ApiError, UnreachableError
from pulumi_standins.kubernetes.objects import Kind, nested

_STORAGE_CLASS = Kind("storage.k8s.io", "v1", "StorageClass")


def volume(snapshot: Snapshot) -> Verdict:
    """A PersistentVolume is ready when Available or Bound."""
    phase = nested(snapshot.obj, "status", "phase", default="")
    if phase in ("Available", "Bound"):
        status = "✅ PV marked available" if phase == "Available" else "✅ PV has been bound"
        return Verdict(is_ready=True, status=status)
    text = f"PersistentVolume is {phase or 'not yet seen by its controller'}"
    return Verdict(status=text, findings=[text])


def claim(snapshot: Snapshot) -> Verdict:
    """A claim is ready when Bound, or Pending if its class waits for the first consumer."""
    phase = nested(snapshot.obj, "status", "phase", default="")
    if phase == "Bound":
        return Verdict(is_ready=True)
    mode, warning = _binding_mode(snapshot)
    if mode == "WaitForFirstConsumer" and phase == "Pending":
        return Verdict(is_ready=True)
    findings = [f"PersistentVolumeClaim is {phase or 'not yet seen by its controller'}"]
    name = nested(snapshot.obj, "spec", "storageClassName", default="")
    selector = nested(snapshot.obj, "spec", "selector", "matchLabels", default={})
    status = f'Waiting for a volume of class "{name}"' + (f" with labels {selector}" if selector else "")
    return Verdict(
        status=status, warnings=[warning] if warning else [], findings=findings + [warning] * bool(warning)
    )


def _binding_mode(snapshot: Snapshot) -> tuple[str, str]:
    name = nested(snapshot.obj, "spec", "storageClassName", default="")
    if not name:
        return "", f'no storage class found for "{snapshot.name}"'
    try:
        found = snapshot.client.get(_STORAGE_CLASS, "", name)
    except (ApiError, UnreachableError) as error:
        return "", f'getting storagclass "{name}": {error}'
    return str(found.get("volumeBindingMode", "")), ""
