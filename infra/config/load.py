"""Reads and validates a stack file, and sets the defaults that depend on the stack's name."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError, model_validator

from infra import agreed
from infra.config import matrix_jobs, mount_paths, stack_text, sweep_trials
from infra.config.cluster import ClusterConfig, Guard
from infra.config.data_sets import USUAL, ensure_none_is_moved
from infra.config.encrypted import SHOWN, ensure_in_env, is_encrypted, leaves
from infra.config.errors import ConfigError, Extending, explain, key_of, not_allowed, takes_null
from infra.config.image import ImageConfig
from infra.config.job import JobConfig
from infra.config.matrix import MatrixConfig
from infra.config.names import BATCH_NAME_LENGTH, LABEL_LENGTH, quantity
from infra.config.operator import OperatorApi, OperatorConfig, Queueing
from infra.config.queues import QueueConfig
from infra.config.section import Outcome, Section, refusal, setting
from infra.config.storage import StorageConfig
from infra.config.storage_kinds import OF_A_FOLDER, OUR_VOLUME, StorageKind
from infra.config.sweep import SweepConfig
from infra.config.trainjobs import REFUSED
from storage.manifests import PREPARES

PREFIX = "trainstack:"
EXTENDS = agreed.EXTENDS.removeprefix(PREFIX)
"""The key that names a stack file's base. For Pulumi it is an ordinary value; it is not a section."""
_BASE = re.compile(r"(?!Pulumi$)[A-Za-z][A-Za-z0-9_-]*")
# How kind calls the first node of a cluster, behind the cluster's name; it is the node's host name.
CONTROL_PLANE = "-control-plane"
NODE_NAME_LENGTH = 63


class Sections(Section):
    """A stack file has either `job` or `jobs`. Beside `job` it can have `matrix` or `sweep`, not both.

    All other sections are optional. In the file, the name of each section has the prefix `trainstack:`.
    """

    cluster: ClusterConfig = setting(about="Where the training runs.", default=ClusterConfig())
    operator: OperatorConfig = setting(
        about="Kubeflow's operator, which runs the jobs.", default=OperatorConfig()
    )
    storage: StorageConfig = setting(about="The volume that keeps the models.", default=StorageConfig())
    image: ImageConfig = setting(about="The trainer image, built here or ready-made.", default=ImageConfig())
    job: JobConfig | None = setting(
        about="The job, if the stack has only one.",
        default=None,
        examples=["{name: mnist}"],
    )
    jobs: tuple[JobConfig, ...] = setting(
        about="Several jobs, instead of `job`; each has the keys of `job`.",
        default=(),
        allowed="a list of jobs",
        examples=["[{name: mnist}]"],
        changing=Outcome.IN_PLACE,
        note="Other jobs stay unchanged if you add or remove a job, or turn `job` into the first of `jobs`.",
    )
    matrix: MatrixConfig | None = setting(
        about="A job for each combination of values, made from `job`: see [Many jobs](#many-jobs).",
        default=None,
        allowed="a mapping with options",
        examples=["{options: {training.lr: [0.01, 0.1]}}"],
    )
    sweep: SweepConfig | None = setting(
        about="The search of `make sweep`; `job` is the template of its trials: see [A search](sweep.md).",
        default=None,
        allowed="a mapping with options",
        examples=["{options: {training.lr: [0.01, 0.1]}}"],
    )
    protected: bool = setting(
        about=(
            "If true, `make up` applies the stack only if all files are committed and `stacks/rendered/<stack>`, which "
            "`make review` writes, is up to date."
        ),
        default=False,
        examples=["true"],
        changing=Outcome.NOTHING,
    )

    @model_validator(mode="before")
    @classmethod
    def _of_today(cls, given: Any) -> Any:
        return ensure_none_is_moved(given)

    @model_validator(mode="after")
    def _protects_a_cluster(self) -> Sections:
        cluster = self.cluster
        if self.protected and not cluster.kind.is_ours and not (cluster.context or cluster.server):
            allowed = "a context or a server if protected is true: a reviewer must see which cluster the stack changes"
            fix = "add to cluster `context: NAME` (see `kubectl config current-context`), or `server: URL`"
            raise refusal(allowed, fix, "cluster.context", "(absent)")
        return self


