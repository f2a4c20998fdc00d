"""Who starts the replicas of a job together: what is found, used, installed and refused."""

from __future__ import annotations

from typing import Any

import pytest

from infra.clusters.discovery import GANG_FLAG, ClusterContents
from infra.config import ConfigError
from infra.config.operator import Gang, Install, OperatorApi
from infra.objects.job_kinds import GANG_CRDS, GANG_SCHEDULER
from infra.training_operator import patches
from infra.training_operator.plan import plan
from tests.unit.infra.samples import OVERLAY, stack

GANG = Gang.SCHEDULER_PLUGINS.value
POLICY: dict[str, Any] = {
    "name": "x",
    "runPolicy": {"schedulingPolicy": {"scheduleTimeoutSeconds": 30}},
}
THEIRS: dict[str, Any] = {"crd": True, "operator": True, "namespaces": frozenset({"kubeflow"})}


@pytest.mark.parametrize("api", OperatorApi)
def test_nothing_of_it_is_there_unless_it_is_asked_for(api: OperatorApi) -> None:
    planned = plan(stack(operator={"api": api.value}), ClusterContents(schedulers=("theirs",)))
    assert (planned.scheduler, planned.installs_scheduler) == ("", False)


@pytest.mark.parametrize("api", OperatorApi)
def test_an_empty_cluster_gets_a_scheduler(api: OperatorApi) -> None:
    planned = plan(stack(operator={"api": api.value, "gang": GANG}), ClusterContents())
    assert (planned.scheduler, planned.installs_scheduler, planned.operator) == (GANG_SCHEDULER, True, True)


@pytest.mark.parametrize("api", OperatorApi)
def test_a_scheduler_that_is_there_is_used_under_its_name_and_left_as_it_is(api: OperatorApi) -> None:
    there = ClusterContents(schedulers=("gangs",), gang_definitions=frozenset(GANG_CRDS))
    planned = plan(stack(operator={"api": api.value, "gang": GANG}), there)
    assert (planned.scheduler, planned.installs_scheduler, planned.operator) == ("gangs", False, True)


def test_a_definition_that_is_there_without_a_scheduler_is_left_as_it_is() -> None:
    planned = plan(stack(operator={"gang": GANG}), ClusterContents(gang_definitions=frozenset(GANG_CRDS[:1])))
    assert planned.installs_scheduler
    assert planned.kept_definitions == frozenset(GANG_CRDS[:1])


@pytest.mark.parametrize("install", [Install.AUTO, Install.NEVER])
def test_an_operator_of_somebody_elses_knows_its_own_scheduler(install: Install) -> None:
    asked = stack(operator={"gang": GANG, "install": install.value})
    planned = plan(asked, ClusterContents(**THEIRS, gang_scheduler=True))
    assert (planned.scheduler, planned.installs_scheduler) == ("", False)


@pytest.mark.parametrize("install", [Install.AUTO, Install.NEVER])
def test_an_operator_of_somebody_elses_without_one_is_refused(install: Install) -> None:
    asked = stack(operator={"gang": GANG, "install": install.value})
    with pytest.raises(
        ConfigError, match=r"(?s)operator\.gang = 'scheduler-plugins'.*somebody else's.*fix: "
    ):
        plan(asked, ClusterContents(**THEIRS, schedulers=("gangs",)))


def test_beside_a_trainer_of_somebody_elses_the_scheduler_is_installed() -> None:
    planned = plan(stack(operator={"api": "v2", "gang": GANG}), ClusterContents(**THEIRS))
    assert (planned.scheduler, planned.installs_scheduler, planned.operator) == (GANG_SCHEDULER, True, False)


def test_what_may_not_be_installed_has_to_be_there() -> None:
    asked = stack(operator={"api": "v2", "gang": GANG, "install": "never"})
    with pytest.raises(ConfigError, match=r"(?s)operator\.gang.*no scheduler-plugins.*fix: "):
        plan(asked, ClusterContents(**THEIRS))
    planned = plan(asked, ClusterContents(**THEIRS, schedulers=("gangs",)))
    assert (planned.scheduler, planned.installs_scheduler) == ("gangs", False)
    silent = plan(asked, ClusterContents(problem="does not answer"))
    assert not silent.installs_scheduler, "never is never"


@pytest.mark.parametrize("api", OperatorApi)
def test_a_policy_that_nobody_heeds_is_refused_and_one_that_the_scheduler_heeds_is_not(
    api: OperatorApi,
) -> None:
    with pytest.raises(
        ConfigError, match=r"(?s)job\.runPolicy\.schedulingPolicy.*ignore.*gang: scheduler-plugins"
    ):
        plan(stack(operator={"api": api.value}, job=POLICY), ClusterContents())
    assert plan(stack(operator={"api": api.value, "gang": GANG}, job=POLICY), ClusterContents()).scheduler


@pytest.mark.parametrize("key", ["queue", "priorityClass"])
@pytest.mark.parametrize("api", OperatorApi)
def test_a_key_that_the_scheduler_has_nothing_for_is_refused(api: OperatorApi, key: str) -> None:
    job = {"name": "x", "runPolicy": {"schedulingPolicy": {key: "high"}}}
    with pytest.raises(
        ConfigError, match=rf"(?s)job\.runPolicy\.schedulingPolicy\.{key} = 'high'.*fix: remove it"
    ):
        stack(operator={"api": api.value, "gang": GANG}, job=job)


@pytest.mark.parametrize("scheduler", ["", "gangs"])
def test_our_operator_is_told_of_the_scheduler_by_its_flag(scheduler: str) -> None:
    objects = patches.patched(OVERLAY, "dev", None, patches.INIT_IMAGE, "kubeflow", scheduler)
    (deployment,) = [each for each in objects if each["kind"] == "Deployment"]
    words = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert [word for word in words if word.startswith(GANG_FLAG)] == (
        [f"{GANG_FLAG}gangs"] if scheduler else []
    )
