"""The TrainJob and its runtime have what the PyTorchJob has, where docs/trainer-v2.md says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from infra.config import ConfigError, counterparts, from_raw
from infra.config.api_paths import NEITHER
from infra.config.counterparts import COUNTERPARTS
from infra.config.errors import model_in
from infra.config.job import JobConfig
from infra.config.operator import OperatorApi
from infra.config.section import keys
from infra.config.training import Dataset
from infra.config.trainjobs import REFUSED
from infra.job.run_id import run_id
from infra.objects.labels import OF_JOBSET
from infra.stack_plan import job_objects as objects
from tests.matrix.entries import JOB, OBJECTS, ON_KIND, Entry
from tests.matrix.project import set_key
from tests.unit.infra.samples import job_context, stack

KEYS = {key for key, _, field in keys(JobConfig) if model_in(field.annotation) is None}
# What the page says of a section that may be given empty, it says of the section's keys.
ENTRIES = {
    key.removeprefix("job."): entry
    for key, entry in {**OBJECTS, **ON_KIND}.items()
    if key.startswith("job.") and key.removeprefix("job.") in KEYS
}
# These say what the run's id is, so it must not be left out of the comparison.
OF_THE_RUN = ("rerun", "runId")
# A name stands in many places, and a replica type comes with its whole template.
BROAD = ("name", "replicas.master", "runId")
NOTE = "metadata.annotations.trainstack/"
# Keys of which v2 refuses some values alone.
SOME_VALUES = ("restartPolicy", "name")


def rendered(api: OperatorApi, key: str, **changes: Any) -> list[dict[str, Any]]:
    """The job's objects, with one word for the run's id unless `key` is about it."""
    sections: dict[str, Any] = {"job": {"name": "mnist"}, "operator": {"api": api.value}}
    for path, value in changes.items():
        set_key(sections, path.split("."), value)
    (job,) = from_raw("dev", sections, "stacks/Pulumi.dev.yaml").jobs
    dataset = Dataset.DIGITS if job.training.dataset is Dataset.AUTO else job.training.dataset
    context = job_context(api=api, nodes=2, dataset=dataset)
    known = {} if key in OF_THE_RUN else {run_id(job, context): "the run"}
    return [replaced(each, known) for each in objects(job, context)]


def replaced(value: Any, known: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: replaced(each, known) for name, each in value.items()}
    if isinstance(value, list):
        return [replaced(each, known) for each in value]
    return known.get(value, value) if isinstance(value, str) else value


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for name, each in value.items():
            yield from leaves(each, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and value:
        for place, each in enumerate(value):
            yield from leaves(each, f"{path}[{place}]")
    else:
        yield path, value


def changed_paths(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> set[str]:
    """The paths as the page writes them: those of the job plain, those of its runtime after its kind."""
    found = set()
    for old, new in zip(before, after, strict=True):
        kind = "TrainingRuntime: " if old["kind"] == "TrainingRuntime" else ""
        one, other = dict(leaves(old)), dict(leaves(new))
        differing = {path for path in one.keys() | other.keys() if one.get(path) != other.get(path)}
        found |= {kind + path.removeprefix("spec.") for path in differing if not path.startswith(NOTE)}
    return found


def is_below(path: str, claimed: str) -> bool:
    pattern = re.escape(claimed).replace(r"\*", "(Master|Worker)")
    return re.match(rf"{pattern}($|[.\[])", path) is not None


def assert_told(told: str, changed: set[str], *, alone: bool) -> None:
    """Each path that the page tells has changed, and, with `alone`, nothing else has."""
    claimed = [] if told == NEITHER else told.split(", ")
    assert bool(changed) == bool(claimed), changed
    assert any(is_below(path, each) for path in changed for each in claimed) or not claimed
    if alone:
        assert [path for path in changed if not any(is_below(path, each) for each in claimed)] == []


def is_refused(key: str, entry: Entry) -> bool:
    """Whether v2 has nothing for the key's second value, or for what has to stand beside it."""
    whole = [given.removeprefix("job.") for given in entry.given]
    outer = [each for each in REFUSED if each in whole or key == each or key.startswith(f"{each}.")]
    return bool(outer) and key not in SOME_VALUES


def test_the_page_has_each_key_of_a_job_and_no_other() -> None:
    assert COUNTERPARTS.keys() == KEYS, "`paths` of its `setting` says what a key is called in both APIs"


def test_the_committed_page_is_the_generated_one() -> None:
    fix = f"run `python -m infra.config.counterparts` and commit {counterparts.PAGE.name}"
    assert counterparts.PAGE.read_text() == counterparts.page(), fix


