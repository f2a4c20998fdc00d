"""The login that the registries of this clone's kind clusters ask for.

The password is made once per clone. It stands in a file that its owner alone reads, and in containerd's configuration
on the nodes. No state holds it, no object in a cluster, and no folder that a pod may mount. A registry has its bcrypt.
"""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
import tempfile
from pathlib import Path

import bcrypt

from infra import paths

USER = "trainstack"
# The smallest that bcrypt knows: it slows down guessing, and nobody guesses 256 random bits.
ROUNDS = 4


def password() -> str:
    """The clone's password, 64 hexadecimal digits; made where there is none yet. Raises OSError."""
    file = paths.registry_password()
    if not file.exists():
        _make(file)
    return file.read_text().strip()


def _make(file: Path) -> None:
    """Write the file whole, unless another run of this clone was quicker."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")  # for its owner alone
    try:
        with os.fdopen(handle, "w") as written:
            written.write(f"{secrets.token_hex(32)}\n")
            written.flush()
            os.fsync(written.fileno())
        os.link(name, file)
    except FileExistsError:
        pass
    finally:
        os.unlink(name)


def basic() -> str:
    """User and password as HTTP's scheme Basic and Docker's configuration encode them (RFC 7617)."""
    return base64.b64encode(f"{USER}:{password()}".encode()).decode()


def authorization() -> str:
    """The value of HTTP's header Authorization."""
    return f"Basic {basic()}"


def htpasswd() -> str:
    """The file from which a registry knows the password again, without having it."""
    return f"{USER}:{bcrypt.hashpw(password().encode(), bcrypt.gensalt(ROUNDS)).decode()}\n"


def fingerprint() -> str:
    """16 hexadecimal digits that tell this password from others, and nothing else of it."""
    return hashlib.sha256(f"registry {password()}".encode()).hexdigest()[:16]
