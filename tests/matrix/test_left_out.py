"""One job that fails leaves the others of its stack: real updates, on an API server without nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client

from tests.e2e.waiting import wait_until
from tests.matrix.entries import JOB
from tests.matrix.judging import job_specs
from tests.matrix.project import AppliedProject
from toolchain.operating import pulumi_cli, up
from toolchain.operating.update import by_plan, update
from toolchain.steps import SetupError

POLICY = "no-bad-jobs"
THREE = {"job": None, "jobs": [JOB, {**JOB, "name": "bad"}, {**JOB, "name": "good"}]}
FOUR_EPOCHS = {"job": None, "jobs": [{**each, "training": {"epochs": 4}} for each in THREE["jobs"] or []]}


@pytest.fixture
def refusing(project: AppliedProject) -> Iterator[None]:
    """The API server refuses a job of one name."""
    api = client.AdmissionregistrationV1Api(project.connection)
    rule = {"apiGroups": ["kubeflow.org"], "apiVersions": ["*"], "resources": ["pytorchjobs"]}
    policy: Any = {
        "metadata": {"name": POLICY},
        "spec": {
            "matchConstraints": {"resourceRules": [{**rule, "operations": ["CREATE"]}]},
            "validations": [{"expression": "object.metadata.name != 'bad'", "message": "no bad jobs"}],
        },
    }
    binding: Any = {
        "metadata": {"name": POLICY},
        "spec": {"policyName": POLICY, "validationActions": ["Deny"]},
    }
    api.create_validating_admission_policy(policy)
    api.create_validating_admission_policy_binding(binding)
    body: Any = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "bad"},
        "spec": {},
    }

    def is_refused() -> bool:
        try:
            place = ("kubeflow.org", "v1", "default", "pytorchjobs")
            project.jobs.create_namespaced_custom_object(*place, body, dry_run="All")
        except client.ApiException as error:
            return "no bad jobs" in str(error.body)
        return False

    try:
        wait_until("the policy counts", is_refused)
        yield
    finally:
        api.delete_validating_admission_policy_binding(POLICY)
        api.delete_validating_admission_policy(POLICY)


def make_up(project: AppliedProject, monkeypatch: pytest.MonkeyPatch, *, protected: bool) -> None:
    """The rounds of `make up`."""
    monkeypatch.setattr(pulumi_cli, "ROOT", project.folder)

    def pulumi_up(variables: dict[str, str], *options: str) -> int:
        if protected:
            return by_plan(variables, project.stack, options, up._QUIET, lambda: None)
        return pulumi_cli.stream(variables, "up", *options, *up._QUIET, "--stack", project.stack)

    update(project.environment, project.stack, pulumi_up, lambda: False)


@pytest.mark.sampled(1)
@pytest.mark.usefixtures("refusing")
@pytest.mark.parametrize("protected", [False, True])
def test_a_job_that_is_refused_leaves_the_others(
    project: AppliedProject, monkeypatch: pytest.MonkeyPatch, protected: bool
) -> None:
    project.stand()
    project.configured(**THREE)
    with pytest.raises(SetupError, match="failed for job bad;"):
        make_up(project, monkeypatch, protected=protected)
    found = {name: each["jobStatus"] for name, each in project.outputs()["jobs"].items()}
    assert found == {"mnist": "Succeeded", "good": "Succeeded", "bad": None}
    assert {each for each in project.settled() if each.startswith("PyTorchJob")} == {
        "PyTorchJob/kubeflow/mnist",
        "PyTorchJob/kubeflow/good",
    }


def test_a_job_that_is_refused_when_it_is_replaced_leaves_the_others(
    project: AppliedProject, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    project.up(**THREE)
    request.getfixturevalue("refusing")
    project.configured(**FOUR_EPOCHS)
    with pytest.raises(SetupError, match="failed for job bad;"):
        make_up(project, monkeypatch, protected=False)
    wanted = project.job_specs(**FOUR_EPOCHS)
    assert job_specs(project.settled()) == {name: wanted[name] for name in ("mnist", "good")}
    assert project.outputs()["jobs"]["good"]["jobStatus"] == "Succeeded"
    project.up()