@dataclass(frozen=True)
class Stack:
    """A stack's name and its validated sections. `jobs` has at least one job.

    With `matrix`, the jobs are made from `template`; otherwise `template` is None, too. `sweep` is the search of
    `make sweep`; `trials` has the names of the jobs that the search has proposed. `in_list`: whether the file has the
    jobs in `jobs`.
    """

    name: str
    file: str
    cluster: ClusterConfig
    operator: OperatorConfig
    storage: StorageConfig
    image: ImageConfig
    jobs: tuple[JobConfig, ...]
    matrix: MatrixConfig | None = None
    template: JobConfig | None = None
    sweep: SweepConfig | None = None
    trials: frozenset[str] = frozenset()
    protected: bool = False
    in_list: bool = False

    def key(self, place: int, path: str) -> str:
        """The full name in the stack file of the key `path` of the job at `place`: below `job`, or below `jobs[…]`."""
        return f"{PREFIX}{f'jobs[{place}]' if self.in_list else 'job'}.{path}"

    @property
    def own_jobs(self) -> tuple[JobConfig, ...]:
        """The jobs of the stack file: all except the trials of a search."""
        return tuple(job for job in self.jobs if job.name not in self.trials)

    @property
    def cluster_name(self) -> str:
        """The name of the cluster that the stack makes."""
        return self.cluster.name_for(self.name)

    @property
    def volume(self) -> str:
        """The name of the models' PersistentVolume."""
        return self.storage.volume or f"trainstack-{self.name}-models"

    @property
    def claim(self) -> str:
        """The name of the models' claim."""
        return self.storage.claim_for(self.volume)

    @property
    def models_are_here(self) -> bool:
        """Whether the volume is the folder models/<stack> of this clone, which kind's nodes mount."""
        return self.cluster.kind.has_our_nodes and self.storage.kind is StorageKind.HOST_PATH

    @property
    def has_folder(self) -> bool:
        """Whether models or data are in a folder on the nodes. On kind, data are in the clone: only models count."""
        of_data = any(each.folder for job in self.jobs for each in job.data or ())
        return self.storage.kind is StorageKind.HOST_PATH or (of_data and not self.cluster.kind.has_our_nodes)

    @property
    def prepared_by_job(self) -> bool:
        """Whether a Job sets the folder's owner, because the folder is not on this machine."""
        return self.storage.prepares and not self.models_are_here

    @property
    def claim_may_wait(self) -> bool:
        """Whether the claim may be Pending: many classes wait for the first pod, and a suspended job has no pod."""
        has_pods = self.storage.prepares or not all(job.starts_suspended for job in self.jobs)
        return self.storage.kind is StorageKind.CLASS and not has_pods


def validated(raw: Mapping[str, Any], file: str) -> Sections:
    """The sections of `raw`, each by itself. Raises ConfigError: all values that the models refuse."""
    try:
        return Sections.model_validate(dict(raw))
    except ValidationError as error:
        raise explain(error, Sections, file) from None


def from_raw(name: str, raw: Mapping[str, Any], file: str) -> Stack:
    """The validated stack. Raises ConfigError: all values that the models refuse, or the first conflict of keys.

    Parameters:
        name: the stack's name.
        raw: section -> its contents, as read from YAML; an encrypted value is `{secure: …}`.
        file: the stack file's path, for errors.
    """
    ensure_in_env(raw, file)
    given = validated(raw, file)
    jobs = jobs_of(given, file)
    _ensure_an_image(given, file)
    usual = (USUAL,) if given.cluster.kind.has_our_nodes else ()
    running = tuple(
        (job.with_one_process() if job.run_id else job).model_copy(
            update={"data": usual if job.data is None else job.data}
        )
        for job in jobs
    )
    stack = Stack(name, file, given.cluster, given.operator, given.storage, given.image, running)
    stack = replace(stack, protected=given.protected, in_list=not given.job)
    _ensure_runs_leave_models(stack)
    if given.matrix:
        stack = replace(stack, matrix=given.matrix, template=given.job)
    if given.sweep:
        stack = replace(stack, sweep=given.sweep)
        sweep_trials.ensure_possible(jobs[0], given.sweep, given.image, file)
    for place, job in enumerate(running):
        key = stack.key(place, "data")
        mount_paths.ensure_apart(job, given.storage, file, key)
        _ensure_on_the_nodes(stack, job, key)
    _ensure_a_folder(stack)
    _ensure_names_fit(stack)
    _ensure_root_is_not_needed(stack)
    _ensure_trainjobs_can(stack)
    _ensure_queue_admits(stack)
    return stack


