"""Conditions that the annotation `pulumi.com/waitFor` asks for."""

from __future__ import annotations

import json
from collections.abc import Callable

from pulumi_standins.kubernetes.awaiting import jsonpath, pods
from pulumi_standins.kubernetes.awaiting.snapshot import POD, Rule, Snapshot, Verdict, condition
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
    return Rule(lambda snapshot: _judge(snapshot, tests), related=(POD,))


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


def _judge(snapshot: Snapshot, tests: list[_Test]) -> Verdict:
    missing = [expression for expression, holds in tests if not holds(snapshot.obj)]
    if not missing:
        return Verdict(is_ready=True)
    owned = snapshot.owned(POD)
    warnings = [line for pod in owned for line in pods.problems(pod) if "[" in line.partition("]: ")[2][:1]]
    waiting = [
        f"Pod {pod['metadata']['name']}: {pods.describe(pod)}"
        for pod in owned
        if nested(pod, "status", "phase") != "Succeeded" and condition(pod, "Ready").get("status") != "True"
    ]
    status = f"Waiting for {', '.join(missing)}" + (f"; {waiting[0]}" if waiting else "")
    findings = [f"Not satisfied: {expression}" for expression in missing]
    for entry in nested(snapshot.obj, "status", "conditions", default=[]) or []:
        if entry.get("status") == "True" and entry.get("message"):
            findings.append(f"[{entry.get('type')}] {entry['message']}")
    return Verdict(status=status, warnings=warnings, findings=findings + warnings)
