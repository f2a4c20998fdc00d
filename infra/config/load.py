"""From the stack file's text to validated sections, with the defaults that depend on the stack's name."""

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
from infra.config.errors import ConfigError, Extending, explain, key_of, paragraph, takes_null
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
"""The key that names a stack file's base. To Pulumi it is a value like others; it is no section."""
_BASE = re.compile(r"(?!Pulumi$)[A-Za-z][A-Za-z0-9_-]*")
# How kind calls the first node of a cluster, behind the cluster's name; it is the node's host name.
CONTROL_PLANE = "-control-plane"
NODE_NAME_LENGTH = 63


class Sections(Section):
    """The sections of a stack file: `job` or `jobs`, and with `job` also `matrix` or `sweep`."""

    cluster: ClusterConfig = setting(about="Where the training runs.", default=ClusterConfig())
    operator: OperatorConfig = setting(about="The Kubeflow training-operator.", default=OperatorConfig())
    storage: StorageConfig = setting(about="The volume that keeps the models.", default=StorageConfig())
    image: ImageConfig = setting(about="The trainer image, built here or ready-made.", default=ImageConfig())
    job: JobConfig | None = setting(
        about="The PyTorchJob, if the stack has only one.",
        default=None,
        examples=["{name: mnist}"],
    )
    jobs: tuple[JobConfig, ...] = setting(
        about="Several PyTorchJobs, instead of job; each has the keys of job.",
        default=(),
        allowed="a list of jobs",
        examples=["[{name: mnist}]"],
        changing=Outcome.IN_PLACE,
        note="Other jobs stay unchanged if you add or remove one, or turn `job` into the first of `jobs`.",
    )
    matrix: MatrixConfig | None = setting(
        about="A job for each combination of values, made from job: see [Many jobs](#many-jobs).",
        default=None,
        allowed="a mapping with options",
        examples=["{options: {training.lr: [0.01, 0.1]}}"],
    )
    sweep: SweepConfig | None = setting(
        about="What `make sweep` searches for, with job as the template: see [A search](sweep.md).",
        default=None,
        allowed="a mapping with options",
        examples=["{options: {training.lr: [0.01, 0.1]}}"],
    )
    protected: bool = setting(
        about="Let `make up` apply the stack only from a clean Git tree with fresh renderings.",
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
            allowed = (
                "a context, or a server, where protected is true: a review has to tell which cluster it is"
            )
            fix = "add below cluster `context: NAME` (kubectl config current-context), or `server: URL`"
            raise refusal(allowed, fix, "cluster.context", "(absent)")
        return self


@dataclass(frozen=True)
class Stack:
    """A stack's name and its validated sections. `jobs` holds at least one.

    `template` is what they are made from by `matrix`; both are None where the stack file lists its jobs. `sweep` is
    what `make sweep` searches for; of the jobs, those that it has proposed are named in `trials`.
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

    @property
    def own_jobs(self) -> tuple[JobConfig, ...]:
        """The jobs that the stack file asks for: all but trials of a search."""
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
        """The name of its claim."""
        return self.storage.claim_for(self.volume)

    @property
    def models_are_here(self) -> bool:
        """Whether models/<stack> of this machine is the volume: kind's nodes mount it."""
        return self.cluster.kind.has_our_nodes and self.storage.kind is StorageKind.HOST_PATH

    @property
    def has_folder(self) -> bool:
        """Whether models or data are in a folder that a node of its own has: all of kind's nodes mount the clone's."""
        of_data = any(each.folder for job in self.jobs for each in job.data or ())
        return self.storage.kind is StorageKind.HOST_PATH or (of_data and not self.cluster.kind.has_our_nodes)

    @property
    def prepared_by_job(self) -> bool:
        """Whether a Job sets the folder's owner: without Kubernetes only a folder of this machine can be reached."""
        return self.storage.prepares and not self.models_are_here

    @property
    def claim_may_wait(self) -> bool:
        """Whether the claim may be Pending: many classes wait for the first pod, and a suspended job has none."""
        has_pods = self.storage.prepares or not all(job.starts_suspended for job in self.jobs)
        return self.storage.kind is StorageKind.CLASS and not has_pods


def from_raw(name: str, raw: Mapping[str, Any], file: str) -> Stack:
    """The validated stack. Raises ConfigError with everything that is wrong.

    Parameters:
        name: the stack's name.
        raw: section -> its contents, as read from YAML; an encrypted value is `{secure: …}`.
        file: the stack file's path, for errors.
    """
    ensure_in_env(raw, file)
    try:
        given = Sections.model_validate(dict(raw))
    except ValidationError as error:
        raise explain(error, Sections, file) from None
    jobs = jobs_of(given, file)
    _ensure_an_image(given, file)
    _ensure_runs_leave_models(given, jobs, file)
    usual = (USUAL,) if given.cluster.kind.has_our_nodes else ()
    running = tuple(
        (job.with_one_process() if job.run_id else job).model_copy(
            update={"data": usual if job.data is None else job.data}
        )
        for job in jobs
    )
    stack = Stack(name, file, given.cluster, given.operator, given.storage, given.image, running)
    stack = replace(stack, protected=given.protected)
    if given.matrix:
        stack = replace(stack, matrix=given.matrix, template=given.job)
    if given.sweep:
        stack = replace(stack, sweep=given.sweep)
        sweep_trials.ensure_possible(jobs[0], given.sweep, given.image, file)
    for place, job in enumerate(running):
        key = _key(given, place, "data")
        mount_paths.ensure_apart(job, given.storage, file, key)
        _ensure_on_the_nodes(stack, job, key)
    _ensure_a_folder(stack)
    _ensure_names_fit(stack)
    _ensure_a_job_can_prepare(stack)
    _ensure_root_is_not_needed(stack)
    _ensure_trainjobs_can(stack, given)
    _ensure_queue_admits(stack, given)
    return stack


def jobs_of(given: Sections, file: str) -> tuple[JobConfig, ...]:
    """The jobs, whichever way they are given. Raises ConfigError unless there is one, and names differ."""
    jobs = (given.job,) if given.job else given.jobs
    if not jobs or (given.job and given.jobs):
        fix = "move job into the list jobs" if jobs else "add `trainstack:job: {name: mnist}`"
        found = "(present beside jobs)" if jobs else "(absent)"
        raise ConfigError(paragraph(file, f"{PREFIX}job", found, "one job, or a list of them in jobs", fix))
    if given.matrix and not given.job:
        fix = "write what the jobs have in common as `trainstack:job`, in place of jobs"
        raise ConfigError(
            paragraph(file, f"{PREFIX}matrix", "(present beside jobs)", "matrix beside job", fix)
        )
    if given.sweep and (given.matrix or not given.job):
        found = f"(present beside {'matrix' if given.matrix else 'jobs'})"
        fix = "give the search a stack of its own, with one job"
        raise ConfigError(paragraph(file, f"{PREFIX}sweep", found, "sweep beside job alone", fix))
    if given.matrix and given.job:
        return matrix_jobs.jobs(given.job, given.matrix, file)
    names = [job.name for job in jobs]
    for place, job in enumerate(names):
        if job in names[:place]:
            fix = f"rename it, for example `name: {job}-{place + 1}`"
            key = f"{PREFIX}jobs[{place}].name"
            raise ConfigError(paragraph(file, key, job, "names that differ within a stack", fix))
    return jobs


def _ensure_an_image(given: Sections, file: str) -> None:
    """Raises ConfigError where the cluster is somebody else's and has nowhere to pull a built image from."""
    if given.cluster.kind.is_ours or given.image.reference or given.image.repository:
        return
    allowed = (
        "image.repository (built here and pushed) or image.reference (ready-made) where kind is existing"
    )
    fix = "add `repository: <registry>/<path>` that the cluster can pull from"
    raise ConfigError(paragraph(file, f"{PREFIX}image.repository", "(absent)", allowed, fix))


def _ensure_runs_leave_models(given: Sections, jobs: tuple[JobConfig, ...], file: str) -> None:
    """Raises ConfigError where a job is to take a finished run's model, and leaves none."""
    for place, job in enumerate(jobs):
        if job.run_id and job.model is None:
            key = _key(given, place, "runId")
            allowed = "nothing where job.model is null: there is no model to take"
            raise ConfigError(
                paragraph(file, key, job.run_id, allowed, "remove it, or name the file in model")
            )


def _ensure_names_fit(stack: Stack) -> None:
    """Raises ConfigError for a name that is too long for what kind or a label makes of it."""
    cluster, storage = stack.cluster, stack.storage
    if cluster.kind.has_our_nodes:
        longest = NODE_NAME_LENGTH - len(CONTROL_PLANE)
        why = f"the node {stack.cluster_name}{CONTROL_PLANE} may have {NODE_NAME_LENGTH}"
        _ensure_length(stack, "cluster.name", cluster.name, stack.cluster_name, longest, why)
    if storage.kind in OUR_VOLUME and "name" not in storage.labels:
        why = "its claim selects it by a label of its name"
        _ensure_length(stack, "storage.volume", storage.volume, stack.volume, LABEL_LENGTH, why)


def _ensure_length(stack: Stack, key: str, given: str | None, name: str, longest: int, why: str) -> None:
    """Raises ConfigError where `name`, which the stack file has as `given` or leaves out, has more than `longest`."""
    if len(name) > longest:
        allowed = f"at most {longest} characters: {why}"
        fix = f"write for example `{key.rpartition('.')[2]}: {name[:longest].rstrip('-.')}`"
        found = given or f"(absent, so {name})"
        raise ConfigError(paragraph(stack.file, f"{PREFIX}{key}", found, allowed, fix))


def _ensure_a_job_can_prepare(stack: Stack) -> None:
    """Raises ConfigError where no Job can be named after the claim whose folder it is to prepare."""
    longest = BATCH_NAME_LENGTH - len(PREPARES)
    if not stack.prepared_by_job or len(stack.claim) <= longest:
        return
    given = stack.storage.claim or f"(absent, so {stack.claim})"
    allowed = f"at most {longest} characters: the Job {stack.claim}{PREPARES} may have {BATCH_NAME_LENGTH}"
    shorter = stack.claim[:longest].rstrip("-.")
    fix = f"write for example `claim: {shorter}`"
    if stack.storage.kind is StorageKind.CLAIM:
        fix = "remove prepare, or write `prepare: false`: the claim's name is others'"
    raise ConfigError(paragraph(stack.file, f"{PREFIX}storage.claim", given, allowed, fix))


def _ensure_root_is_not_needed(stack: Stack) -> None:
    """Raises ConfigError where the namespace lets in no root, and a root Job is to prepare the volume's folder."""
    if stack.cluster.guard is Guard.DENY and stack.prepared_by_job:
        allowed = "false where cluster.guard is deny: the Job that prepares the folder is root"
        fix = "write `prepare: false`, and make the folder writable for the pods' user yourself"
        raise ConfigError(paragraph(stack.file, f"{PREFIX}storage.prepare", True, allowed, fix))


def _ensure_on_the_nodes(stack: Stack, job: JobConfig, key: str) -> None:
    """Raises ConfigError for a folder of `job` that is relative to the clone, where nodes have none of it.

    Parameters:
        key: how the stack file calls the job's data.
    """
    for place, each in enumerate(job.data or ()):
        if each.folder and not each.folder.startswith("/") and not stack.cluster.kind.has_our_nodes:
            allowed = "an absolute path, of a folder of the nodes: with kind alone it is one of this machine"
            fix = "write where the nodes have it, for example `folder: /var/lib/trainstack/data`"
            raise ConfigError(paragraph(stack.file, f"{key}[{place}].folder", each.folder, allowed, fix))


def _ensure_a_folder(stack: Stack) -> None:
    """Raises ConfigError for a key about a folder on the nodes where neither models nor data are in one."""
    for name in OF_A_FOLDER:
        if name in stack.storage.model_fields_set and not stack.has_folder:
            allowed = f"{name} only where kind is hostPath, or data of a job are in a folder of the nodes"
            fix = f"remove {name}: the volume decides which nodes reach it"
            value = getattr(stack.storage, name)
            raise ConfigError(paragraph(stack.file, f"{PREFIX}storage.{name}", value, allowed, fix))


def _ensure_trainjobs_can(stack: Stack, given: Sections) -> None:
    """Raises ConfigError for a key of a job that has no counterpart in a TrainJob."""
    if stack.operator.api is not OperatorApi.V2:
        return
    for place, job in enumerate(stack.jobs):
        for path, rule in REFUSED.items():
            value = rule.is_given(job)
            if value is not None:
                key = _key(given, place, path)
                raise ConfigError(paragraph(stack.file, key, value, rule.allowed, rule.fix))


def _ensure_queue_admits(stack: Stack, given: Sections) -> None:
    """Raises ConfigError for a quota or priority that nobody heeds, and for a job that its own queue never admits."""
    for place, job in enumerate(stack.jobs):
        if job.priority and not job.queue:
            fix = "add `queue: NAME`, or remove it; without a queue, `pod` may have a priorityClassName"
            allowed = "nothing without queue: Kueue alone heeds it"
            raise ConfigError(
                paragraph(stack.file, _key(given, place, "priority"), job.priority, allowed, fix)
            )
    quota = stack.cluster.queue
    if quota is None:
        return
    if stack.operator.queue is not Queueing.KUEUE:
        allowed = f"nothing where operator.queue is {Queueing.NONE}: nobody heeds a quota"
        fix = f"write `trainstack:operator: {{queue: {Queueing.KUEUE}}}`, or remove it"
        raise ConfigError(paragraph(stack.file, f"{PREFIX}cluster.queue", "(present)", allowed, fix))
    for place, job in enumerate(stack.jobs):
        if job.queue in quota.local_queues:
            _ensure_in_quota(job, quota, stack.file, partial(_key, given, place))


def _ensure_in_quota(job: JobConfig, quota: QueueConfig, file: str, key: Callable[[str], str]) -> None:
    """Raises ConfigError for a job that asks for what `quota` does not count, or for more than it ever has."""
    if job.priority and quota.priorities and job.priority not in quota.priorities:
        allowed = f"one of cluster.queue.priorities: {', '.join(sorted(quota.priorities))}"
        fix = f"add it there, or write `priority: {min(quota.priorities)}`"
        raise ConfigError(paragraph(file, key("priority"), job.priority, allowed, fix))
    pods, gpu = job.replicas.total, job.resources.gpu_resource
    asked = {**job.resources.limits(), **job.resources.requests.quantities()}
    for name, each in [*asked.items(), ("pods", "1")]:
        amount, wanted = "gpu" if name == gpu else name, quantity(each) * pods
        most, path = quota.most(amount), "replicas" if name == "pods" else f"resources.requests.{name}"
        path = "resources.gpu" if name == gpu else path
        if most is None and name != "pods":
            allowed = f"what cluster.queue counts ({', '.join(quota.counted)}): Kueue admits no job that asks for more"
            fix = (
                f"add `gpu` to nominalQuota of each flavor of cluster.queue, or remove {path}"
                if name == gpu
                else f"remove {path}, or give the job a queue of somebody else's that counts {name}"
            )
            raise ConfigError(paragraph(file, key(path), each, allowed, fix))
        if most is not None and wanted > most:
            allowed = (
                f"at most {most.normalize():f} {amount} for all replicas together, which is what queue {job.queue} "
                f"can get; {pods} want {wanted.normalize():f}"
            )
            fix = f"lower {path} or replicas, or raise nominalQuota.{amount} of a flavor of cluster.queue"
            raise ConfigError(paragraph(file, key(path), pods if name == "pods" else each, allowed, fix))


def _key(given: Sections, place: int, path: str) -> str:
    """How the stack file calls the key `path` of the job at `place`, whichever way its jobs are given."""
    return f"{PREFIX}{'job' if given.job else f'jobs[{place}]'}.{path}"


def from_file(path: Path) -> Stack:
    """The stack of the file stacks/Pulumi.<stack>.yaml, read without Pulumi. Raises ConfigError."""
    return from_raw(stack_name(path), read(path), source(path, os.path.relpath(path)))


def stack_name(path: Path) -> str:
    """`dev` of stacks/Pulumi.dev.yaml."""
    return path.stem.removeprefix("Pulumi.")


def read(path: Path) -> dict[str, Any]:
    """The sections of a stack file by name, over those of the base that it extends; not validated yet.

    Raises ConfigError for what is no stack file, and for what Pulumi reads in another way or adds to.
    """
    return with_base(own(path), path)


def own(path: Path) -> dict[str, Any]:
    """What stands in the stack file itself, and `extends` where it has that. Raises ConfigError as `read` does."""
    return sections(_document(path).get("config") or {})


def _document(path: Path) -> dict[str, Any]:
    file = os.path.relpath(path)
    try:
        document = stack_text.load(path.read_text()) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: not YAML as Pulumi reads it: {error}") from None
    config = document.get("config") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(config or {}, dict):
        fix = f"write `config:` and below it `{PREFIX}job:` with its keys"
        raise ConfigError(
            f"{file}: not a stack file\n  allowed: a mapping `config` of sections\n  fix: {fix}"
        )
    if "environment" in document:
        raise ConfigError(
            paragraph(file, "environment", "(present)", "keys in the stack file", "write its values there")
        )
    for key in config or {}:
        if ":" not in key:
            fix = f"write `{PREFIX}{key}`"
            raise ConfigError(paragraph(file, f"config.{key}", "(present)", "keys with their project", fix))
    return document


def base_of(given: Mapping[str, Any], path: Path) -> Path | None:
    """The base that the stack file `path` extends, by what it gives itself; None for none. Raises ConfigError."""
    if EXTENDS not in given:
        return None
    name, file = given[EXTENDS], os.path.relpath(path)
    allowed = "the name of a file beside it, without .yaml; not that of a stack file"
    if not isinstance(name, str) or not _BASE.fullmatch(name):
        fix = (
            f"write for example `{PREFIX}{EXTENDS}: base` for {os.path.relpath(path.with_name('base.yaml'))}"
        )
        raise ConfigError(paragraph(file, f"{PREFIX}{EXTENDS}", name, allowed, fix))
    base = path.with_name(f"{name}.yaml")
    if base.is_symlink() or not base.is_file():
        fix = f"add the file {os.path.relpath(base)}, or remove `{PREFIX}{EXTENDS}`"
        raise ConfigError(
            paragraph(file, f"{PREFIX}{EXTENDS}", name, "a file that is there, and no link", fix)
        )
    return base


def with_base(given: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The sections that the stack file `path` gives itself, over those of its base. Raises ConfigError.

    Mappings are merged, everything else is replaced, and null removes what the base has: see `_merged`.
    """
    base = base_of(given, path)
    above = {name: section for name, section in given.items() if name != EXTENDS}
    return _merged(_base_sections(base), above, ()) if base else above


def _base_sections(base: Path) -> dict[str, Any]:
    """The sections of a base. Raises ConfigError for what Pulumi would have to read: it reads stack files alone."""
    document, file = _document(base), os.path.relpath(base)
    found = sections(document.get("config") or {})
    others = [key for key in document if key != "config"]
    others += [f"config.{key}" for key in document.get("config") or {} if not key.startswith(PREFIX)]
    for key in others:
        allowed = f"`config` alone, with keys `{PREFIX}…`: Pulumi does not read a base"
        raise ConfigError(paragraph(file, key, "(present)", allowed, "move it to each stack file"))
    if EXTENDS in found:
        fix = "write what that file has into this one, or into the stack files"
        raise ConfigError(
            paragraph(file, f"{PREFIX}{EXTENDS}", found[EXTENDS], "nothing: a base extends no other", fix)
        )
    for path, value in leaves(found):
        if is_encrypted(value):
            allowed = "plain text: each stack encrypts with a key of its own"
            fix = "move it to each stack file: pulumi config set --secret --path"
            raise ConfigError(
                paragraph(f"{file}:{_line(_lines(base), path)}", key_of(path), SHOWN, allowed, fix)
            )
    return found


def _merged(base: Any, above: Any, path: tuple[str, ...]) -> Any:
    """`above` over `base`. Where null is a value of a key that is not its default, it is one here, too."""
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
    """`file`, the path of the stack file as errors show it; where that extends a base, with the place of each value.

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
    """The line of the value at `path`. What a text holds, as JSON, stands where the text does."""
    steps: stack_text.Path = (f"{PREFIX}{path[0]}", *path[1:])
    return next(lines[steps[:end]] for end in range(len(steps), 0, -1) if steps[:end] in lines)


def _nodes(value: Any, path: stack_text.Path) -> Iterator[stack_text.Path]:
    """The paths of all that `value` holds, mappings and lists included."""
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
    """Raises ConfigError where the project folder `root` gives stacks other values than their files.

    A review reads the stack files alone.
    """
    for name in ("Pulumi.json", "Pulumi.yml"):
        if (root / name).exists():
            raise ConfigError(f"{name}: Pulumi may read it instead of Pulumi.yaml\n  fix: remove it")
    project = stack_text.load((root / "Pulumi.yaml").read_text())
    allowed: dict[str, tuple[Any, ...]] = {"config": (None, {}), "stackConfigDir": ("stacks",)}
    for key, values in allowed.items():
        if project.get(key) not in values:
            fix = "write stackConfigDir: stacks, and all configuration into the stack files there"
            raise ConfigError(paragraph("Pulumi.yaml", key, project.get(key), f"{values[-1]!r}", fix))


def ensure_as_written(given: Mapping[str, Any], written: Mapping[str, Any], file: str) -> None:
    """Raises ConfigError where Pulumi hands over another configuration than the stack file has.

    A review reads that file alone. Pulumi also takes values from Pulumi.yaml, from `--config` and from another file.

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
                "write it there (pulumi config set), and remove it from where Pulumi has it: "
                "`config` in Pulumi.yaml, --config, --config-file, another stackConfigDir"
            )
            raise ConfigError(
                paragraph(file, key_of(path), f"{found} from Pulumi", f"{meant}, as the stack file says", fix)
            )


def ensure_trains(stack: Stack, name: str) -> None:
    """Raises ConfigError where the job `name` takes the model of a run that is there, instead of training."""
    (job,) = [each for each in stack.jobs if each.name == name]
    if job.run_id:
        raise ConfigError(
            f"{stack.file}: job {name} takes the model of run {job.run_id} (runId), and trains nothing\n"
            f"  fix: make use RUN=none STACK={stack.name}"
        )


def job_path(path: Path, job: str) -> tuple[str | int, ...]:
    """Where `job` stands in the document of a valid stack file: names, and its place in a list.

    Raises ConfigError for a job that `matrix` makes: only its template stands there.
    """
    found = {name: section for name, section in read(path).items() if section is not None}
    if "matrix" in found and job != found["job"]["name"]:
        allowed = f"keys of all its jobs: {job} is made from job, and has none of its own in the file"
        fix = "change job or matrix.options, or give a stack of its own this one job"
        raise ConfigError(paragraph(os.path.relpath(path), f"{PREFIX}matrix", "(present)", allowed, fix))
    if "job" in found:
        return ("config", f"{PREFIX}job")
    places = [each["name"] for each in found["jobs"]]
    return ("config", f"{PREFIX}jobs", places.index(job))


def sections(config: Mapping[str, Any]) -> dict[str, Any]:
    """Of a stack's configuration what is ours, by the section's name. `config`: full keys to their values.

    A section may be text: Pulumi hands mappings over as JSON, and `pulumi config set` may write them so.
    """
    named = {str(key): value for key, value in config.items()}
    own = {key.removeprefix(PREFIX): value for key, value in named.items() if key.startswith(PREFIX)}
    return {name: _from_json(value) if isinstance(value, str) else value for name, value in own.items()}


def _from_json(text: str) -> Any:
    """A plain word stays as it is, for the model to refuse. Pulumi hands null over as an empty text."""
    if not text:
        return None
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
