"""`make docs`: builds the documentation site. mkdocs.yml lists its pages."""

from __future__ import annotations

from pathlib import Path

from toolchain.paths import LOCAL, LOGS, ROOT
from toolchain.steps import run, say, step
from toolchain.tools import venv

LOCK = ROOT / "requirements-site.lock"
SITE = LOCAL / "site"
# Turns off the advertisement of Material for MkDocs.
QUIET = {"NO_MKDOCS_2_WARNING": "1"}


def build(root: Path = ROOT, into: Path = SITE) -> None:
    """Build the site, and say where it is. Raises SetupError, also for a broken link.

    Parameters:
        root: the folder with mkdocs.yml.
        into: the folder of the site.
    """
    program = venv.ensure_beside(LOCAL / "site-packages", LOCK) / "mkdocs"
    log = LOGS / "site.log"
    with step("documentation site"):
        run([program, "build", "--strict", "--site-dir", into], log=log, cwd=root, env=QUIET)
    say(f"read it with: python3 -m http.server --directory {into}")
