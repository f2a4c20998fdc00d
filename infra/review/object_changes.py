"""The differences between an object and another revision's rendering, field by field.

A change of an anchored value, which a rendering writes once, is listed once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import yaml

from infra.objects.kinds import title
from infra.objects.manifest import Manifest
from infra.review.text import nodes

# Keys that name the entries of a list, as in a pod's lists: the first key that all entries have, with other values.
NAMES = ("name", "mountPath", "key", "type", "port")
Change = tuple[str, Any, Any]
"""A field's path, and its value before and after; None if it is missing."""


@dataclass(frozen=True)
class ObjectChange:
    """An object that is new (`before` is None), removed (`after` is None) or changed; `fields` has the changes."""

    title: str
    before: Manifest | None
    after: Manifest | None
    fields: tuple[Change, ...] = ()


def object_changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[ObjectChange]:
    """The differences between two renderings: file's name -> contents."""
    same = set(before.values()) & set(after.values())
    old, new = _by_title(before, same), _by_title(after, same)
    found = []
    for name in [*new, *(each for each in old if each not in new)]:
        before_it, after_it = old.get(name), new.get(name)
        fields = _changed_fields(before_it, after_it) if before_it and after_it else []
        if fields or before_it is None or after_it is None:
            found.append(ObjectChange(name, _manifest(before_it), _manifest(after_it), tuple(fields)))
    return found


def _manifest(node: yaml.Node | None) -> Manifest | None:
    return None if node is None else _plain(node)


def _by_title(files: Mapping[str, str], same: Set[str]) -> dict[str, yaml.Node]:
    found = [each for content in files.values() if content not in same for each in nodes(content)]
    return {title(_plain(each)): each for each in found}


def _changed_fields(before: yaml.Node, after: yaml.Node) -> list[Change]:
    """The fields in which two objects differ. A field that both objects repeat by an alias is left out."""
    repeated = _repeated(before) & _repeated(after)
    changes = _differences(_plain(before), _plain(after), ())
    return [
        (_shown(path), old, new)
        for path, old, new in changes
        if not any(path[:length] in repeated for length in range(len(path) + 1))
    ]


Path = tuple[str, ...]


def _repeated(manifest: yaml.Node) -> set[Path]:
    """The paths where the object repeats another part of it by an alias."""
    seen: set[int] = set()
    found: set[Path] = set()

    def walk(node: yaml.Node | None, path: Path) -> None:
        if node is None or id(node) in seen:
            found.add(path)
            return
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                walk(value, (*path, str(key.value)))
        elif isinstance(node, yaml.SequenceNode):
            for word, value in zip(_words(_plain(node)), node.value, strict=True):
                walk(value, (*path, word))

    walk(manifest, ())
    return found


def _plain(node: yaml.Node) -> Any:
    return yaml.SafeLoader("").construct_document(node)


def _words(entries: list[Any]) -> list[str]:
    """The entries' names in a path: their own names if all differ, else their positions."""
    for key in NAMES:
        names = [str(each.get(key)) for each in entries if isinstance(each, dict) and key in each]
        if len(names) == len(entries) == len(set(names)):
            return [f"[{name}]" for name in names]
    return [f"[{place}]" for place in range(len(entries))]


def _differences(before: Any, after: Any, path: Path) -> Iterator[tuple[Path, Any, Any]]:
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _of_mappings(before, after, path)
    elif isinstance(before, list) and isinstance(after, list):
        if all(isinstance(each, dict) for each in [*before, *after]):
            yield from _of_mappings(_named(before), _named(after), path)
        else:
            yield from _of_lists(before, after, path)
    elif before != after:
        yield path, before, after


def _named(entries: list[Any]) -> dict[str, Any]:
    return dict(zip(_words(entries), entries, strict=True))


def _of_mappings(
    before: dict[str, Any], after: dict[str, Any], path: Path
) -> Iterator[tuple[Path, Any, Any]]:
    for key in {**before, **after}:
        yield from _differences(before.get(key), after.get(key), (*path, str(key)))


def _of_lists(before: list[Any], after: list[Any], path: Path) -> Iterator[tuple[Path, Any, Any]]:
    """The changed words of a list: an added word does not count as a change of the words behind it."""
    matcher = SequenceMatcher(None, list(map(str, before)), list(map(str, after)), autojunk=False)
    for tag, start, end, other_start, other_end in matcher.get_opcodes():
        if tag != "equal":
            yield path, _one(before[start:end]), _one(after[other_start:other_end])


def _one(words: list[Any]) -> Any:
    return None if not words else words[0] if len(words) == 1 else words


def _shown(path: Path) -> str:
    return ".".join(path).replace(".[", "[")
