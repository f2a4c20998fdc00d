"""What the user says with `make up` for one run: whose objects to take over, whether the cluster may be replaced."""

from __future__ import annotations

import os

from infra import agreed
from toolchain.steps import SetupError


def hand_on(adopt: str, replace_cluster: str) -> None:
    """Hand both on to the program, in the environment. Raises SetupError for what is no owner's id."""
    if adopt and not agreed.OWNER_ID.fullmatch(adopt):
        raise SetupError(
            f"ADOPT={adopt} is no owner's id: 16 of the characters 0 to 9 and a to f",
            "`make status` shows it",
        )
    for name, value in ((agreed.ADOPT, adopt), (agreed.REPLACE_CLUSTER, replace_cluster)):
        if value:
            os.environ[name] = value