def jobs_of(given: Sections, file: str) -> tuple[JobConfig, ...]:
    """The jobs of `job`, `jobs` or `matrix`. Raises ConfigError if there are none, or if the sections do not fit."""
    jobs = (given.job,) if given.job else given.jobs
    if not jobs or (given.job and given.jobs):
        fix = "move `job` into the list `jobs`" if jobs else "add `trainstack:job: {name: mnist}`"
        found = "(present beside jobs)" if jobs else "(absent)"
        raise not_allowed(file, f"{PREFIX}job", found, "one job in `job`, or a list in `jobs`", fix)
    if given.matrix and not given.job:
        fix = "write the common keys of the jobs as `trainstack:job`, instead of `trainstack:jobs`"
        raise not_allowed(
            file, f"{PREFIX}matrix", "(present beside jobs)", "matrix only together with job", fix
        )
    if given.sweep and (given.matrix or not given.job):
        found = f"(present beside {'matrix' if given.matrix else 'jobs'})"
        fix = "give the search a stack of its own, with one job"
        allowed = "sweep only together with job, without jobs and without matrix"
        raise not_allowed(file, f"{PREFIX}sweep", found, allowed, fix)
    if given.matrix and given.job:
        return matrix_jobs.jobs(given.job, given.matrix, file)
    names = [job.name for job in jobs]
    for place, job in enumerate(names):
        if job in names[:place]:
            fix = f"rename it, for example `name: {job}-{place + 1}`"
            key = f"{PREFIX}jobs[{place}].name"
            raise not_allowed(file, key, job, "different names for the jobs of a stack", fix)
    return jobs


def _ensure_an_image(given: Sections, file: str) -> None:
    """Raises ConfigError if the cluster is somebody else's, and the stack file names no image that it can pull."""
    if given.cluster.kind.is_ours or given.image.reference or given.image.repository:
        return
    allowed = "image.repository (built here and pushed) or image.reference (ready-made) with `cluster.kind: existing`"
    fix = "add `repository: <registry>/<path>`, a repository that the cluster can pull from"
    raise not_allowed(file, f"{PREFIX}image.repository", "(absent)", allowed, fix)


def _ensure_runs_leave_models(stack: Stack) -> None:
    """Raises ConfigError if a job has to take a finished run's model (`runId`), and its `model` is null."""
    for place, job in enumerate(stack.jobs):
        if job.run_id and job.model is None:
            allowed = "no value if job.model is null: there is no model to take"
            fix = "remove runId, or name the model's file in model"
            raise not_allowed(stack.file, stack.key(place, "runId"), job.run_id, allowed, fix)


def _ensure_names_fit(stack: Stack) -> None:
    """Raises ConfigError for a name that is too long for a node of kind, for a label, or for the Job that prepares."""
    cluster, storage = stack.cluster, stack.storage
    if cluster.kind.has_our_nodes:
        longest = NODE_NAME_LENGTH - len(CONTROL_PLANE)
        why = f"the name of the node, with {CONTROL_PLANE} at its end, may have {NODE_NAME_LENGTH}"
        _ensure_length(stack, "cluster.name", cluster.name, stack.cluster_name, longest, why)
    if storage.kind in OUR_VOLUME and "name" not in storage.labels:
        why = "the claim selects the volume by a label that has the volume's name"
        _ensure_length(stack, "storage.volume", storage.volume, stack.volume, LABEL_LENGTH, why)
    if stack.prepared_by_job:
        longest = BATCH_NAME_LENGTH - len(PREPARES)
        why = f"the Job's name, with {PREPARES} at its end, may have {BATCH_NAME_LENGTH}"
        fix = "remove prepare, or write `prepare: false`" if storage.kind is StorageKind.CLAIM else ""
        _ensure_length(stack, "storage.claim", storage.claim, stack.claim, longest, why, fix)


