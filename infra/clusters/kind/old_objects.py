"""The objects of a kind cluster that this update replaces: they go with it, and Pulumi has to forget them.

Pulumi before 3.260 does not count a cluster that it deletes before its replacement as deleted, so that `deleted_with`
has no effect: at the end of the update it wants each old object deleted, by a plugin that reaches the old cluster no
more. A user's own Pulumi may be that old. The plugin drops them where PULUMI_K8S_DELETE_UNREACHABLE is "true". That
must never be so by chance: while a cluster lives, an API server that restarts would look the same. So it has to be
set for this one update.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pulumi

from infra import agreed

# Read once and taken out of the program's environment: pulumi_kubernetes would write it into the provider's inputs,
# where it would stay for good. The plugins have it from the CLI.
_MAY_BE_DROPPED = os.environ.pop(agreed.DELETE_UNREACHABLE, "") == "true"


class OldObjectsError(agreed.ProgramError):
    """A cluster would be replaced, and its objects could not be deleted any more."""


def ensure_they_may_go(name: str, replaced_for: Sequence[str]) -> None:
    """Raises OldObjectsError, before anything is touched, for a replacement without the variable.

    Parameters:
        name: of the cluster.
        replaced_for: why it will be replaced; empty where it stays.
    """
    if not replaced_for or _MAY_BE_DROPPED or pulumi.runtime.is_dry_run():
        return
    if file := os.environ.get(agreed.LOST_OBJECTS):
        Path(file).write_text(json.dumps({"replaced": name}))
    raise OldObjectsError(
        f"kind cluster {name} will be replaced ({', '.join(replaced_for)}); nothing was touched yet.\n"
        f"  fix: `make up` goes on by itself; plain pulumi needs {agreed.DELETE_UNREACHABLE}=true for this one "
        "update, so that the objects that go with the cluster leave the state"
    )
