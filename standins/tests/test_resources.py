"""Single resources: names, replacements, secrets, unknown values, imports, deletions."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_standins import protocol
from pulumi_standins.kubernetes import values
from pulumi_standins.kubernetes.api_client import ApiClient
from pulumi_standins.kubernetes.errors import ApiError
from pulumi_standins.kubernetes.objects import Kind

from standins.tests.driver import CallError, Driver, Resource, urn_of
from standins.tests.samples import annotated, config_map, obj

pytestmark = pytest.mark.apiserver

CONFIG_MAP = Kind("", "v1", "ConfigMap")


def test_immutable_fields_replace_and_fixed_names_go_first(driver: Driver, namespace: str) -> None:
    fixed = driver.create(config_map(namespace, a="1"))
    plan = driver.plan(fixed, config_map(namespace, a="2"))
    assert (plan.action, plan.deletes_first, plan.changes) == ("replace", True, {"data.a": "UPDATE_REPLACE"})
    unnamed = {**config_map(namespace, a="1"), "metadata": {"namespace": namespace}}
    autonamed = driver.create(unnamed)
    assert autonamed.inputs["metadata"]["annotations"] == {"pulumi.com/autonamed": "true"}
    plan = driver.plan(autonamed, {**unnamed, "data": {"a": "2"}})
    assert (plan.action, plan.deletes_first) == ("replace", False)


@pytest.mark.parametrize(("mode", "proposed", "name"), [(0, "theirs", "theirs"), (1, "theirs", "theirs")])
def test_names_that_the_project_configures_go_first(
    driver: Driver, namespace: str, mode: int, proposed: str, name: str
) -> None:
    """The engine proposes them after `pulumi:autonaming`: 0 is propose, 1 is enforce."""
    answer = check_autonamed(driver, namespace, mode, proposed)
    assert values.decode(answer.inputs)["metadata"]["name"] == name


def test_a_project_may_forbid_automatic_names(driver: Driver, namespace: str) -> None:
    with pytest.raises(CallError, match=r"automatic naming is disabled: give it a metadata\.name"):
        check_autonamed(driver, namespace, 2, "")


def check_autonamed(driver: Driver, namespace: str, mode: int, proposed: str) -> Any:
    unnamed = {**config_map(namespace), "metadata": {"namespace": namespace}}
    message = protocol.provider_pb2.CheckRequest
    options = message.AutonamingOptions(
        proposed_name=proposed, mode=message.AutonamingOptions.Mode.Name(mode)
    )
    request = message(urn=urn_of(unnamed, "it"), news=values.encode(unnamed), autonaming=options)
    return driver.call("Check", request)


def test_an_object_that_exists_is_not_taken_over(driver: Driver, client: ApiClient, namespace: str) -> None:
    client.create(config_map(namespace, theirs="1"))
    with pytest.raises(CallError, match="already exists"):
        driver.create(config_map(namespace, ours="1"))


def test_unknown_values_are_no_reason_to_ask_the_server(driver: Driver, namespace: str) -> None:
    unknown = {**config_map(namespace), "data": {"a": values.UNKNOWN}}
    foreseen = driver.create(unknown, preview=True)
    assert foreseen.outputs["data"]["a"] is values.UNKNOWN
    made = driver.create(config_map(namespace, a="1"))
    assert driver.plan(made, unknown).changes == {"data.a": "UPDATE_REPLACE"}


def test_a_preview_finds_what_the_server_would_refuse(driver: Driver, namespace: str) -> None:
    bad = config_map(namespace, **{"bad key!": "1"})
    with pytest.raises(CallError, match="a valid config key"):
        driver.create(bad, preview=True)


def test_secrets_stay_secret_in_the_state(driver: Driver, namespace: str) -> None:
    secret = obj("v1", "Secret", stringData={"password": values.Secret("hunter2")})
    secret["metadata"] = {"name": "it", "namespace": namespace}
    made = driver.create(secret)
    for kept in (made.inputs["data"], made.outputs["data"], made.outputs["__inputs"]["data"]):
        assert isinstance(kept, values.Secret)
    assert "stringData" not in made.inputs
    refreshed = driver.read(made)
    assert refreshed is not None
    assert isinstance(refreshed.inputs["data"], values.Secret)


def test_missing_objects_may_be_deleted_again(driver: Driver, namespace: str) -> None:
    made = driver.create(config_map(namespace, a="1"))
    driver.delete(made)
    driver.delete(made)


def test_a_deletion_takes_dependents_along_before_it_ends(
    driver: Driver, client: ApiClient, namespace: str
) -> None:
    """In the foreground, as the real plugin: what blocks its owner's end is gone before the owner."""
    made = driver.create(config_map(namespace))
    depend(client, namespace, made)
    driver.delete(made)
    with pytest.raises(ApiError, match="not found"):
        client.get(CONFIG_MAP, namespace, "child")


def test_the_propagation_policy_is_the_annotations(driver: Driver, client: ApiClient, namespace: str) -> None:
    made = driver.create(annotated(config_map(namespace), deletionPropagationPolicy="orphan"))
    depend(client, namespace, made)
    driver.delete(made)
    left = client.get(CONFIG_MAP, namespace, "child")
    assert not left["metadata"].get("ownerReferences")


def depend(client: ApiClient, namespace: str, owner: Resource) -> None:
    """Make a ConfigMap that belongs to the owner."""
    child = config_map(namespace)
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "it",
        "uid": owner.outputs["metadata"]["uid"],
    }
    child["metadata"] |= {"name": "child", "ownerReferences": [{**reference, "blockOwnerDeletion": True}]}
    client.create(child)


def test_an_import_takes_over_what_a_program_could_state(
    driver: Driver, client: ApiClient, namespace: str
) -> None:
    client.create(config_map(namespace, a="1"))
    urn = urn_of(config_map(namespace), "it")
    found = driver.read(Resource(urn, f"{namespace}/it", {}, {}))
    assert found is not None
    assert found.inputs == config_map(namespace, a="1")
    with pytest.raises(ApiError):
        client.get(CONFIG_MAP, namespace, "other")
    assert driver.read(Resource(urn, f"{namespace}/other", {}, {})) is None