@pytest.mark.parametrize("key", ENTRIES)
@pytest.mark.parametrize("api", OperatorApi)
def test_a_key_changes_what_the_page_says(api: OperatorApi, key: str) -> None:
    entry = ENTRIES[key]
    if api is OperatorApi.V2 and is_refused(key, entry):
        with pytest.raises(ConfigError, match=r"(?s)trainstack:job\..*operator.api: v2.*fix: "):
            rendered(api, key, **entry.applied(f"job.{key}"))
        return
    before = rendered(api, key, **entry.given)
    after = rendered(api, key, **entry.applied(f"job.{key}"))
    told = COUNTERPARTS[key].v1 if api is OperatorApi.V1 else COUNTERPARTS[key].v2
    assert_told(told, changed_paths(before, after), alone=key not in BROAD)


def test_what_the_page_has_no_counterpart_for_is_refused() -> None:
    without = {key for key, each in COUNTERPARTS.items() if not each.v2}
    assert [key for key in without if not is_refused(key, ENTRIES[key])] == []


@pytest.mark.parametrize(
    ("workers", "longest"), [(None, 48), (1, 48), (9, 48), (10, 47)], ids=["1", "2", "10", "11"]
)
def test_a_name_is_as_long_as_jobset_lets_the_pods_names_be(workers: int | None, longest: int) -> None:
    job = {"name": "x" * longest, "replicas": {"worker": workers}}
    (taken,) = stack(operator={"api": "v2"}, job=job).jobs
    last = f"{taken.name}-node-0-{taken.replicas.total - 1}-abcde"
    assert len(last) == 63, "a DNS label"
    with pytest.raises(ConfigError, match=r"(?s)trainstack:job\.name.*operator\.api: v2.*fix: "):
        stack(operator={"api": "v2"}, job={**job, "name": "x" * (longest + 1)})
    assert stack(job={**job, "name": "x" * 50}), "v1 takes more"


def test_replicas_of_one_trainjob_are_spread_whatever_its_name_is() -> None:
    """The one that an engine makes is called by its run, and others may use the runtime for theirs."""
    (config,) = stack(operator={"api": "v2"}, job=JOB).jobs
    found = objects(config, job_context(api=OperatorApi.V2, nodes=2))
    (replicas,) = jobset(found)["replicatedJobs"]
    pod = replicas["template"]["spec"]["template"]
    (spread,) = pod["spec"]["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert spread["matchLabelKeys"] == [OF_JOBSET]


def made(**job: Any) -> list[dict[str, Any]]:
    (config,) = stack(operator={"api": "v2"}, job={**JOB, **job}).jobs
    return objects(config, job_context(api=OperatorApi.V2))


def jobset(manifests: list[dict[str, Any]]) -> dict[str, Any]:
    return dict(manifests[0]["spec"]["template"]["spec"])


@pytest.mark.parametrize(
    ("policy", "restarts", "by_code"),
    [("OnFailure", 2, False), ("Never", 0, False), ("ExitCode", 2, True)],
)
def test_jobset_restarts_as_the_policy_says(policy: str, restarts: int, by_code: bool) -> None:
    found = jobset(made(restartPolicy=policy, runPolicy={"backoffLimit": 2}))
    (replicas,) = found["replicatedJobs"]
    job = replicas["template"]["spec"]
    assert found["failurePolicy"]["maxRestarts"] == restarts
    assert job["backoffLimit"] == 0, "JobSet starts all replicas anew, not the Job one of them"
    assert job["template"]["spec"]["restartPolicy"] == "Never", "what batch/v1 asks for with podFailurePolicy"
    assert ("podFailurePolicy" in job) is ("rules" in found["failurePolicy"]) is by_code


def test_the_pod_is_that_of_the_pytorchjob() -> None:
    """But for the container's name, for what the TrainJob says of it, and for who starts it anew and ends it."""
    (config,) = stack(job=JOB).jobs
    (plain,) = objects(config, job_context())
    v1 = plain["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]
    (replicas,) = jobset(made())["replicatedJobs"]
    v2 = replicas["template"]["spec"]["template"]["spec"]
    others = {key for key in v1.keys() | v2.keys() if v1.get(key) != v2.get(key)}
    assert others == {"activeDeadlineSeconds", "containers", "restartPolicy"}
    for each in made():
        assert each["metadata"]["labels"].items() >= plain["metadata"]["labels"].items(), "one run"
    old, new = v1["containers"][0], v2["containers"][0]
    differing = {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
    assert differing - {"command", "args"} == {"name", "env"}
    trainer = made()[1]["spec"]["trainer"]
    assert trainer["env"] + new["env"] == old["env"], "the run's id is the TrainJob's"
