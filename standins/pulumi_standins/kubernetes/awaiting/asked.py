"""Conditions that the annotation `pulumi.com/waitFor` asks for, and readiness of kinds that nobody knows."""

from __future__ import annotations

import json
from collections.abc import Callable

from pulumi_standins.kubernetes.awaiting import jsonpath, pods
from pulumi_standins.kubernetes.awaiting.scene import POD, Rule, Scene, Verdict, condition, is_observed
from pulumi_standins.kubernetes.objects import nested
from pulumi_standins.kubernetes.values import Object

_Test = tuple[str, Callable[[Object], bool]]


def rule(text: str) -> Rule:
    """The rule for an annotation: one expression, or a JSON list of which all must hold.

    Raises:
        ValueError: it is neither `jsonpath=...` nor `condition=...`.
    """
    try:
        decoded = json.loads(text)
    except ValueError:
        decoded = text
    expressions = [str(entry) for entry in decoded] if isinstance(decoded, list) else [text]
    if not expressions:
        raise ValueError("pulumi.com/waitFor: at least one condition must be specified")
    tests = [_test(expression) for expression in expressions]
    return Rule(lambda scene: _judge(scene, tests), related=(POD,))


def _test(expression: str) -> _Test:
    if expression.startswith("jsonpath="):
        parsed = jsonpath.parse(expression)
        return expression, parsed.matches
    if expression.startswith("condition="):
        name, _, wanted = expression.removeprefix("condition=").partition("=")
        return expression, lambda obj: _has_condition(obj, name, wanted or "True")
    raise ValueError(f'expected a "jsonpath=" or "condition=" prefix, got "{expression}"')


def _has_condition(obj: Object, name: str, wanted: str) -> bool:
    observed = nested(obj, "status", "observedGeneration")
    if observed is not None and observed < nested(obj, "metadata", "generation", default=0):
        return False
    for entry in nested(obj, "status", "conditions", default=[]) or []:
        if str(entry.get("type", "")).lower() == name.lower():
            return str(entry.get("status", "")).lower() == wanted.lower()
    return False


def _judge(scene: Scene, tests: list[_Test]) -> Verdict:
    missing = [expression for expression, holds in tests if not holds(scene.obj)]
    if not missing:
        return Verdict(is_ready=True)
    owned = scene.owned(POD)
    warnings = [line for pod in owned for line in pods.problems(pod) if "[" in line.partition("]: ")[2][:1]]
    waiting = [
        f"Pod {pod['metadata']['name']}: {pods.describe(pod)}"
        for pod in owned
        if nested(pod, "status", "phase") != "Succeeded" and condition(pod, "Ready").get("status") != "True"
    ]
    status = f"Waiting for {', '.join(missing)}" + (f"; {waiting[0]}" if waiting else "")
    findings = [f"Not satisfied: {expression}" for expression in missing]
    for entry in nested(scene.obj, "status", "conditions", default=[]) or []:
        if entry.get("status") == "True" and entry.get("message"):
            findings.append(f"[{entry.get('type')}] {entry['message']}")
    return Verdict(status=status, warnings=warnings, findings=findings + warnings)


def generic(scene: Scene) -> Verdict:
    """Ready by convention (kstatus): the status is current, not reconciling, not stalled, Ready if it says so."""
    obj = scene.obj
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
