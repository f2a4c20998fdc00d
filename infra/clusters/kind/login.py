"""The login for the registries of this clone's kind clusters.

Each clone has one password. It is in a file that only its owner can read, and in containerd's configuration on the
nodes. It is not in the state, in an object of a cluster, or in a folder that a pod may mount. A registry has only its
bcrypt hash.
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
# The lowest cost of bcrypt. A higher cost only slows down guessing, and guessing 256 random bits is impossible anyway.
ROUNDS = 4


def password() -> str:
    """The clone's password, 64 hexadecimal digits; created if there is none yet. Raises OSError."""
    file = paths.registry_password()
    if not file.exists():
        _make(file)
    return file.read_text().strip()


def _make(file: Path) -> None:
    """Write the whole file in one step, unless another process of this clone has written it already."""
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
    """The value of the HTTP header `Authorization`."""
    return f"Basic {basic()}"


def htpasswd() -> str:
    """The registry's htpasswd file: the user, and the bcrypt hash of the password."""
    return f"{USER}:{bcrypt.hashpw(password().encode(), bcrypt.gensalt(ROUNDS)).decode()}\n"


def fingerprint() -> str:
    """16 hexadecimal digits of a hash: they differ for another password, and do not reveal it."""
    return hashlib.sha256(f"registry {password()}".encode()).hexdigest()[:16]
