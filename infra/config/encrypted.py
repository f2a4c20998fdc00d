"""Values of a stack file that Pulumi keeps encrypted: where they are allowed, and how the program recognizes them.

Pulumi hands a section with an encrypted value to the program in plain text, and marks the whole section as secret.
Only the stack file shows which value is encrypted: `{secure: …}`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from infra.config.errors import ConfigError, key_of, not_allowed, paragraph

Path = tuple[str | int, ...]
SHOWN = "(secret)"
ALLOWED = "encrypted values only in job.env, each as one variable; they reach the pods through a Secret"
FIX = (
    "write the value in plain text, or give it to the job as a variable: "
    "pulumi config set --secret --path 'trainstack:job.env.NAME'"
)


def is_encrypted(value: Any) -> bool:
    """Whether `value` is a cipher text of Pulumi."""
    return isinstance(value, Mapping) and value.keys() == {"secure"} and isinstance(value["secure"], str)


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Each value below `value` that contains no other value, with its path. An encrypted value is not divided."""
    if is_encrypted(value) or not value or not isinstance(value, Mapping | list):
        yield path, value
        return
    entries = value.items() if isinstance(value, Mapping) else enumerate(value)
    for name, each in entries:
        yield from leaves(each, (*path, name))


def ensure_in_env(raw: Mapping[str, Any], file: str) -> None:
    """Raises ConfigError for each encrypted value outside `env`: it would be in plain text in the cluster."""
    stray = [path for path, each in leaves(raw) if is_encrypted(each) and not _is_variable(path)]
    if stray:
        raise ConfigError("\n".join(paragraph(file, key_of(path), SHOWN, ALLOWED, FIX) for path in stray))


def _is_variable(path: Path) -> bool:
    match path:
        case ("job", "env", str()) | ("jobs", int(), "env", str()):
            return True
    return False


def restored(
    given: Mapping[str, Any], written: Mapping[str, Any], secret: Collection[str], file: str
) -> dict[str, Any]:
    """`given` with each encrypted value as `{secure: <plain text>}` again.

    Parameters:
        given: the sections in plain text, as Pulumi hands them over.
        written: the sections of the stack file.
        secret: names of the sections with an encrypted value.
        file: the stack file's path, for errors.

    Raises ConfigError if the stack file does not show which value of a section is encrypted.
    """
    return {
        name: _restored(name, section, written.get(name), file) if name in secret else section
        for name, section in given.items()
    }


def _restored(name: str, given: Any, written: Any, file: str) -> Any:
    there, here = dict(leaves(given)), dict(leaves(written))
    encrypted = {path for path, each in here.items() if is_encrypted(each)}
    if not encrypted or there.keys() != here.keys():
        raise not_allowed(file, key_of((name,)), SHOWN, ALLOWED, FIX)
    return _with_marks(given, encrypted)


def _with_marks(value: Any, encrypted: Collection[Path], path: Path = ()) -> Any:
    if path in encrypted:
        return {"secure": str(value)}
    if isinstance(value, Mapping):
        return {name: _with_marks(each, encrypted, (*path, name)) for name, each in value.items()}
    if isinstance(value, list):
        return [_with_marks(each, encrypted, (*path, place)) for place, each in enumerate(value)]
    return value