def _ensure_length(
    stack: Stack, key: str, given: str | None, name: str, longest: int, why: str, fix: str = ""
) -> None:
    """Raises ConfigError if `name` is longer than `longest`.

    Parameters:
        given: the name in the stack file, or None.
        fix: the way out, if a shorter name is none.
    """
    if len(name) > longest:
        allowed = f"at most {longest} characters: {why}"
        fix = fix or f"write for example `{key.rpartition('.')[2]}: {name[:longest].rstrip('-.')}`"
        found = given or f"(absent, so {name})"
        raise not_allowed(stack.file, f"{PREFIX}{key}", found, allowed, fix)


def _ensure_root_is_not_needed(stack: Stack) -> None:
    """Raises ConfigError if the guard refuses pods of root, and a Job of root has to prepare the volume's folder."""
    if stack.cluster.guard is Guard.DENY and stack.prepared_by_job:
        allowed = "false with `cluster.guard: deny`: the Job that prepares the folder runs as root"
        fix = "write `prepare: false`, and make the folder writable for the pods' user yourself"
        raise not_allowed(stack.file, f"{PREFIX}storage.prepare", True, allowed, fix)


def _ensure_on_the_nodes(stack: Stack, job: JobConfig, key: str) -> None:
    """Raises ConfigError for a data folder that is relative to the clone, if the nodes do not mount the clone.

    Parameters:
        key: the key of the job's data in the stack file.
    """
    for place, each in enumerate(job.data or ()):
        if each.folder and not each.folder.startswith("/") and not stack.cluster.kind.has_our_nodes:
            allowed = (
                "an absolute path of a folder on the nodes; a relative path only with `cluster.kind: kind`"
            )
            fix = "write the folder's path on the nodes, for example `folder: /var/lib/trainstack/data`"
            raise not_allowed(stack.file, f"{key}[{place}].folder", each.folder, allowed, fix)


def _ensure_a_folder(stack: Stack) -> None:
    """Raises ConfigError for the key `node` or `shared` if neither models nor data are in a folder on the nodes."""
    for name in OF_A_FOLDER:
        if name in stack.storage.model_fields_set and not stack.has_folder:
            allowed = (
                f"{name} only if storage.kind is hostPath, or if a folder in job.data is on the nodes and not in "
                "the clone"
            )
            fix = f"remove {name}: the PersistentVolume decides which nodes reach the files"
            value = getattr(stack.storage, name)
            raise not_allowed(stack.file, f"{PREFIX}storage.{name}", value, allowed, fix)


def _ensure_trainjobs_can(stack: Stack) -> None:
    """Raises ConfigError for a value of a job's key that has no counterpart in a TrainJob."""
    if stack.operator.api is not OperatorApi.V2:
        return
    for place, job in enumerate(stack.jobs):
        for path, rule in REFUSED.items():
            value = rule.is_given(job)
            if value is not None:
                raise not_allowed(stack.file, stack.key(place, path), value, rule.allowed, rule.fix)


def _ensure_queue_admits(stack: Stack) -> None:
    """Raises ConfigError for a quota or priority without effect, and for a job that its queue can never admit."""
    for place, job in enumerate(stack.jobs):
        if job.priority and not job.queue:
            fix = "add `queue: NAME`, or remove it; for Kubernetes, write `pod: {spec: {priorityClassName: NAME}}`"
            allowed = "no value without queue: only Kueue uses it"
            raise not_allowed(stack.file, stack.key(place, "priority"), job.priority, allowed, fix)
    quota = stack.cluster.queue
    if quota is None:
        return
    if stack.operator.queue is not Queueing.KUEUE:
        allowed = f"no value if operator.queue is {Queueing.NONE}: only Kueue uses a quota"
        fix = f"write `trainstack:operator: {{queue: {Queueing.KUEUE}}}`, or remove cluster.queue"
        raise not_allowed(stack.file, f"{PREFIX}cluster.queue", "(present)", allowed, fix)
    for place, job in enumerate(stack.jobs):
        if job.queue in quota.local_queues:
            _ensure_in_quota(job, quota, stack.file, partial(stack.key, place))


