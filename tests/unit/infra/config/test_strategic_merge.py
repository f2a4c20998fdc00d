"""A patch over a pod template. tests/matrix/test_strategic_merge.py holds it to a real API server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from infra.config.strategic_merge import merged

TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"a": "1"}},
    "spec": {
        "containers": [{"name": "pytorch", "env": [{"name": "A", "value": "1"}], "args": ["x"]}],
        "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}}],
        "tolerations": [{"key": "a"}],
    },
}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a list with a merge key": (
        {"containers": [{"name": "pytorch", "env": [{"name": "B"}, {"name": "A", "value": "2"}]}]},
        {
            "containers": [
                {"name": "pytorch", "env": [{"name": "A", "value": "2"}, {"name": "B"}], "args": ["x"]}
            ]
        },
    ),
    "another list": ({"tolerations": [{"key": "b"}]}, {"tolerations": [{"key": "b"}]}),
    "null": ({"tolerations": None}, {"tolerations": ...}),
    "a volume's other source": (
        {"volumes": [{"name": "tmp", "nfs": {"server": "s", "path": "/"}}]},
        {"volumes": [{"name": "tmp", "nfs": {"server": "s", "path": "/"}}]},
    ),
    "an entry deleted": ({"volumes": [{"name": "tmp", "$patch": "delete"}]}, {"volumes": []}),
    "a list replaced": (
        {"volumes": [{"name": "x", "emptyDir": {}}, {"$patch": "replace"}]},
        {"volumes": [{"name": "x", "emptyDir": {}}]},
    ),
    "nulls of a new mapping": (
        {"dnsConfig": {"searches": None, "options": []}},
        {"dnsConfig": {"options": []}},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_merges(name: str) -> None:
    patch, wanted = CASES[name]
    expected = {key: value for key, value in {**TEMPLATE["spec"], **wanted}.items() if value is not ...}
    assert merged(TEMPLATE, {"spec": patch}) == {**TEMPLATE, "spec": expected}


def parts(value: Any) -> Iterator[int]:
    if isinstance(value, dict | list):
        yield id(value)
        for each in value.values() if isinstance(value, dict) else value:
            yield from parts(each)


@pytest.mark.parametrize("name", CASES)
def test_shares_nothing_with_its_inputs(name: str) -> None:
    patch = {"spec": CASES[name][0]}
    before = json.dumps([TEMPLATE, patch])
    found = merged(TEMPLATE, patch)
    assert not {*parts(found)} & {*parts(TEMPLATE), *parts(patch)}
    assert json.dumps([TEMPLATE, patch]) == before
