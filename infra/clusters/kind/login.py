"""The login that the registries of this clone's kind clusters ask for.

The password is made once per clone. It stands in a file that its owner alone reads, and in containerd's configuration
on the nodes. It is in no state, in no object of a cluster, and in no folder that a pod may mount. A registry has only
its bcrypt hash.
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
# The lowest cost that bcrypt knows: a higher one slows down guessing, and nobody guesses 256 random bits.
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
    """The registry's htpasswd file: the user, and the bcrypt hash of the password."""
    return f"{USER}:{bcrypt.hashpw(password().encode(), bcrypt.gensalt(ROUNDS)).decode()}\n"


def fingerprint() -> str:
    """16 hexadecimal digits of a hash: another password has others, and they do not reveal it."""
    return hashlib.sha256(f"registry {password()}".encode()).hexdigest()[:16]
