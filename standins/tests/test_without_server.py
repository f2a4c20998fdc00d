"""The parts of the stand-ins that need no server."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pulumi_standins.kubernetes import propertypath, state, type_tokens, values
from pulumi_standins.kubernetes.differences import Difference, compare, touches
from pulumi_standins.kubernetes.normalise import normalise
from pulumi_standins.kubernetes.provider_config import diff_config
from pulumi_standins.kubernetes.prune import prune
from pulumi_standins.kubernetes.quantities import canonical
from pulumi_standins.kubernetes.secret_marks import mark_secrets


@pytest.mark.parametrize(
    ("given_text", "printed"),
    [
        ("1000m", "1"),
        ("0.5", "500m"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("1000", "1k"),
        ("1e3", "1e3"),
        ("0", "0"),
        ("0Mi", "0"),
        ("100Mi", "100Mi"),
        ("512Ki", "512Ki"),
        ("0.5Mi", "512Ki"),
        ("2", "2"),
        ("-1500m", "-1500m"),
        ("1Ki", "1Ki"),
    ],
)
def test_quantities_are_printed_as_kubernetes_does(given_text: str, printed: str) -> None:
    assert canonical(given_text) == printed


json_values = st.recursive(
    st.booleans() | st.integers(-(2**50), 2**50) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)
objects = st.dictionaries(st.text(max_size=5), json_values, max_size=5)


@given(objects)
def test_properties_survive_the_wire(obj: dict[str, Any]) -> None:
    assert values.decode(values.encode(obj)) == obj


@given(objects)
def test_secrets_and_unknowns_survive_the_wire(obj: dict[str, Any]) -> None:
    wrapped = {"secret": values.Secret(obj), "unknown": values.UNKNOWN}
    decoded = values.decode(values.encode(wrapped))
    assert decoded["secret"] == values.Secret(obj)
    assert decoded["unknown"] is values.UNKNOWN


def readable(value: Any) -> str:
    """What a reader of the state sees of a value."""
    if isinstance(value, values.Secret):
        return "[secret]"
    if isinstance(value, dict):
        return str({key: readable(item) for key, item in value.items()})
    return str([readable(item) for item in value]) if isinstance(value, list) else repr(value)


with_secrets = st.recursive(
    st.integers(0, 9) | st.just(values.Secret("planted")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)


@given(
    st.dictionaries(st.sampled_from(["metadata", "spec", "data", "stringData"]), with_secrets),
    st.sampled_from(["ConfigMap", "Secret"]),
)
def test_what_was_secret_in_the_inputs_is_secret_in_the_outputs(
    given_fields: dict[str, Any], kind: str
) -> None:
    source = {"apiVersion": "v1", "kind": kind, **given_fields}
    outputs = values.plain(source)
    mark_secrets(outputs, source)
    assert "planted" not in readable(outputs)
    assert values.plain(outputs) == values.plain(source)


@given(objects)
def test_nothing_differs_from_itself(obj: dict[str, Any]) -> None:
    assert compare(obj, obj) == []
    assert prune(obj, obj) == obj


@given(objects, objects)
def test_pruning_to_another_shape_keeps_only_its_keys(live: dict[str, Any], shape: dict[str, Any]) -> None:
    assert prune(live, shape).keys() == live.keys() & shape.keys()


def test_differences_name_the_deepest_path() -> None:
    old = {"spec": {"containers": [{"name": "c", "args": ["a"]}], "x.y/z": 1}}
    new = {"spec": {"containers": [{"name": "c", "args": ["b", "c"]}]}}
    found = {d.property_path: str(d.change) for d in compare(old, new)}
    assert found == {
        "spec.containers[0].args[0]": "UPDATE",
        "spec.containers[0].args[1]": "ADD",
        'spec["x.y/z"]': "DELETE",
    }


def test_a_replacement_path_is_met_above_at_and_below() -> None:
    inside = next(iter(compare({"spec": {"selector": {"a": "1"}}}, {"spec": {"selector": {"a": "2"}}})))
    assert touches(inside, ("spec", "selector"))
    whole: Difference = compare({}, {"spec": {"selector": {"a": "2"}}})[0]
    assert touches(whole, ("spec", "selector"))
    assert not touches(whole, ("spec", "replicas"))
    element = compare({"c": [{"image": "a"}]}, {"c": [{"image": "b"}]})[0]
    assert touches(element, ("c", "*", "image"))


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("spec.replicas", ["spec", "replicas"]),
        ('metadata.labels["a.b/c"]', ["metadata", "labels", "a.b/c"]),
        ("spec.containers[*].image", ["spec", "containers", "*", "image"]),
        ('["x"][0]', ["x", 0]),
    ],
)
def test_property_paths_are_read_as_pulumi_writes_them(text: str, steps: list[str | int]) -> None:
    assert propertypath.parse(text) == steps


def test_inputs_lose_what_a_typed_client_would_not_send() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {}, "creationTimestamp": "2020-01-01T00:00:00Z"},
        "spec": {
            "hostNetwork": False,
            "priority": 0,
            "replcas": 3,
            "containers": [{"name": "c", "resources": {"limits": {"cpu": 2, "memory": "1024Mi"}}}],
        },
    }
    assert normalise(pod) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {
            "priority": 0,
            "containers": [{"name": "c", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}],
        },
    }


def test_inputs_of_a_wrong_type_are_left_to_the_server() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "spec": {"ports": "none", "bogus": 1}}
    assert normalise({**service}) == service


def test_another_cluster_replaces_and_another_login_does_not() -> None:
    def config(server: str, token: str) -> dict[str, Any]:
        return {
            "kubeconfig": "apiVersion: v1\ncurrent-context: c\n"
            f"clusters: [{{name: k, cluster: {{server: {server}}}}}]\n"
            "contexts: [{name: c, context: {cluster: k, user: u}}]\n"
            f"users: [{{name: u, user: {{token: {token}}}}}]\n"
        }

    same = diff_config(config("a", "1"), config("a", "2"))
    assert same.changed == ["kubeconfig"]
    assert same.replaces == []
    assert diff_config(config("a", "1"), config("b", "1")).replaces == ["kubeconfig"]
    pinned = {"clusterIdentifier": "x"}
    assert diff_config(config("a", "1") | pinned, config("b", "1") | pinned).replaces == []
    renamed = diff_config(config("a", "1") | pinned, config("a", "1") | {"clusterIdentifier": "y"})
    assert renamed.replaces == ["clusterIdentifier"]


@pytest.mark.parametrize(
    ("token", "kind", "is_list", "is_patch"),
    [
        ("kubernetes:core/v1:ConfigMap", "ConfigMap", False, False),
        ("kubernetes:core/v1:ConfigMapPatch", "ConfigMap", False, True),
        ("kubernetes:apps/v1:DeploymentList", "DeploymentList", True, False),
        ("kubernetes:example.com/v1:AllowList", "AllowList", False, False),
        ("kubernetes:example.com/v1:HotPatch", "HotPatch", False, False),
        ("kubernetes:example.com/v1:HotPatchPatch", "HotPatch", False, True),
    ],
)
def test_only_built_in_kinds_are_lists_and_patches_by_their_names(
    token: str, kind: str, is_list: bool, is_patch: bool
) -> None:
    urn = f"urn:pulumi:s::p::{token}::it"
    assert (type_tokens.is_list(urn), type_tokens.is_patch(urn, kind)) == (is_list, is_patch)


LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@pytest.mark.parametrize("place", ["data", "stringData", "annotation", "whole data", "labels", "spec"])
@pytest.mark.parametrize("kind", ["Secret", "ConfigMap"])
def test_the_copy_that_kubectl_keeps_is_as_secret_as_the_object(kind: str, place: str) -> None:
    """It has everything in it, as one text: in the outputs of a live object, and in inputs that were copied."""
    secret, metadata = values.Secret("planted"), {"name": "it"}
    sources: dict[str, Any] = {
        "data": {"data": {"a": secret}},
        "stringData": {"stringData": {"a": secret}},
        "annotation": {"metadata": {**metadata, "annotations": {"a": secret}}},
        "whole data": {"data": values.Secret({"a": "planted"})},
        "labels": {"metadata": {**metadata, "labels": {"a": secret}}},
        "spec": {"spec": {"list": [secret]}},
    }
    source = {"apiVersion": "v1", "kind": kind, "metadata": metadata, **sources[place]}
    plain = values.plain(source)
    live = {**plain, "metadata": {**plain["metadata"], "annotations": {LAST_APPLIED: "planted", "b": "open"}}}
    for given_source in (source, plain) if kind == "Secret" and "ata" in place else (source,):
        kept = state.Outputs(given_source, "v1", "m").of(live, live)
        assert "planted" not in readable(kept)
        assert "open" in readable(kept)
        assert values.plain(kept)["metadata"] == live["metadata"]


def test_the_copy_of_an_object_without_secrets_stays_readable() -> None:
    live = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"annotations": {LAST_APPLIED: "readable"}}}
    kept = state.Outputs({}, "v1", "m").of({}, live)
    assert "readable" in readable(kept)
