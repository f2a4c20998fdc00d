"""One page of Markdown for a pull request: what a changed stack file does, costs and loses, and what was checked."""

from __future__ import annotations

import functools
import html
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from infra import dataset, stack_plan
from infra.config import ConfigError, Stack, from_file
from infra.config.encrypted import SHOWN, is_encrypted, leaves
from infra.config.errors import Extending, key_of
from infra.config.job import JobConfig
from infra.config.load import Sections, read, source, validated
from infra.config.training import Dataset
from infra.guard.policy_rules import RULES
from infra.job.manifest import run_of
from infra.objects.job_kinds import NAMES
from infra.objects.kinds import title
from infra.objects.manifest import Manifest
from infra.review import consequences, folder, kubeconform
from infra.review.consequences import VersionChange
from infra.review.key_changes import KeyChange, key_changes
from infra.review.object_changes import ObjectChange, object_changes
from infra.review.text import objects_in

# A comment of a pull request has at most 65,536 characters. The diff has the rest.
MOST_FIELDS = 40
MOST_LETTERS = 200
MOST_LISTED = 40
HOUR_S = 3600
NO_KEY = "No key of the stack file has changed. The image's sources or this project's program have changed."
NOT_KNOWN = "Not known: this program cannot read the stack's earlier files."
MARK = "<!-- trainstack review: {stack} -->"
"""The first line of the text about one stack."""


@dataclass(frozen=True)
class Base:
    """The revision that a review compares with.

    Parameters:
        folder: its files below stacks/; empty if it has none.
        revision: its name on the page.
    """

    folder: Path
    revision: str

    def stack(self, name: str) -> Stack | None:
        """The stack of that revision; None if there was none, or this program refuses it."""
        return self._read(name)[0]

    def _read(self, name: str) -> tuple[Stack | None, str]:
        """As `stack`, and why this program refuses the stack; empty if it does not."""
        file = self.file(name)
        try:
            return (from_file(file) if file.exists() else None), ""
        except ConfigError as error:
            return None, str(error).replace(os.path.relpath(self.folder), "stacks")

    def sections(self, name: str) -> Sections | None:
        """The sections of that stack; None if there was none, or this program refuses it."""
        return sections(self.file(name)) if self.stack(name) else None

    def rendering(self, name: str) -> tuple[dict[str, str], str]:
        """Path -> contents of the stack's committed rendering, and of the upstream definitions that it installed.

        Also why this program refuses that revision, for example a file with merge conflicts; empty if it does not.
        """
        stack, refusal = self._read(name)
        found: dict[str, str] = {}
        problems: list[str] = []
        own = folder.on_disk(self.folder, name).items()
        rendered = {path: text for path, text in own if folder.has_objects(path)}
        upstream = folder.definitions(stack, self.folder.parent) if stack else {}
        for path, text in (rendered | upstream).items():
            if problem := _problem(text):
                problems.append(f"{path}: no object: {problem}")
            else:
                found[path] = text
        return found, refusal or "\n".join(problems)

    def file(self, name: str) -> Path:
        """The stack file of stack `name` in this revision; the file may be missing."""
        return self.folder / f"Pulumi.{name}.yaml"


@functools.cache
def _problem(text: str) -> str:
    """Why `text` has no objects; empty if it has objects. The cache is for upstream's definitions, which are long."""
    try:
        for each in objects_in(text):
            title(each)
    except (yaml.YAMLError, KeyError, TypeError) as error:
        return str(error)
    return ""


def sections(file: Path) -> Sections:
    """The sections of a stack file. Raises ConfigError."""
    return validated(read(file), str(file))


def refused(stack: str, base: Base, problem: str) -> str:
    """The page of a stack that cannot be rendered."""
    return "\n".join([*_head(stack, base), "The stack is refused.", "", *fenced(problem), ""])


