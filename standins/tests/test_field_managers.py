"""Who owns which field: conflicts, force, ignored fields, Patch resources, changes behind our back."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
from pulumi_standins.kubernetes.api_client import ApiClient
from pulumi_standins.kubernetes.objects import Kind, nested

from standins.tests.driver import CallError, Driver, Object, Resource
from standins.tests.samples import MERGE_PATCH, annotated, config_map, obj, workload

pytestmark = pytest.mark.apiserver

CONFIG_MAP = Kind("", "v1", "ConfigMap")
PATCH = "kubernetes:core/v1:ConfigMapPatch"


def service_account(namespace: str, *, tokens: bool, edited: str = "yes") -> Object:
    made = obj("v1", "ServiceAccount", namespace, automountServiceAccountToken=tokens)
    return {**made, "metadata": {**made["metadata"], "annotations": {"edited": edited}}}


def taken_over(driver: Driver, client: ApiClient, namespace: str) -> Resource:
    """Our service account, after an update of ours, whose field somebody else has set to false."""
    made = driver.create(service_account(namespace, tokens=True, edited="no"))
    made = driver.update(made, service_account(namespace, tokens=True))
    foreign = obj("v1", "ServiceAccount", namespace, automountServiceAccountToken=False)
    client.apply(foreign, manager="somebody", force=True)
    return made


def managers(resource: Resource) -> set[tuple[str, str]]:
    entries = nested(resource.outputs, "metadata", "managedFields", default=[])
    return {(entry["manager"], entry["operation"]) for entry in entries}


def test_a_field_of_another_manager_is_a_conflict_that_names_it(
    driver: Driver, client: ApiClient, namespace: str
) -> None:
    refreshed = driver.read(taken_over(driver, client, namespace))
    assert refreshed is not None
    assert refreshed.inputs["automountServiceAccountToken"] is False, "the change shows in a refresh"
    wanted = service_account(namespace, tokens=True)
    assert driver.plan(refreshed, wanted).changes == {"automountServiceAccountToken": "UPDATE"}
    for preview in (True, False):
        with pytest.raises(
            CallError, match=r'conflict with "somebody": \.automountServiceAccountToken'
        ) as failed:
            driver.update(refreshed, wanted, preview=preview)
        assert failed.value.partial.id == f"{namespace}/it", "the resource stays in the state"


def test_force_takes_a_field_over(driver: Driver, client: ApiClient, namespace: str) -> None:
    made = taken_over(driver, client, namespace)
    forced = annotated(service_account(namespace, tokens=True), patchForce="true")
    assert driver.update(made, forced, preview=True).outputs["automountServiceAccountToken"] is True
    changed = driver.update(made, forced)
    assert changed.outputs["automountServiceAccountToken"] is True
    assert ("somebody", "Apply") not in managers(changed)


@pytest.mark.parametrize(
    ("of_environment", "option", "is_forced"),
    [("true", None, True), (None, "true", True), ("true", "false", False), ("false", "true", True)],
)
def test_force_can_be_had_for_all_resources(
    driver_with: Callable[..., Driver],
    client: ApiClient,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
    of_environment: str | None,
    option: str | None,
    is_forced: bool,
) -> None:
    """The provider's option goes before the environment."""
    made = taken_over(driver_with(), client, namespace)
    if of_environment:
        monkeypatch.setenv("PULUMI_K8S_ENABLE_PATCH_FORCE", of_environment)
    driver = driver_with(**({"enablePatchForce": option} if option else {}))
    wanted = service_account(namespace, tokens=True)
    if is_forced:
        assert driver.update(made, wanted).outputs["automountServiceAccountToken"] is True
    else:
        with pytest.raises(CallError, match='conflict with "somebody"'):
            driver.update(made, wanted)


def test_ignored_fields_of_another_manager_are_left_alone(
    driver: Driver, client: ApiClient, namespace: str
) -> None:
    made = taken_over(driver, client, namespace)
    wanted = service_account(namespace, tokens=True, edited="again")
    changed = driver.update(made, wanted, ignored=["automountServiceAccountToken"])
    assert changed.outputs["automountServiceAccountToken"] is False
    assert changed.outputs["metadata"]["annotations"] == {"edited": "again"}