def _ensure_in_quota(job: JobConfig, quota: QueueConfig, file: str, key: Callable[[str], str]) -> None:
    """Raises ConfigError if a job asks for a resource that `quota` does not count, or for more than it can give."""
    if job.priority and quota.priorities and job.priority not in quota.priorities:
        allowed = f"one of cluster.queue.priorities: {', '.join(sorted(quota.priorities))}"
        fix = f"add it to cluster.queue.priorities, or write `priority: {min(quota.priorities)}`"
        raise not_allowed(file, key("priority"), job.priority, allowed, fix)
    pods, gpu = job.replicas.total, job.resources.gpu_resource
    asked = {**job.resources.limits(), **job.resources.requests.quantities()}
    for name, each in [*asked.items(), ("pods", "1")]:
        amount, wanted = "gpu" if name == gpu else name, quantity(each) * pods
        most, path = quota.most(amount), "replicas" if name == "pods" else f"resources.requests.{name}"
        path = "resources.gpu" if name == gpu else path
        if most is None and name != "pods":
            allowed = (
                f"only what cluster.queue counts ({', '.join(quota.counted)}): Kueue does not admit this job"
            )
            fix = (
                f"add `gpu` to nominalQuota of each flavor of cluster.queue, or remove {path}"
                if name == gpu
                else f"remove {path}, or name another queue of the namespace in job.queue: one that counts {name}"
            )
            raise not_allowed(file, key(path), each, allowed, fix)
        if most is not None and wanted > most:
            allowed = (
                f"at most {most.normalize():f} {amount} for all replicas together: queue {job.queue} cannot get more; "
                f"this job has {pods} replicas, which ask for {wanted.normalize():f} {amount}"
            )
            lower = path if path == "replicas" else f"{path} or replicas"
            fix = f"lower {lower}, or raise nominalQuota.{amount} of a flavor of cluster.queue"
            raise not_allowed(file, key(path), pods if name == "pods" else each, allowed, fix)


def from_file(path: Path) -> Stack:
    """The stack of the file stacks/Pulumi.<stack>.yaml, read without Pulumi. Raises ConfigError."""
    return from_raw(stack_name(path), read(path), source(path, os.path.relpath(path)))


def stack_name(path: Path) -> str:
    """The stack's name: `dev` for stacks/Pulumi.dev.yaml."""
    return path.stem.removeprefix("Pulumi.")


def read(path: Path) -> dict[str, Any]:
    """The sections of a stack file by name, merged over the sections of its base; not validated yet.

    Raises ConfigError if it is not a stack file, or if Pulumi reads it differently or adds values to it.
    """
    return with_base(own(path), path)


def own(path: Path) -> dict[str, Any]:
    """The stack file's own sections, also `extends`, without those of its base. Raises ConfigError as `read` does."""
    return sections(_document(path).get("config") or {})


def _document(path: Path) -> dict[str, Any]:
    file = os.path.relpath(path)
    try:
        document = stack_text.load(path.read_text()) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: not valid YAML, or Pulumi would read it differently: {error}") from None
    config = document.get("config") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(config or {}, dict):
        fix = f"write `config:` and below it `{PREFIX}job:` with its keys"
        raise ConfigError(
            f"{file}: not a stack file\n  allowed: a mapping `config` of sections\n  fix: {fix}"
        )
    if "environment" in document:
        raise not_allowed(
            file,
            "environment",
            "(present)",
            "no Pulumi environment: a review reads only the stack file",
            "remove it, and write its values into the stack file",
        )
    for key in config or {}:
        if ":" not in key:
            fix = f"write `{PREFIX}{key}`"
            raise not_allowed(file, f"config.{key}", "(present)", "keys with a project: `PROJECT:KEY`", fix)
    return document