@dataclass(frozen=True)
class Page:
    """A page about a stack.

    Parameters:
        head: the effects of a change: replacements, losses and costs, and the checks.
        details: each key and each object that changes; it may be long.
        passed: whether all checks passed.
        changes: whether the stack applies other objects than before.
    """

    head: Sequence[str]
    details: Sequence[str]
    passed: bool
    changes: bool = True

    @property
    def text(self) -> str:
        """The whole page. The details are last, because a site may cut off the end."""
        return "\n".join([*self.head, *self.details])


def page(stack: Stack, file: Path, contents: Mapping[str, str], base: Base) -> Page:
    """The page about a stack.

    Parameters:
        stack: as the stack file has it.
        file: the stack file.
        contents: what a review writes, path below stacks/ to contents.
    """
    definitions = folder.definitions(stack)
    rendered = {name: text for name, text in contents.items() if folder.has_objects(name)} | definitions
    committed, refusal = base.rendering(stack.name)
    # Only the base's stack file says which definitions the base had.
    compared = {name: text for name, text in rendered.items() if not (refusal and name in definitions)}
    objects = object_changes(committed, compared)
    before, was = base.sections(stack.name), base.stack(stack.name)
    keys = key_changes(before, sections(file)) if before else []
    own = [text for name, text in committed.items() if not name.startswith(folder.UPSTREAM)]
    there = [each for text in own for each in objects_in(text)]
    moved = consequences.version_changes(stack, base.folder.parent) if committed else []
    checks, passed = _checks(rendered)
    head = [*_head(stack.name, base), *_cluster(stack, was), *_refusal(refusal)]
    values = [
        *_values(file, "now"),
        *(_values(base.file(stack.name), f"in {base.revision}") if before else []),
    ]
    if not keys and not objects and not moved and not refusal:
        told = "Nothing that the stack applies has changed."
        return Page([*head, told, "", *checks], values, passed, changes=False)
    head += _versions(moved, stack, file)
    head += _consequences(was, keys, objects, there, moved, not refusal)
    head += [*_costs(stack, was, objects), *checks]
    details = ["### Keys", "", NOT_KNOWN, ""] if refusal else _keys(keys) or ([NO_KEY, ""] if before else [])
    return Page(head, [*details, *values, *_objects(objects, bool(committed))], passed)


def _head(stack: str, base: Base) -> list[str]:
    return [MARK.format(stack=stack), f"## Stack `{stack}`", "", f"Compared with {base.revision}.", ""]


def _cluster(stack: Stack, before: Stack | None) -> list[str]:
    """Where the stack goes, as far as its file says: a review asks no cluster, and no kubeconfig."""
    now, old = _place(stack), _place(before) if before else ""
    if old in ("", now):
        return [f"Cluster: {now}.", ""]
    moved = (
        "If that is another cluster, the old cluster keeps all files, and all objects that others applied from the "
        "rendering."
    )
    return [f"Cluster: {now}; before: {old}. {moved}", ""]


def _place(stack: Stack) -> str:
    kind, named = stack.cluster.kind, stack.cluster.named(stack.name)
    told = [f"{key} {code(value)}" for key, value in named.items()]
    if not (kind.is_ours or named.keys() - {"kubeconfig"}):
        told.append("not named: the cluster of the current context")
    return ", ".join([kind.value, *told])


def _refusal(problem: str) -> list[str]:
    if not problem:
        return []
    told = "This commit's program refuses the revision that this page compares with:"
    return [told, "", *fenced(problem), ""]


def _keys(changes: Sequence[KeyChange]) -> list[str]:
    if not changes:
        return []
    rows = [
        (code(each.key), _value(each.before), _value(each.after), f"{each.outcome}. {each.note}")
        for each in changes
    ]
    return ["### Keys", "", *_table(("key", "before", "after", "effect"), rows)]


def _objects(changes: Sequence[ObjectChange], is_known: bool) -> list[str]:
    head = ["### Objects", ""]
    if not changes:
        return [*head, "No object changes.", ""]
    if not is_known:
        return [*head, f"The stack is new: {len(changes)} objects.", ""]
    lines = [line for each in changes for line in _object(each)]
    return [*head, *folded(_counted(changes), lines)]


