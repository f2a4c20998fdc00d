"""The conditions in the annotation `pulumi.com/waitFor`: JSONPath by RFC 9535, and conditions of the status."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from pulumi_standins.kubernetes.awaiting.snapshot import Rule, Snapshot, Verdict
from pulumi_standins.kubernetes.objects import nested
from pulumi_standins.kubernetes.values import Object

Test = Callable[[Object], str]
"""Says what an object lacks; empty if it lacks nothing."""

_BRACKETS = re.compile(r"\{\s*(.*?)\s*\}")


def rule(text: str) -> Rule:
    """The rule for an annotation: one expression, or a JSON list whose expressions must all hold.

    Raises:
        ValueError: an expression is invalid.
    """
    try:
        decoded = json.loads(text)
    except ValueError:
        decoded = None
    is_list = isinstance(decoded, list) and all(isinstance(each, str) for each in decoded)
    expressions: list[str] = decoded if is_list else [text]
    if not expressions:
        raise ValueError("pulumi.com/waitFor: at least one condition must be specified")
    tests = {expression: _test(expression) for expression in expressions}
    return Rule(lambda snapshot: _judge(snapshot, tests))


def _judge(snapshot: Snapshot, tests: dict[str, Test]) -> Verdict:
    missing = {expression: lack for expression, test in tests.items() if (lack := test(snapshot.obj))}
    findings = [f"{expression}: {lack}" for expression, lack in missing.items()]
    return Verdict(is_ready=not missing, status="; ".join(missing.values()), findings=findings)


def _test(expression: str) -> Test:
    if expression.startswith("jsonpath="):
        return _json_path(expression.removeprefix("jsonpath="))
    if expression.startswith("condition="):
        return _condition(*expression.removeprefix("condition=").partition("=")[::2])
    raise ValueError(f'pulumi.com/waitFor: expected a "jsonpath=" or "condition=" prefix, got "{expression}"')


def _json_path(text: str) -> Test:
    """The test of `{path}` or `{path}=value`. A `==` is part of the path; `!=`, `<=` and `>=` are refused."""
    path, *values = (part.replace("\0", "==") for part in text.replace("==", "\0").split("="))
    if len(values) > 1:
        raise ValueError(f'pulumi.com/waitFor: format should be {{.path}}=value or {{.path}}, got "{text}"')
    if values == [""]:
        raise ValueError(f"pulumi.com/waitFor: {path}= requires a value")
    if path.startswith("'") and path.endswith("'"):
        raise ValueError(f"pulumi.com/waitFor: {path} should omit shell quotes")
    brackets = _BRACKETS.search(path)
    if brackets is None:
        raise ValueError(f"pulumi.com/waitFor: {path} should be wrapped in brackets {{ ... }}")
    # Imported here: it takes a tenth of a second, and few programs need it.
    import jsonpath_rfc9535

    try:
        query = jsonpath_rfc9535.compile(brackets[1] if brackets[1].startswith("$") else f"${brackets[1]}")
    except jsonpath_rfc9535.JSONPathError as error:
        raise ValueError(f'pulumi.com/waitFor: parsing "{path}": {error}') from error

    def lack(obj: Object) -> str:
        if _is_behind(obj, nested(obj, "status", "observedGeneration")):
            return f"Waiting for {text}"
        found = query.find(obj).values()
        if not found:
            return f"{path} selected nothing"
        if not values:
            return ""
        if isinstance(found[0], dict | list):
            return f'"{path}" has a non-primitive value ({found[0]})'
        printed = _printed(found[0])
        return "" if printed == values[0] else f'Waiting for {text} (found "{printed}")'

    return lack


def _printed(value: Any) -> str:
    return "<nil>" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _condition(name: str, wanted: str) -> Test:
    wanted = wanted or "True"

    def lack(obj: Object) -> str:
        conditions = nested(obj, "status", "conditions")
        if not isinstance(conditions, list):
            return "Has no .status.conditions"
        named = (
            each
            for each in conditions
            if str(each.get("type", "")).lower() == name.lower() and "status" in each
        )
        found = next(named, None)
        if found is None:
            return f"Has no condition {name}"
        observed = found.get("observedGeneration", nested(obj, "status", "observedGeneration"))
        if _is_behind(obj, observed):
            return f"Generation {observed} is less than expected {nested(obj, 'metadata', 'generation')}"
        if str(found["status"]).lower() == wanted.lower():
            return ""
        return f"Resource has condition {name}={found['status']} (want {wanted})"

    return lack


def _is_behind(obj: Object, observed: int | None) -> bool:
    """Whether a status names an older generation of the specification."""
    return observed is not None and observed < nested(obj, "metadata", "generation", default=0)
