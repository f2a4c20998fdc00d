"""What an update changes, and whether it must replace the object."""

from __future__ import annotations

from dataclasses import dataclass, field

from pulumi_standins.kubernetes import naming, propertypath, replacements, type_tokens
from pulumi_standins.kubernetes.differences import Change, Difference, compare, touches
from pulumi_standins.kubernetes.normalise import normalise
from pulumi_standins.kubernetes.objects import (
    REPLACE_UNREADY,
    assign,
    is_annotated,
    kind_of,
    name_of,
    namespace_of,
    nested,
    remove,
)
from pulumi_standins.kubernetes.prune import prune
from pulumi_standins.kubernetes.session import Session
from pulumi_standins.kubernetes.state import State
from pulumi_standins.kubernetes.values import Object


@dataclass
class Diff:
    """The changes of an update.

    Parameters:
        changes: the kind of change, by property path.
        replaces: the property paths whose change replaces the object.
        deletes_first: whether the old object must be deleted before the new one is created.
    """

    changes: dict[str, Change] = field(default_factory=dict)
    replaces: list[str] = field(default_factory=list)
    deletes_first: bool = False


def diff(urn: str, old: State, news: Object, *, ignored: list[str], is_namespaced: bool) -> Diff:
    """Compare the plain new inputs with the last live object, reduced to the fields of the old inputs.

    So after a refresh, others' changes of the program's fields are shown, but defaults are not.
    """
    old_inputs = normalise(old.inputs)
    news = normalise(news)
    before = prune(old.live, old_inputs)
    _align(before, old.live, news, is_namespaced=is_namespaced)
    paths = (
        replacements.IDENTITY
        if type_tokens.is_patch(urn, str(news.get("kind", "")))
        else replacements.paths(kind_of(news))
    )
    found = Diff()
    patterns = [propertypath.parse(text) for text in ignored]
    for difference in compare(before, news):
        if any(propertypath.covers(pattern, difference.path) for pattern in patterns):
            continue
        # Servers return an empty list of a built-in kind as null, which states do not keep.
        if difference.change is Change.ADD and difference.value == [] and type_tokens.is_known(kind_of(news)):
            continue
        key = difference.property_path
        found.changes[key] = difference.change
        if _replaces(difference, paths):
            found.replaces.append(key)
    # Also for an update: `replaceOnChanges` may make it a replacement, and we do not see that option.
    found.deletes_first = bool(found.changes) and must_delete_first(old.live, news)
    return found


def _align(before: Object, live: Object, news: Object, *, is_namespaced: bool) -> None:
    """Fill in what either side may leave out: the namespace, the type, and the old object's name."""
    for side in (before, news):
        if not is_namespaced:
            remove(side, "metadata", "namespace")
        elif not nested(side, "metadata", "namespace"):
            assign(side, "default", "metadata", "namespace")
    for key in ("apiVersion", "kind"):
        if key in news:
            before.setdefault(key, news[key])
    remove(before, "metadata", "resourceVersion")
    if name_of(news):
        assign(before, name_of(live), "metadata", "name")


def _replaces(difference: Difference, paths: list[replacements.Path]) -> bool:
    if difference.change is Change.DELETE and difference.path == ("metadata",):
        return True
    return any(touches(difference, path) for path in paths)


def must_delete_first(live: Object, news: Object) -> bool:
    """Whether the program gives old and new object the same name, so that they cannot exist together."""
    return (
        bool(name_of(news))
        and not naming.is_autonamed(news)
        and name_of(news) == name_of(live)
        and namespace_of(news) == namespace_of(live)
    )


def must_replace_unready(session: Session, urn: str, old: State, news: Object) -> bool:
    """Whether to replace an incomplete Job, because its annotation `replaceUnready` says so."""
    if not is_annotated(news, REPLACE_UNREADY):
        return False
    if news.get("kind") != "Job":
        session.engine.log(urn, "replaceUnready annotation is not supported for this resource", warning=True)
        return False
    live = session.client.find(kind_of(old.live), namespace_of(old.live), name_of(old.live))
    if live is None:
        return False
    conditions = nested(live, "status", "conditions", default=[]) or []
    return not any(c.get("type") == "Complete" and c.get("status") == "True" for c in conditions)