def base_of(given: Mapping[str, Any], path: Path) -> Path | None:
    """The base that the stack file `path` names in `given`, its own sections; None without one. Raises ConfigError."""
    if EXTENDS not in given:
        return None
    name, file = given[EXTENDS], os.path.relpath(path)
    allowed = "the name of a file in the same folder, without .yaml; not a stack file"
    if not isinstance(name, str) or not _BASE.fullmatch(name):
        fix = (
            f"write for example `{PREFIX}{EXTENDS}: base` for {os.path.relpath(path.with_name('base.yaml'))}"
        )
        raise not_allowed(file, f"{PREFIX}{EXTENDS}", name, allowed, fix)
    base = path.with_name(f"{name}.yaml")
    if base.is_symlink() or not base.is_file():
        fix = f"add the file {os.path.relpath(base)}, or remove `{PREFIX}{EXTENDS}`"
        raise not_allowed(
            file, f"{PREFIX}{EXTENDS}", name, "an existing file that is not a symbolic link", fix
        )
    return base


def with_base(given: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The sections `given` of the stack file `path` itself, merged over the sections of its base. Raises ConfigError.

    Mappings are merged, everything else is replaced, and null removes the base's value: see `_merged`.
    """
    base = base_of(given, path)
    above = {name: section for name, section in given.items() if name != EXTENDS}
    return _merged(_base_sections(base), above, ()) if base else above


def _base_sections(base: Path) -> dict[str, Any]:
    """The sections of a base. Raises ConfigError for entries that only Pulumi uses: Pulumi does not read a base."""
    document, file = _document(base), os.path.relpath(base)
    found = sections(document.get("config") or {})
    others = [key for key in document if key != "config"]
    others += [f"config.{key}" for key in document.get("config") or {} if not key.startswith(PREFIX)]
    for key in others:
        allowed = f"only `config` with keys `{PREFIX}…`: Pulumi does not read a base"
        raise not_allowed(file, key, "(present)", allowed, "move it to each stack file")
    if EXTENDS in found:
        fix = "remove it, and write the keys of that file into this file or into the stack files"
        raise not_allowed(
            file, f"{PREFIX}{EXTENDS}", found[EXTENDS], "no value: a base extends no other base", fix
        )
    for path, value in leaves(found):
        if is_encrypted(value):
            allowed = "plain text: each stack has its own encryption key"
            fix = "remove it, and set it in each stack file: pulumi config set --secret --path"
            raise not_allowed(f"{file}:{_line(_lines(base), path)}", key_of(path), SHOWN, allowed, fix)
    return found


def _merged(base: Any, above: Any, path: tuple[str, ...]) -> Any:
    """`above` merged over `base`. null removes a key; a key that takes null and has another default gets null."""
    if not (_is_mapping(base) and _is_mapping(above)):
        return above
    found = dict(base)
    for key, value in above.items():
        place = (*path, key)
        if value is None and key in base and not takes_null(Sections, place):
            del found[key]
        else:
            found[key] = _merged(base[key], value, place) if key in base else value
    return found


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping) and not is_encrypted(value)


def source(path: Path, file: str) -> str:
    """`file`, the path for errors. For a stack file that extends a base, the result also has the place of each value.

    Raises ConfigError.
    """
    given = own(path)
    base = base_of(given, path)
    if not base:
        return file
    below = os.path.join(os.path.dirname(file), base.name)
    above_lines, below_lines = _lines(path), _lines(base)
    found = Extending(file)
    found.places = {
        key_of(each): f"{file}:{_line(above_lines, each)}"
        if _has(given, each)
        else f"{below}:{_line(below_lines, each)}"
        for each in _nodes(with_base(given, path), ())
    }
    return found


def _lines(path: Path) -> dict[stack_text.Path, int]:
    return stack_text.lines(path.read_text(), ("config",))


def _line(lines: Mapping[stack_text.Path, int], path: stack_text.Path) -> int:
    """The line of the value at `path`. A value within a JSON text has the line of the text."""
    steps: stack_text.Path = (f"{PREFIX}{path[0]}", *path[1:])
    return next(lines[steps[:end]] for end in range(len(steps), 0, -1) if steps[:end] in lines)


def _nodes(value: Any, path: stack_text.Path) -> Iterator[stack_text.Path]:
    """The paths of all values below `value`, also of mappings and lists."""
    entries = (
        value.items() if isinstance(value, Mapping) else enumerate(value if isinstance(value, list) else ())
    )
    for step, each in entries:
        yield (*path, step)
        yield from _nodes(each, (*path, step))


def _has(value: Any, path: stack_text.Path) -> bool:
    try:
        for step in path:
            value = value[step]
    except (KeyError, IndexError, TypeError):
        return False
    return True


def ensure_one_place(root: Path) -> None:
    """Raises ConfigError if stacks get values from the project folder `root`, and not from their stack files.

    A review reads only the stack files.
    """
    for name in ("Pulumi.json", "Pulumi.yml"):
        if (root / name).exists():
            raise ConfigError(
                f"{name}: Pulumi may read this file instead of Pulumi.yaml\n  fix: remove the file"
            )
    project = stack_text.load((root / "Pulumi.yaml").read_text())
    allowed: dict[str, tuple[Any, ...]] = {"config": (None, {}), "stackConfigDir": ("stacks",)}
    for key, values in allowed.items():
        if project.get(key) not in values:
            fix = (
                "write `stackConfigDir: stacks`, and write all configuration into the stack files in stacks/"
            )
            raise not_allowed("Pulumi.yaml", key, project.get(key), f"{values[-1]!r}", fix)


def ensure_as_written(given: Mapping[str, Any], written: Mapping[str, Any], file: str) -> None:
    """Raises ConfigError if Pulumi hands over another configuration than the stack file has.

    A review reads only the stack file. Pulumi also takes values from Pulumi.yaml, `--config` and `--config-file`.

    Parameters:
        given: the sections as Pulumi hands them over.
        written: the sections of the stack file.
        file: the stack file's path, for errors.
    """
    there, here = (
        {path: None if is_encrypted(value) else json.dumps(value) for path, value in leaves(each)}
        for each in (given, written)
    )
    for path in sorted({*there, *here}, key=str):
        if path not in there or path not in here or there[path] != here[path]:
            found, meant = there.get(path, "(absent)"), here.get(path, "(absent)")
            fix = (
                "write the value into the stack file (pulumi config set), and remove it where Pulumi found it: "
                "`config` in Pulumi.yaml, --config, --config-file, another stackConfigDir"
            )
            raise not_allowed(
                file, key_of(path), f"{found} from Pulumi", f"{meant}, as the stack file says", fix
            )


def ensure_trains(stack: Stack, name: str) -> None:
    """Raises ConfigError if the job `name` takes the model of a finished run instead of training."""
    (job,) = [each for each in stack.jobs if each.name == name]
    if job.run_id:
        raise ConfigError(
            f"{stack.file}: job {name} takes the model of run {job.run_id} (runId), and trains nothing\n"
            f"  fix: make use RUN=none STACK={stack.name}"
        )


def job_path(path: Path, job: str) -> tuple[str | int, ...]:
    """The path of `job` in the document of a valid stack file: names, and the job's position in a list.

    Raises ConfigError for a job that `matrix` makes: the file has only the template.
    """
    found = {name: section for name, section in read(path).items() if section is not None}
    if "matrix" in found and job != found["job"]["name"]:
        allowed = (
            f"a change of all jobs together: `matrix` makes {job} from `job`, and no keys are for {job} alone"
        )
        fix = "change job or matrix.options, or write this job into another stack"
        raise not_allowed(os.path.relpath(path), f"{PREFIX}matrix", "(present)", allowed, fix)
    if "job" in found:
        return ("config", f"{PREFIX}job")
    places = [each["name"] for each in found["jobs"]]
    return ("config", f"{PREFIX}jobs", places.index(job))


def sections(config: Mapping[str, Any]) -> dict[str, Any]:
    """The sections of a stack's configuration, by name without the prefix. `config`: full key -> value.

    A section may be text: Pulumi hands over mappings as JSON, and `pulumi config set` may write JSON, too.
    """
    named = {str(key): value for key, value in config.items()}
    own = {key.removeprefix(PREFIX): value for key, value in named.items() if key.startswith(PREFIX)}
    return {name: _from_json(value) if isinstance(value, str) else value for name, value in own.items()}


def _from_json(text: str) -> Any:
    """The value of a JSON text. Other text stays: the model refuses it. Pulumi hands over null as empty text."""
    if not text:
        return None
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
