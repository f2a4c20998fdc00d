"""Pulumi's backend and passphrase: whose they are, this clone's or the user's own.

`make env` exports this clone's. Somebody who has set PULUMI_BACKEND_URL to another address has a backend of their own.
It stays in use, and its secrets are never encrypted with our passphrase, which `make clean` removes.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import quote, unquote

from toolchain import stack_files
from toolchain.paths import PASSPHRASE, ROOT, STATE
from toolchain.steps import SetupError

BACKEND = "PULUMI_BACKEND_URL"
PHRASE = "PULUMI_CONFIG_PASSPHRASE"
PHRASE_FILE = "PULUMI_CONFIG_PASSPHRASE_FILE"
CLONE = "TRAINSTACK_CLONE"
"""Names the clone whose `make env` has set a shell up: its backend and passphrase are not the user's."""

_FILES = "file://"
# A service keeps secrets itself; so does what the stack file names, unless that is a passphrase again.
_SERVICES = ("https://", "http://")
_PROVIDER = re.compile(r"^secretsprovider: *['\"]?(?!passphrase)\w", re.MULTILINE)


def backend() -> str | None:
    """URL of the user's own backend; None where this clone's is to be used."""
    url = os.environ.get(BACKEND)
    return _as_used(url) if url and url not in {_url(clone) for clone in _clones()} else None


def folder() -> Path | None:
    """Folder of the backend that is in use, this clone's or the user's; None for one that is no folder."""
    url = backend()
    if url is None:
        return STATE
    if not url.startswith(_FILES):
        return None
    # As Pulumi reads it (pkg/v3/backend/diy/backend.go, massageBlobPath): from its own folder, `~` is the user's home.
    return ROOT / Path(unquote(url.removeprefix(_FILES).partition("?")[0])).expanduser()


def in_folder(place: Path) -> str:
    """URL of the backend in use, with `place` as its folder."""
    options = (backend() or _url(ROOT)).partition("?")[2]
    return f"{_FILES}{quote(str(place))}{options and f'?{options}'}"


def forget_backend() -> None:
    """Go on with this clone's own backend, whatever the user's shell says."""
    if backend():
        del os.environ[BACKEND]


def passphrase() -> bool:
    """Whether the user's shell has a passphrase, or the file of one, that is not a clone's."""
    file = os.environ.get(PHRASE_FILE)
    clones = {str(clone / PASSPHRASE.relative_to(ROOT)) for clone in _clones()}
    return PHRASE in os.environ or bool(file and file not in clones)


def variables() -> dict[str, str]:
    """What a shell has to export for the backend in use; nothing where the user's own address says all of it."""
    url = backend()
    if url is None:
        return {BACKEND: _url(ROOT), PHRASE_FILE: str(PASSPHRASE), CLONE: str(ROOT)}
    return {} if url == os.environ[BACKEND] else {BACKEND: url}


def unwanted() -> list[str]:
    """Variables of this process that would lead Pulumi astray."""
    if not backend():
        return [PHRASE]  # it would win over the passphrase file
    return [] if passphrase() else [PHRASE_FILE]


def encrypts_with_passphrase(stack: str) -> bool:
    """Whether what the user's own backend keeps of `stack` is encrypted with a passphrase."""
    return not (backend() or "").startswith(_SERVICES) and not _PROVIDER.search(
        stack_files.file(stack).read_text()
    )


def check(stack: str) -> None:
    """Raise SetupError for a backend of the user's that wants a passphrase and was given none."""
    url = backend()
    if url and encrypts_with_passphrase(stack) and not passphrase():
        raise SetupError(
            f"{BACKEND} names a backend of your own ({url.partition(':')[0]}:…), "
            "and the shell has no passphrase for it",
            f"export {PHRASE_FILE}=<a file that everybody on the stack has>, "
            f"or `unset {BACKEND}` to use this clone's own",
        )


def _clones() -> list[Path]:
    named = os.environ.get(CLONE)
    return [ROOT, *([Path(named)] if named else [])]


def _url(clone: Path) -> str:
    return _as_used(f"{_FILES}{quote(str(clone / STATE.relative_to(ROOT)))}")


def _as_used(url: str) -> str:
    """`url`, for a folder with the option that no second file is written beside each checkpoint.

    That file costs a tenth of an update's time. It is not written whole at once (gocloud.dev, blob/fileblob/attrs.go),
    so another Pulumi that reads at that moment fails: "failed to load checkpoint: EOF".
    """
    place, _, options = url.partition("?")
    if not place.startswith(_FILES) or any(each.startswith("metadata=") for each in options.split("&")):
        return url
    return f"{place}?{'&'.join(filter(None, (options, 'metadata=skip')))}"
