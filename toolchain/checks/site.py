"""`make docs`: the documents as a site. mkdocs.yml says what is on it."""

from __future__ import annotations

from pathlib import Path

from toolchain.paths import LOCAL, LOGS, ROOT
from toolchain.steps import run, say, step
from toolchain.tools import venv

LOCK = ROOT / "requirements-site.lock"
SITE = LOCAL / "site"
# Of Material for MkDocs: words about other products.
QUIET = {"NO_MKDOCS_2_WARNING": "1"}


def build(root: Path = ROOT, into: Path = SITE) -> None:
    """Write the site, and say where. Raises SetupError, for a link that leads nowhere too.

    Parameters:
        root: the folder with mkdocs.yml.
        into: which folder becomes the site.
    """
    program = venv.ensure_beside(LOCAL / "site-packages", LOCK) / "mkdocs"
    log = LOGS / "site.log"
    with step("the site of the documents"):
        run([program, "build", "--strict", "--site-dir", into], log=log, cwd=root, env=QUIET)
    say(f"read it with: python3 -m http.server --directory {into}")
