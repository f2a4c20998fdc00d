"""What tells Kueue of a job, and whose its `suspend` is."""

from __future__ import annotations

from typing import Any

import pytest

from infra.config.job import QUEUE_LABEL
from infra.config.operator import OperatorApi
from infra.job import queue
from infra.objects import stack_state
from infra.objects.manifest import Manifest
from infra.stack_plan import job_objects as objects
from tests.unit.infra.review.test_gitops import reconciled
from tests.unit.infra.samples import job_context, stack


def made(api: OperatorApi, **job: Any) -> list[Manifest]:
    (config,) = stack(operator={"api": api.value}, job={"name": "mnist", **job}).jobs
    return objects(config, job_context(api=api))


def suspend(job: Manifest) -> object:
    value: Any = job
    for key in queue.SUSPEND[job["kind"]].split("."):
        value = value.get(key, {})
    return value


@pytest.mark.parametrize("api", OperatorApi)
def test_a_job_in_a_queue_is_made_suspended_and_its_pods_are_no_workloads(api: OperatorApi) -> None:
    *runtimes, job = made(api, queue="team-a")
    assert job["metadata"]["labels"][QUEUE_LABEL] == "team-a"
    assert suspend(job) is True
    assert QUEUE_LABEL not in str([runtimes, job["spec"]])
    assert "managedBy" not in str(job)


@pytest.mark.parametrize("api", OperatorApi)
def test_what_is_suspended_by_the_user_stays_the_users(api: OperatorApi) -> None:
    job = made(api, runPolicy={"suspend": True})[-1]
    options = queue.options(job, {})
    assert (options.ignore_changes, options.replace_on_changes) == (None, None)
    assert suspend(reconciled(job)) is True


def ignored(job: Manifest, before: Manifest | None) -> list[str] | None:
    state = stack_state.from_outputs({"urn": {"type": "kubernetes:job", "outputs": before}} if before else {})
    return queue.options(job, state.queued).ignore_changes


@pytest.mark.parametrize("api", OperatorApi)
def test_the_field_of_a_job_that_stays_is_kueues(api: OperatorApi) -> None:
    job = made(api, queue="team-a")[-1]
    assert ignored(job, job) == [queue.SUSPEND[job["kind"]]]
    live = {**job, "spec": reconciled(job)["spec"]}
    assert ignored(job, live) == [queue.SUSPEND[job["kind"]]]
    (config,) = stack(operator={"api": api.value}, job={"name": "mnist", "queue": "team-a"}).jobs
    pushed = objects(config, job_context(api=api, image="registry.example/trainer@sha256:" + "1" * 64))[-1]
    assert ignored(pushed, job) == ignored(job, job), "the image's name is not known in every preview"


ANOTHER = [{}, {"queue": "team-b"}, {"rerun": 1}, {"resources": {"cpu": 2}}, {"restartPolicy": "Never"}]


@pytest.mark.parametrize("api", OperatorApi)
@pytest.mark.parametrize("before", [None, *ANOTHER])
def test_a_job_that_is_made_anew_is_suspended_whatever_the_old_one_was(
    api: OperatorApi, before: dict[str, Any] | None
) -> None:
    old = None if before is None else made(api, **{**({"queue": "team-a"} if before else {}), **before})[-1]
    assert ignored(made(api, queue="team-a")[-1], old) is None


@pytest.mark.parametrize("api", OperatorApi)
def test_engines_get_it_without_the_field(api: OperatorApi) -> None:
    job = made(api, queue="team-a")[-1]
    left = reconciled(job)
    assert suspend(left) == {}
    assert left["metadata"]["labels"][QUEUE_LABEL] == "team-a"
    assert left["spec"] == reconciled(made(api)[-1])["spec"], "and nothing else differs"
