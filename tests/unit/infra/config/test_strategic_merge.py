"""A patch over a pod template. tests/matrix/test_strategic_merge.py holds what comes of it to a real API server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from infra.config.strategic_merge import merged
from tests.matrix.test_strategic_merge import BASE, PATCHES


def parts(value: Any) -> Iterator[int]:
    if isinstance(value, dict | list):
        yield id(value)
        for each in value.values() if isinstance(value, dict) else value:
            yield from parts(each)


@pytest.mark.parametrize("name", PATCHES)
def test_shares_nothing_with_its_inputs(name: str) -> None:
    patch = PATCHES[name]
    before = json.dumps([BASE, patch])
    found = merged(BASE, patch)
    assert not {*parts(found)} & {*parts(BASE), *parts(patch)}
    assert json.dumps([BASE, patch]) == before
