"""The components that the provider makes, with a monitor in the engine's place."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from google.protobuf.struct_pb2 import Value
from pulumi.runtime.proto import alias_pb2
from pulumi_standins import protocol
from pulumi_standins.kubernetes import components, manifest_yaml, values, yaml_manifests
from pulumi_standins.kubernetes.scopes import Scopes
from pulumi_standins.kubernetes.secret_sources import with_sources

from standins.tests.driver import Object

GROUP = "kubernetes:yaml/v2:ConfigGroup"
FILE = "kubernetes:yaml/v2:ConfigFile"


class Monitor:
    """Takes registrations.

    Attributes:
        registrations: all so far; the component is the first.
    """

    def __init__(self) -> None:
        self.registrations: list[Any] = []

    def RegisterResource(self, registration: Any) -> Any:  # noqa: N802
        self.registrations.append(registration)
        return SimpleNamespace(urn=f"urn:pulumi:s::p::{registration.type}::{registration.name}", id="it")

    def RegisterResourceOutputs(self, _outputs: Any) -> None:  # noqa: N802
        pass


@pytest.fixture
def monitor(monkeypatch: pytest.MonkeyPatch) -> Monitor:
    made = Monitor()
    monkeypatch.setattr(protocol.resource_pb2_grpc, "ResourceMonitorStub", lambda _channel: made)
    return made


def construct(inputs: Object, token: str = GROUP, **options: Any) -> None:
    request = protocol.provider_pb2.ConstructRequest(
        type=token, name="it", inputs=values.encode(inputs), monitorEndpoint="127.0.0.1:1", **options
    )
    components.construct(request, scope=Scopes(), client=None, namespace="default", version="4.30.0")


PLANTED = "planted-in-it"
BROKEN_OBJECTS: dict[str, Any] = {
    "no name": {"apiVersion": "v1", "kind": "Secret", "stringData": {"a": PLANTED}},
    "no kind": {"apiVersion": "v1", "metadata": {"name": "it"}, "data": {"a": PLANTED}},
    "no apiVersion": {"data": {"a": PLANTED}, "kind": "ConfigMap", "metadata": {"name": "it"}},
    "only data": {"a": PLANTED},
    "a map as kind": {"kind": {"a": PLANTED}, "apiVersion": "v1"},
    "a map as version": {"kind": "ConfigMap", "apiVersion": {"a": PLANTED}},
    "metadata that is text": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": PLANTED},
    "a text": PLANTED,
    "a list": [PLANTED],
    "a list of texts": {"apiVersion": "v1", "kind": "List", "items": [PLANTED]},
}
BROKEN_TEXTS = {
    "an alias": f"a: *{PLANTED}",
    "a tag": f"a: !{PLANTED}",
    "a tag of YAML": f"a: !!{PLANTED} b",
    "a number": f"a: !!int {PLANTED}",
    "a fraction": f"a: !!float {PLANTED}",
    "a truth": f"a: !!bool {PLANTED}",
    "a time": f"a: !!timestamp {PLANTED}",
    "bytes": "apiVersion: v1\nkind: Secret\nmetadata: {name: it}\ndata: {a: !!binary cGxhbnRlZC1pbi1pdA==}",
    "a set": f"apiVersion: v1\nkind: Secret\nmetadata: {{name: it}}\ndata: !!set {{{PLANTED}}}",
    "a map": f"a: {PLANTED}: b",
    "a quotation": f"a: '{PLANTED}\nb: c",
    "an escape": f'a: "\\{PLANTED}"',
    "a bracket": f"{{a: {PLANTED}",
    "a merge": f"<<: {PLANTED}",
    "a control character": f"a: {PLANTED}\0",
    "anchors": f"a: &{PLANTED} b\nc: &{PLANTED} *{PLANTED}d",
    "a text": PLANTED,
    "a list": f"- {PLANTED}",
}


@pytest.mark.parametrize("is_secret", [True, False], ids=["secret", "open"])
@pytest.mark.parametrize("what", BROKEN_OBJECTS)
def test_errors_about_objects_do_not_say_what_is_in_them(
    monitor: Monitor, what: str, is_secret: bool
) -> None:
    good = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "good"}}
    broken = values.Secret(BROKEN_OBJECTS[what]) if is_secret else BROKEN_OBJECTS[what]
    with pytest.raises(ValueError, match=r"(object|element) \d") as refused:
        construct({"objs": [good, broken]})
    assert PLANTED not in str(refused.value)


@pytest.mark.parametrize("loader", ["CSafeLoader", "SafeLoader"])
@pytest.mark.parametrize("what", BROKEN_TEXTS)
def test_errors_about_manifests_do_not_say_what_is_in_them(
    monitor: Monitor, monkeypatch: pytest.MonkeyPatch, what: str, loader: str
) -> None:
    """Neither by libyaml nor by PyYAML's own parser, which shows the line."""
    if loader == "SafeLoader":
        monkeypatch.setattr(manifest_yaml, "_Loader", manifest_yaml.loader(yaml.SafeLoader))
    with pytest.raises((ValueError, TypeError)) as refused:
        construct({"yaml": values.Secret(BROKEN_TEXTS[what])})
    assert PLANTED not in str(refused.value)
    assert refused.value.__cause__ is None


