"""Which backend and passphrase Pulumi uses: this clone's or the user's own.

`make env` exports the backend and the passphrase of this clone. A user who sets PULUMI_BACKEND_URL to another address
has their own backend. Then that backend is used, and its secrets are never encrypted with our passphrase, because
`make clean` removes our passphrase.
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
"""Names the clone whose `make env` has set up the shell. A clone's backend and passphrase are not the user's own."""

_FILES = "file://"
# A service encrypts secrets itself. So does a provider that the stack file names, except the provider `passphrase`.
_SERVICES = ("https://", "http://")
_PROVIDER = re.compile(r"^secretsprovider: *['\"]?(?!passphrase)\w", re.MULTILINE)


def backend() -> str | None:
    """URL of the user's own backend; None if this clone's backend is used."""
    url = os.environ.get(BACKEND)
    return _as_used(url) if url and url not in {_url(clone) for clone in _clones()} else None


def folder() -> Path | None:
    """Folder of the backend in use, this clone's or the user's; None if that backend is not a folder."""
    url = backend()
    if url is None:
        return STATE
    if not url.startswith(_FILES):
        return None
    # As Pulumi reads the path (pkg/v3/backend/diy/backend.go, massageBlobPath): relative to Pulumi's own folder, and
    # `~` is the user's home.
    return ROOT / Path(unquote(url.removeprefix(_FILES).partition("?")[0])).expanduser()


def in_folder(place: Path) -> str:
    """URL of the backend in use, with `place` as its folder."""
    options = (backend() or _url(ROOT)).partition("?")[2]
    return f"{_FILES}{quote(str(place))}{options and f'?{options}'}"


def forget_backend() -> None:
    """Use this clone's own backend from now on, even if the user's shell names another one."""
    if backend():
        del os.environ[BACKEND]


def passphrase() -> bool:
    """Whether the user's shell has a passphrase, or a passphrase file, that is not a clone's."""
    file = os.environ.get(PHRASE_FILE)
    clones = {str(clone / PASSPHRASE.relative_to(ROOT)) for clone in _clones()}
    return PHRASE in os.environ or bool(file and file not in clones)


def variables() -> dict[str, str]:
    """The variables that a shell needs for the backend in use; none if the user's own URL is enough."""
    url = backend()
    if url is None:
        return {BACKEND: _url(ROOT), PHRASE_FILE: str(PASSPHRASE), CLONE: str(ROOT)}
    return {} if url == os.environ[BACKEND] else {BACKEND: url}


def unwanted() -> list[str]:
    """Variables of this process that would make Pulumi use the wrong passphrase."""
    if not backend():
        return [PHRASE]  # Pulumi prefers this variable to the passphrase file
    return [] if passphrase() else [PHRASE_FILE]


def encrypts_with_passphrase(stack: str) -> bool:
    """Whether secrets of `stack` in the user's own backend are encrypted with a passphrase."""
    return not (backend() or "").startswith(_SERVICES) and not _PROVIDER.search(
        stack_files.file(stack).read_text()
    )


def check(stack: str) -> None:
    """Raise SetupError if the user's own backend needs a passphrase and has none."""
    url = backend()
    if url and encrypts_with_passphrase(stack) and not passphrase():
        raise SetupError(
            f"{BACKEND} names a backend of your own ({url.partition(':')[0]}:…), "
            "and the shell has no passphrase for it",
            f"export {PHRASE_FILE}=<the file with the stack's passphrase>, "
            f"or `unset {BACKEND}` to use this clone's own backend",
        )


def _clones() -> list[Path]:
    named = os.environ.get(CLONE)
    return [ROOT, *([Path(named)] if named else [])]


def _url(clone: Path) -> str:
    return _as_used(f"{_FILES}{quote(str(clone / STATE.relative_to(ROOT)))}")


def _as_used(url: str) -> str:
    """`url`; for a folder, with the option that writes no second file beside each checkpoint.

    That file costs a tenth of an update's time. It is not written atomically (gocloud.dev, blob/fileblob/attrs.go), so
    another Pulumi that reads at that moment fails: "failed to load checkpoint: EOF".
    """
    place, _, options = url.partition("?")
    if not place.startswith(_FILES) or any(each.startswith("metadata=") for each in options.split("&")):
        return url
    return f"{place}?{'&'.join(filter(None, (options, 'metadata=skip')))}"