def _values(file: Path, when: str) -> list[str]:
    """Each value of a stack file that extends a base, with the file and line of the value; else nothing."""
    places = source(file, f"stacks/{file.name}")
    if not isinstance(places, Extending):
        return []
    rows = [
        (
            code(key_of(path)),
            code(SHOWN) if is_encrypted(value) else _value(value),
            code(places.places[key_of(path)]),
        )
        for path, value in leaves(read(file))
    ]
    return folded(
        f"Each value of stacks/{file.name} {when}, with its file and line",
        _table(("key", "value", "from"), rows),
    )


def _counted(changes: Sequence[ObjectChange]) -> str:
    new = sum(each.before is None for each in changes)
    gone = sum(each.after is None for each in changes)
    counts = {"changed": len(changes) - new - gone, "new": new, "removed": gone}
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count)


def _object(change: ObjectChange) -> list[str]:
    if not change.fields:
        return [f"{code(change.title)} {'is new' if change.before is None else 'is removed'}.", ""]
    rows = [(code(path), _value(old), _value(new)) for path, old, new in change.fields[:MOST_FIELDS]]
    left = len(change.fields) - MOST_FIELDS
    return [
        f"{code(change.title)} changes:",
        "",
        *_table(("field", "before", "after"), rows),
        *([f"and {left} more fields", ""] if left > 0 else []),
    ]


def _versions(moved: Sequence[VersionChange], stack: Stack, file: Path) -> list[str]:
    """An operator serves its whole cluster: all users of the cluster get the other version."""
    if not moved:
        return []
    lines = [
        f"- {code(each.project)} goes {'down' if each.is_down else 'up'} from {each.before} to {each.after}."
        for each in moved
    ]
    beside = ", ".join(map(code, consequences.stacks_beside(stack, file))) or "none"
    told = f"Other stacks of this repository on the same cluster: {beside}. All jobs there use the new version, too."
    return ["### Versions", "", *lines, "", told, ""]


def _consequences(
    before: Stack | None,
    keys: Sequence[KeyChange],
    objects: Sequence[ObjectChange],
    there: list[Manifest],
    moved: Sequence[VersionChange],
    is_known: bool,
) -> Iterator[str]:
    again = consequences.replaced(keys, objects, there)
    cluster = before.cluster_name if before and consequences.replaces_cluster(before, keys) else None
    shown = [*([f"Cluster/{cluster}"] if cluster else []), *again]
    yield from ("### Replaced", "")
    yield from _listed([f"- {code(each)}" for each in shown], is_known)
    yield from ("", "### Lost", "")
    lost = list(consequences.losses(before, keys, again, objects)) if before else []
    lost += [consequences.LOST_FIELDS.format(code(each.project)) for each in moved if each.is_down]
    yield from _listed([f"- {each}" for each in lost], is_known)
    yield ""


def _listed(lines: list[str], is_known: bool) -> list[str]:
    """`lines`; if the base is not known, with the remark that there may be more."""
    if left := len(lines) - MOST_LISTED if len(lines) > MOST_LISTED else 0:
        lines = [*lines[:MOST_LISTED], f"- and {left} more: see the objects below"]
    if is_known:
        return lines or ["Nothing."]
    return [*lines, *([""] if lines else []), NOT_KNOWN]