def test_a_change_behind_our_back_to_what_we_do_not_set_is_ignored(
    driver: Driver, client: ApiClient, namespace: str
) -> None:
    made = driver.create(service_account(namespace, tokens=True))
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/it"
    body = {"metadata": {"labels": {"added": "by-hand"}}}
    client.transport.request("PATCH", path, body=body, content_type=MERGE_PATCH)
    refreshed = driver.read(made)
    assert refreshed is not None
    assert refreshed.inputs == made.inputs
    assert driver.plan(refreshed, service_account(namespace, tokens=True)).action == "same"


def test_a_patch_changes_its_fields_and_gives_them_back(
    driver: Driver, client: ApiClient, namespace: str
) -> None:
    client.create(config_map(namespace, theirs="1"))
    patch = config_map(namespace, ours="2")
    made = driver.create(patch, token=PATCH)
    assert made.outputs["data"] == {"theirs": "1", "ours": "2"}
    patch["data"]["ours"] = "3"
    assert driver.plan(made, patch).action == "update"
    made = driver.update(made, patch)
    assert made.outputs["data"] == {"theirs": "1", "ours": "3"}
    refreshed = driver.read(made)
    assert refreshed is not None
    assert refreshed.inputs == made.inputs, "what others have set is no drift"
    driver.delete(made)
    assert client.get(CONFIG_MAP, namespace, "it")["data"] == {"theirs": "1"}


def test_a_patch_needs_a_name(driver: Driver) -> None:
    with pytest.raises(CallError, match=r"metadata\.name"):
        driver.check(obj("v1", "ConfigMap"), token=PATCH)


def test_a_patch_that_owns_a_required_field_says_why_it_stays(
    driver: Driver, client: ApiClient, namespace: str
) -> None:
    theirs = workload("Deployment", namespace, replicas=0)
    client.apply(theirs, manager="somebody", force=False)
    ours = copy.deepcopy(theirs)
    ours["spec"] = {"template": {"spec": {"containers": [{"name": "c", "image": "example/app:2"}]}}}
    ours = annotated(ours, patchForce="true", skipAwait="true")
    made = driver.create(ours, token="kubernetes:apps/v1:DeploymentPatch")
    with pytest.raises(CallError, match="this Patch resource is currently managing a required field") as kept:
        driver.delete(made)
    assert "spec.template.spec.containers[0].image" in str(kept.value)


def test_an_upsert_adopts_what_is_there(
    driver_with: Callable[..., Driver], client: ApiClient, namespace: str
) -> None:
    client.apply(config_map(namespace, theirs="1"), manager="somebody", force=False)
    driver = driver_with(upsertExistingObjects="true")
    assert driver.create(config_map(namespace, ours="2"), preview=True).outputs["data"]["ours"] == "2"
    made = driver.create(config_map(namespace, ours="2"))
    assert made.outputs["data"] == {"theirs": "1", "ours": "2"}
    assert (made.outputs["__fieldManager"], "Apply") in managers(made)
    changed = driver.update(made, annotated(config_map(namespace, ours="2"), skipAwait="true"))
    assert changed.outputs["data"] == {"theirs": "1", "ours": "2"}
    driver.delete(changed)
    driver.delete(driver.create(config_map(namespace, ours="2")))


def test_an_upsert_refuses_a_field_of_another_manager_by_name(
    driver_with: Callable[..., Driver], client: ApiClient, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The option is also a variable, and force goes with it as with an update."""
    client.apply(config_map(namespace, a="theirs"), manager="somebody", force=True)
    monkeypatch.setenv("PULUMI_K8S_UPSERT_EXISTING_OBJECTS", "true")
    wanted = config_map(namespace, a="ours")
    with pytest.raises(CallError, match=r'conflict with "somebody".*: \.data\.a') as refused:
        driver_with().create(wanted)
    assert "was not successfully created by the Kubernetes API server" in str(refused.value)
    assert driver_with(enablePatchForce="true").create(wanted).outputs["data"] == {"a": "ours"}
