"""What was applied to a stack last: the configuration of its last update, from the history in our file backend.

Pulumi writes it after each operation, whoever has called it, so a plain `pulumi up` counts, too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from toolchain.operating.state_copies import PROJECT
from toolchain.paths import STATE

HISTORY = STATE / ".pulumi" / "history" / PROJECT
UPDATE, DESTROY, SUCCEEDED = "update", "destroy", "succeeded"


@dataclass(frozen=True)
class LastUpdate:
    """An update that succeeded.

    Parameters:
        config: full keys to values; what is encrypted stays so.
        ended: when.
        failed: when a later update failed; None where none did.
    """

    config: Mapping[str, Any]
    ended: datetime
    failed: datetime | None = None


def of(stack: str) -> LastUpdate | None:
    """The last update of `stack`; None where it was never up, was taken down since, or has no whole history."""
    failed = None
    # Their names end with nanoseconds since 1970.
    for file in sorted((HISTORY / stack).glob("*.history.json"), reverse=True):
        try:
            told = json.loads(file.read_text())
            kind, result, ended = told["kind"], told["result"], datetime.fromtimestamp(told["endTime"])
            config = told.get("config") or {}
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if kind == DESTROY:
            return None
        if kind == UPDATE and result == SUCCEEDED:
            return LastUpdate(config, ended, failed)
        if kind == UPDATE:
            failed = failed or ended
    return None
