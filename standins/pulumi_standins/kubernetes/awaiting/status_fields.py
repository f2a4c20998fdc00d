"""Kinds whose readiness is one field: ResourceQuota, Secret, CustomResourceDefinition."""

from __future__ import annotations

from pulumi_standins.kubernetes.awaiting.snapshot import Snapshot, Verdict, condition
from pulumi_standins.kubernetes.objects import nested


def quota(snapshot: Snapshot) -> Verdict:
    """A ResourceQuota is ready when its status has the limits of its specification."""
    hard = nested(snapshot.obj, "spec", "hard")
    is_ready = isinstance(hard, dict) and hard == nested(snapshot.obj, "status", "hard")
    text = "The quota's limits are not in its status yet"
    return Verdict(is_ready=is_ready, status=text, findings=[text])


def secret(snapshot: Snapshot) -> Verdict:
    """A service account's token Secret is ready when it has data; other Secrets are ready at once."""
    is_token = snapshot.obj.get("type") == "kubernetes.io/service-account-token"
    text = "The token controller has not filled in the secret"
    return Verdict(is_ready=not is_token or bool(snapshot.obj.get("data")), status=text, findings=[text])


def definition(snapshot: Snapshot) -> Verdict:
    """A CustomResourceDefinition is ready when Established; if another definition has its names, the wait ends."""
    established, accepted = condition(snapshot.obj, "Established"), condition(snapshot.obj, "NamesAccepted")
    if established.get("status") == "True":
        return Verdict(is_ready=True)
    if accepted.get("status") == "False":
        finding = f"[{accepted.get('reason')}] {accepted.get('message')}"
        return Verdict(is_hopeless=True, findings=[finding])
    text = "Waiting for the CustomResourceDefinition to be established"
    return Verdict(status=text, findings=[text])