def _costs(stack: Stack, before: Stack | None, objects: Sequence[ObjectChange]) -> Iterator[str]:
    """The cost of the jobs with a new run, which train from the beginning."""
    known = {run_of(each.before) for each in objects if each.before and each.before["kind"] in NAMES}
    after = [each.after for each in objects if each.after and each.after["kind"] in NAMES]
    runs = {each["metadata"]["name"]: code(run_of(each)) for each in after if run_of(each) not in known}
    runs = _runs_on_digits(stack, before) | runs
    yield from ("### Cost", "")
    rows: list[tuple[str, ...]] = []
    for job in stack.jobs:
        if job.name in runs and not job.run_id:
            pods, gpus = consequences.most_pods(job), job.resources.gpu
            seconds = job.run_policy.active_deadline_seconds
            hours = f"{pods * gpus * seconds / HOUR_S:.4g}", f"{pods * seconds / HOUR_S:.4g}"
            rows.append((runs[job.name], f"{pods}", f"{gpus}", f"{seconds} s", *hours))
    if len(rows) > MOST_LISTED:
        rows = [*rows[:MOST_LISTED], _rest(rows[MOST_LISTED:])]
    if rows:
        yield from _table(
            ("new run", "pods", "GPUs of each", "deadline", "GPU hours, at most", "pod hours, at most"), rows
        )
    else:
        yield from ("No training starts from the beginning: no job has a new run to train.", "")


def _runs_on_digits(stack: Stack, before: Stack | None) -> dict[str, str]:
    """Job's name -> its new run on a machine without MNIST: there, `dataset: auto` is digits; a review shows MNIST."""
    old = {job.name: job for job in before.jobs} if before else {}
    found = {}
    for job in stack.jobs:
        was = old.get(job.name, job)
        auto = Dataset.AUTO in (job.training.dataset, was.training.dataset)
        if (
            before
            and auto
            and job != was
            and (run := _run_on_digits(stack, job)) != _run_on_digits(before, was)
        ):
            found[job.name] = f"{code(run)}, on a machine without MNIST"
    return found


def _run_on_digits(stack: Stack, job: JobConfig) -> str:
    return stack_plan.run_id(stack, job, dataset.on_machine_with(Dataset.DIGITS, stack, job))


def _rest(rows: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """One row for many rows: their number, and the sums of the columns that can be added."""
    sums = {place: sum(float(row[place]) for row in rows) for place in (1, 4, 5)}
    return (f"{len(rows)} more", *(f"{sums[place]:.4g}" if place in sums else "-" for place in range(1, 6)))


def _checks(rendered: Mapping[str, str]) -> tuple[list[str], bool]:
    count = sum(len(objects_in(text)) for text in rendered.values())
    lines = ["### Checks", "", f"- {count} objects keep {len(RULES)} policies."]
    try:
        wrong = kubeconform.mismatches(rendered)
    except kubeconform.NotCheckedError as error:
        return [*lines, f"- Schemas were not checked: {error}.", ""], True
    if wrong:
        lines.append("- These objects break their schemas:")
        lines += [f"  - {code(each)}" for each in wrong[:MOST_LISTED]]
    else:
        lines.append("- All objects fit the schemas of the API server and of the operators' CRDs.")
    return [*lines, ""], not wrong


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return [*(f"| {' | '.join(map(_cell, line))} |" for line in lines), ""]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str) -> str:
    """`text` as code in a line: a site reads no Markdown in it, and notifies no @name."""
    plain = " ".join(text.split())
    fence = "`" * (1 + max(map(len, re.findall("`+", plain)), default=0))
    room = " " if plain.startswith("`") or plain.endswith("`") else ""
    return f"{fence}{room}{plain}{room}{fence}"


def fenced(text: str, language: str = "text") -> list[str]:
    """`text` as a block of code, also with backticks in it."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return [f"{fence}{language}", *text.splitlines(), fence]


def folded(summary: str, lines: Sequence[str]) -> list[str]:
    """`lines` in a folded block; a click on `summary` opens it."""
    return ["<details>", f"<summary>{html.escape(summary)}</summary>", "", *lines, "", "</details>", ""]


def _value(value: Any) -> str:
    if value is None:
        return "-"
    plain = value if isinstance(value, str) else yaml.safe_dump(value, default_flow_style=True, width=10**6)
    plain = plain.removesuffix("...\n").strip()
    short = plain if len(plain) <= MOST_LETTERS else f"{plain[:MOST_LETTERS]}…"
    return code(short)
