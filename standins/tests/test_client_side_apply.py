"""`enableServerSideApply: false`: updates are merge patches, and one that has failed is made good by the next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pulumi_standins.kubernetes import values
from pulumi_standins.kubernetes.api_client import ApiClient
from pulumi_standins.kubernetes.merging import merge_patch
from pulumi_standins.kubernetes.objects import Kind
from pulumi_standins.kubernetes.prune import prune

from standins.tests.apiserver import ApiServer
from standins.tests.driver import CallError, Driver, Object, Resource
from standins.tests.flaky import FlakyProxy, changed_config
from standins.tests.samples import config_map, obj
from standins.tests.test_without_server import readable

SERVICE_ACCOUNT = Kind("", "v1", "ServiceAccount")

json_values = st.recursive(
    st.integers(0, 3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from("abc"), json_values, max_size=3)


def merged(target: Any, patch: Any) -> Any:
    """RFC 7386, as its section 2 writes it down."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


@given(objects, objects, objects)
def test_a_patch_makes_the_object_what_the_inputs_say(old: Object, new: Object, live: Object) -> None:
    """Whatever the object has become since the last update."""
    changed = merged(live, merge_patch(old, new, live, []))
    assert prune(changed, new) == new
    assert changed.keys() == new.keys() | (live.keys() - old.keys()), "and nothing else is touched"


@given(objects, objects)
def test_no_patch_is_sent_for_what_is_so_already(new: Object, live: Object) -> None:
    there = merged(live, new)
    assert merge_patch(new, new, there, []) == {}


@given(objects, objects, objects, st.sampled_from(["a", "a.b", "c.c"]))
def test_ignored_paths_are_left_alone(old: Object, new: Object, live: Object, path: str) -> None:
    patch: Any = merge_patch(old, new, live, [path])
    for step in path.split("."):
        if not isinstance(patch, dict) or step not in patch:
            return
        patch = patch[step]
    raise AssertionError(f"{path} is in the patch")


def account(namespace: str, labels: dict[str, str] | None = None, **fields: Any) -> Object:
    made = obj("v1", "ServiceAccount", namespace, **fields)
    if labels:
        made["metadata"]["labels"] = labels
    return made


CHANGES: dict[str, tuple[Object, Object]] = {
    "a field is added": ({}, {"automountServiceAccountToken": False}),
    "a field is changed": ({"automountServiceAccountToken": True}, {"automountServiceAccountToken": False}),
    "a field goes": ({"automountServiceAccountToken": False}, {}),
    "a key is added": ({"labels": {"a": "1"}}, {"labels": {"a": "1", "b": "1"}}),
    "a key is changed": ({"labels": {"a": "1"}}, {"labels": {"a": "2"}}),
    "a key goes": ({"labels": {"a": "1", "b": "1"}}, {"labels": {"a": "1"}}),
    "a list comes": ({}, {"imagePullSecrets": [{"name": "a"}]}),
    "a list grows": (
        {"imagePullSecrets": [{"name": "a"}]},
        {"imagePullSecrets": [{"name": "a"}, {"name": "b"}]},
    ),
    "a list shrinks": (
        {"imagePullSecrets": [{"name": "a"}, {"name": "b"}]},
        {"imagePullSecrets": [{"name": "a"}]},
    ),
    "a list goes": ({"imagePullSecrets": [{"name": "a"}]}, {}),
}


@pytest.fixture
def flaky(api_server: ApiServer, proxy: FlakyProxy) -> Iterator[Driver]:
    """A provider without server-side apply behind the proxy."""
    config = changed_config(api_server, cluster={"server": proxy.url})
    with Driver(kubeconfig=config, enableServerSideApply="false") as running:
        yield running


def failed(driver: Driver, proxy: FlakyProxy, made: Resource, wanted: Object, status: int) -> Resource:
    """What the engine keeps of an update that the server has refused: the new inputs, and our outputs."""
    proxy.faults = {"PATCH": [status] * 2}
    with pytest.raises(CallError, match=str(status)) as refused:
        driver.update(made, wanted)
    proxy.faults = {}
    _, inputs = driver.check(wanted, old=made)
    partial = refused.value.partial
    return Resource(made.urn, partial.id, inputs, values.decode(partial.properties))


@pytest.mark.apiserver
@pytest.mark.parametrize("is_refreshed", [False, True], ids=["at once", "after a refresh"])
@pytest.mark.parametrize("change", CHANGES)
def test_an_update_that_failed_is_sent_again(
    flaky: Driver, proxy: FlakyProxy, client: ApiClient, namespace: str, change: str, is_refreshed: bool
) -> None:
    before, after = (account(namespace, **fields) for fields in CHANGES[change])
    made = flaky.create(before)
    kept: Resource | None = failed(flaky, proxy, made, after, 422)
    assert kept is not None
    kept = failed(flaky, proxy, kept, after, 403)
    if is_refreshed:
        kept = flaky.read(kept)
        assert kept is not None
    assert flaky.plan(kept, after).action == "update", "the preview shows what is still to be done"
    flaky.apply(kept, after)
    live = client.get(SERVICE_ACCOUNT, namespace, "it")
    expected = {"automountServiceAccountToken", "imagePullSecrets"}
    assert {key: live[key] for key in expected & live.keys()} == {
        key: after[key] for key in expected & after.keys()
    }
    labels = {**after["metadata"].get("labels", {}), "app.kubernetes.io/managed-by": "pulumi"}
    assert live["metadata"]["labels"] == labels


@pytest.mark.apiserver
def test_a_secret_that_the_failed_update_drops_stays_secret(
    flaky: Driver, proxy: FlakyProxy, namespace: str
) -> None:
    """It is in the object still, and in the inputs that the state keeps for the next try."""
    before = config_map(namespace, a="1")
    before["data"]["token"] = values.Secret("planted")
    made = flaky.create(before)
    kept: Resource | None = failed(flaky, proxy, made, config_map(namespace, a="2"), 422)
    assert kept is not None
    assert "planted" not in readable(kept.outputs)
    assert values.plain(kept.outputs)["data"] == {"a": "1", "token": "planted"}
    kept = flaky.read(kept)
    assert kept is not None
    assert "planted" not in readable(kept.outputs)


@pytest.mark.apiserver
def test_a_change_behind_our_back_is_undone_by_the_next_update(
    flaky: Driver, client: ApiClient, namespace: str
) -> None:
    made = flaky.create(account(namespace, automountServiceAccountToken=False))
    client.merge(made.outputs, {"automountServiceAccountToken": True}, manager="somebody")
    wanted = account(namespace, {"edited": "yes"}, automountServiceAccountToken=False)
    ignoring = flaky.update(made, wanted, ignored=["automountServiceAccountToken"])
    assert ignoring.outputs["automountServiceAccountToken"] is True
    assert ignoring.outputs["metadata"]["labels"]["edited"] == "yes"
    assert flaky.update(made, wanted).outputs["automountServiceAccountToken"] is False
