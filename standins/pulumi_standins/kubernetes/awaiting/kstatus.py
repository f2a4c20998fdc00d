"""Readiness by convention, for kinds without a rule of their own: the conditions that `kstatus` defines.

Source: sigs.k8s.io/cli-utils, pkg/kstatus.
"""

from __future__ import annotations

from pulumi_standins.kubernetes.awaiting.snapshot import Snapshot, Verdict, condition, is_observed
from pulumi_standins.kubernetes.objects import nested


def current(snapshot: Snapshot) -> Verdict:
    """Ready by convention (kstatus): the status is current, not reconciling, not stalled, Ready if it says so."""
    obj = snapshot.obj
    has_generation = nested(obj, "status", "observedGeneration") is not None
    ready, stalled = condition(obj, "Ready"), condition(obj, "Stalled")
    if stalled.get("status") == "True":
        finding = f"[{stalled.get('reason')}] {stalled.get('message')}"
        return Verdict(status=finding, findings=[finding])
    if has_generation and not is_observed(obj):
        return Verdict(
            status="Waiting for readiness", findings=["The controller has not seen the last change"]
        )
    if condition(obj, "Reconciling").get("status") == "True" or ready.get("status") in ("False", "Unknown"):
        message = str(ready.get("message") or "Waiting for readiness")
        return Verdict(status=message, findings=[message])
    return Verdict(is_ready=True)
