"""What a preview knows of an object's uid."""

from __future__ import annotations

import asyncio
from typing import Any

import pulumi
import pytest

from infra.objects import manifest


@pytest.mark.parametrize(
    ("metadata", "previews", "known"), [({"uid": "a"}, True, True), ({}, True, False), ({}, False, True)]
)
def test_a_preview_says_nothing_of_an_object_to_come(
    monkeypatch: pytest.MonkeyPatch, metadata: dict[str, Any], previews: bool, known: bool
) -> None:
    """A plan that has a value is violated by another one; one that is not known yet may be any."""
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: previews)

    async def is_known() -> bool:
        return await pulumi.Output.from_input(manifest._uid(metadata)).is_known()

    assert asyncio.run(is_known()) is known