def test_errors_about_manifests_say_where_it_is_wrong() -> None:
    with pytest.raises(ValueError, match=r"mapping values are not allowed .*\(line 2, column 5\)"):
        yaml_manifests.decode("a: b\nc: d: e")
    with pytest.raises(ValueError, match="document 2 is a list"):
        yaml_manifests.decode("{a: b}\n---\n[]\n---\n[c]".replace("[]", "[d]"))
    with pytest.raises(ValueError, match="element 2 is a str"):
        with_sources([{"kind": "ConfigMap"}, "text"])


ALIAS = alias_pb2.Alias(urn="urn:pulumi:s::p::t::old")
OPTIONS: dict[str, Any] = {
    "additionalSecretOutputs": ["resources"],
    "aliases": [ALIAS],
    "customTimeouts": {"create": "1m", "delete": "2m"},
    "deleteBeforeReplace": True,
    "deletedWith": "urn:pulumi:s::p::t::other",
    "dependencies": ["urn:pulumi:s::p::t::other"],
    "ignoreChanges": ["objs"],
    "parent": "urn:pulumi:s::p::t::parent",
    "protect": True,
    "providers": {"kubernetes": "urn:pulumi:s::p::pulumi:providers:kubernetes::cluster::it"},
    "replaceOnChanges": ["objs"],
    "replace_with": ["urn:pulumi:s::p::t::other"],
    "replacement_trigger": Value(string_value="1"),
    "resource_hooks": {"after_create": ["hook"]},
    "retainOnDelete": True,
}
# What the request says of the program, of the call and of the component itself.
NO_OPTIONS = {
    *("project", "stack", "config", "configSecretKeys", "dryRun", "parallel", "organization"),
    *("monitorEndpoint", "accepts_output_values", "stack_trace_handle"),
    *("type", "name", "inputs", "inputDependencies"),
}


def test_the_options_are_all() -> None:
    fields = {field.name for field in protocol.provider_pb2.ConstructRequest.DESCRIPTOR.fields}
    assert set(OPTIONS) == fields - NO_OPTIONS


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_of_a_component_reaches_the_engine(monitor: Monitor, option: str) -> None:
    construct({"objs": []}, **{option: OPTIONS[option]})
    request = protocol.provider_pb2.ConstructRequest(**{option: OPTIONS[option]})
    (component,) = monitor.registrations
    given, taken = getattr(request, option), getattr(component, option.replace("resource_hooks", "hooks"))
    assert str(taken) == str(given)
    assert component.deleteBeforeReplaceDefined == (option == "deleteBeforeReplace")


@pytest.mark.parametrize("option", ["protect", "retainOnDelete"])
@pytest.mark.parametrize("value", [False, None])
def test_false_is_another_option_than_none(monitor: Monitor, option: str, value: bool | None) -> None:
    """What is not said is inherited from the parent, or false."""
    options: dict[str, Any] = {} if value is None else {option: value}
    construct({"objs": []}, **options)
    (component,) = monitor.registrations
    assert component.HasField(option) == (value is False)
    assert getattr(component, option) is False
