"""Docker's configuration with the login of one registry, for as long as something is pushed there."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from infra import paths

FILE = "config.json"
# Programs that keep a user's logins: docker would ask them in place of the file.
HELPERS = ("credsStore", "credHelpers")


@contextmanager
def logged_in(address: str, basic: str) -> Iterator[dict[str, str]]:
    """The variables with which `docker` logs in to one registry, and to no other.

    The user's own configuration stays as it is. All else in it counts: proxies, contexts, certificates.

    Parameters:
        address: host:port of the registry.
        basic: user and password, encoded.
    """
    user = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
    paths.STATE.mkdir(exist_ok=True)
    # Not in /tmp: a docker that came as a snap sees another one.
    with tempfile.TemporaryDirectory(dir=paths.STATE, prefix=".docker-") as folder:
        settings = {name: value for name, value in _settings(user / FILE).items() if name not in HELPERS}
        place = Path(folder)
        (place / FILE).write_text(json.dumps({**settings, "auths": {address: {"auth": basic}}}))
        for other in user.iterdir() if user.is_dir() else ():
            if other.name != FILE:
                (place / other.name).symlink_to(other.absolute())
        yield {"DOCKER_CONFIG": folder}


def _settings(file: Path) -> dict[str, Any]:
    """What the file holds; nothing where docker itself would complain of it."""
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
