"""A patch over a pod template gives what a real API server makes of it, and its schema is that of the server."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client, config

from infra.config import pod_schema
from infra.config.pod_schema import MERGE_KEYS, UNUSABLE, problems
from infra.config.strategic_merge import RETAIN_KEYS, merged
from infra.job.pod import template
from standins.tests.apiserver import ApiServer
from tests.matrix.test_schemas import document
from tests.unit.infra.config.test_pod_template import name_of_the_block, of_the_page
from tests.unit.infra.samples import IMAGE, JOB, job_context, stack

Template = dict[str, Any]
ROOT = "io.k8s.api.core.v1.PodTemplateSpec"
# Fields of the server that the Python client does not know.
UNKNOWN_TO_THE_CLIENT: set[str] = set()
TABLE = yaml.safe_load(Path(__file__).with_name("strategic_merge.yaml").read_text())
BASE: Template = TABLE["base"]
PATCHES: dict[str, Template] = TABLE["patches"]


class Server:
    """Keeps BASE as a PodTemplate; nothing else is written."""

    def __init__(self, api_server: ApiServer) -> None:
        connection: Any = config.new_client_from_config(str(api_server.kubeconfig))  # type: ignore[no-untyped-call]
        self.api: Any = client.CoreV1Api(connection)
        self.options = {"dry_run": "All", "field_validation": "Strict", "_preload_content": False}

    def created(self, template: Template) -> Template:
        made = {"metadata": {"generateName": "merged-"}, "template": template}
        return template_in(self.api.create_namespaced_pod_template("default", made, **self.options))

    def patched(self, patch: Template) -> Template:
        content = {"_content_type": "application/strategic-merge-patch+json"}
        given = {"template": patch}
        return template_in(
            self.api.patch_namespaced_pod_template("base", "default", given, **content, **self.options)
        )


def template_in(answer: Any) -> Template:
    return dict(json.loads(answer.data)["template"])


@pytest.fixture(scope="module")
def server(api_server: ApiServer) -> Iterator[Server]:
    made = Server(api_server)
    made.api.create_namespaced_pod_template("default", {"metadata": {"name": "base"}, "template": BASE})
    yield made
    made.api.delete_namespaced_pod_template("base", "default")


@pytest.fixture(scope="module")
def definitions(api_server: ApiServer) -> dict[str, Any]:
    return dict(document(api_server)["definitions"])


def retaining(patch: Template) -> Template:
    """`patch` with the directive that kubectl apply computes: a server knows it in entries that it merges."""
    found = copy.deepcopy(patch)
    for name in RETAIN_KEYS:
        entries = found.get("spec", {}).get(name, [])
        ours = [each["name"] for each in BASE["spec"][name]]
        for each in entries if {"$patch": "replace"} not in entries else ():
            if each["name"] in ours and len(each) > 1:
                each["$retainKeys"] = [key for key, value in each.items() if value is not None]
    return found


def unordered(value: Any, name: str = "") -> Any:
    """With the lists that are merged in order of their keys."""
    if isinstance(value, Mapping):
        return {name: unordered(each, name) for name, each in value.items()}
    if isinstance(value, list):
        found = [unordered(each) for each in value]
        return sorted(found, key=lambda each: str(each[MERGE_KEYS[name]])) if name in MERGE_KEYS else found
    return value


@pytest.mark.parametrize("name", PATCHES)
def test_merges_as_the_server_does(name: str, server: Server) -> None:
    base, patch = copy.deepcopy(BASE), copy.deepcopy(PATCHES[name])
    assert list(problems(patch)) == []
    ours = merged(base, patch)
    assert (base, patch) == (BASE, PATCHES[name]), "the inputs stay as they are"
    assert unordered(server.created(ours)) == unordered(server.patched(retaining(patch)))


@pytest.mark.parametrize("job", of_the_page(), ids=name_of_the_block)
def test_a_server_takes_the_pods_of_the_page(job: dict[str, Any], server: Server) -> None:
    (config,) = stack(job={**JOB, **job}).jobs
    found = template(config, job_context(image=IMAGE), "worker")
    assert server.created(found)["spec"]["containers"][0]["name"] == "pytorch"


def test_new_entries_stand_after_ours_where_a_server_puts_them_before(server: Server) -> None:
    env = [{"name": "C", "value": "3"}, {"name": "B", "value": "4"}]
    patch = {"spec": {"containers": [{"name": "pytorch", "env": env}]}}
    orders = [
        [each["name"] for each in found["spec"]["containers"][0]["env"]]
        for found in (merged(BASE, patch), server.patched(patch))
    ]
    assert orders == [["A", "B", "C"], ["C", "A", "B"]]


def test_a_new_mapping_with_a_directive_is_kept_where_a_server_loses_it(server: Server) -> None:
    patch = {"spec": {"dnsConfig": {"$patch": "replace", "nameservers": ["192.0.2.1"]}}}
    assert merged(BASE, patch)["spec"]["dnsConfig"] == {"nameservers": ["192.0.2.1"]}
    assert "dnsConfig" not in server.patched(patch)["spec"]


def of_template(definitions: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any], str]]:
    """Model of the client, field, the server's schema and the client's type, of all that a pod template holds."""
    left, seen = [(ROOT, "V1PodTemplateSpec")], set()
    while left:
        name, model = left.pop()
        if name in seen:
            continue
        seen.add(name)
        known = pod_schema.fields(model)
        for field, schema in definitions[name]["properties"].items():
            if model == "V1ObjectMeta" and field not in known:
                continue
            kind = known.get(field, "")
            yield model, field, schema, kind
            if field in UNUSABLE.get(model, ()):
                continue
            inner = kind.removesuffix("]").removeprefix("List[")
            if (target := reference(schema.get("items", schema))) and "properties" in definitions[target]:
                left.append((target, inner))


def reference(schema: Mapping[str, Any]) -> str:
    return str(schema.get("$ref", "")).removeprefix("#/definitions/")


def test_the_merge_keys_are_those_of_the_server(definitions: dict[str, Any]) -> None:
    found = {
        (field, schema.get("x-kubernetes-patch-merge-key"))
        for _, field, schema, _ in of_template(definitions)
    }
    assert {(field, key) for field, key in found if key or field in MERGE_KEYS} == set(MERGE_KEYS.items())


def test_the_lists_that_retain_keys_are_those_of_the_server(definitions: dict[str, Any]) -> None:
    strategies = {
        field: schema.get("x-kubernetes-patch-strategy", "")
        for _, field, schema, _ in of_template(definitions)
    }
    assert {field for field, each in strategies.items() if "retainKeys" in each} == set(RETAIN_KEYS)
    assert {field for field, each in strategies.items() if "merge" in each} == set(MERGE_KEYS)


def kind_of(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """The client's word for the type of a field of the server; `V1` for that of any model."""
    if (target := reference(schema)) and "properties" in definitions[target]:
        return "V1"
    schema = definitions[target] if target else schema
    if schema["type"] == "array":
        return f"List[{kind_of(schema['items'], definitions)}]"
    if schema["type"] == "object":
        return f"Dict[str, {kind_of(schema['additionalProperties'], definitions)}]"
    plain = {"string": "str", "integer": "int", "boolean": "bool"}[schema["type"]]
    return "object" if schema.get("format") == "int-or-string" else plain


def test_each_field_of_the_server_has_the_clients_type(definitions: dict[str, Any]) -> None:
    found = {
        (f"{model}.{field}", kind_of(schema, definitions), kind)
        for model, field, schema, kind in of_template(definitions)
    }
    assert len(found) > 350
    assert {field for field, _, kind in found if not kind} == UNKNOWN_TO_THE_CLIENT
    for field, wanted, kind in found:
        if kind:
            assert kind == wanted or ("V1" in wanted and "V1" in kind), field


def test_each_field_that_may_be_set_is_one_of_the_server(definitions: dict[str, Any]) -> None:
    of_server: dict[str, set[str]] = {}
    for model, field, _, _ in of_template(definitions):
        of_server.setdefault(model, set()).add(field)
    for model, known in of_server.items():
        assert set(pod_schema.fields(model)) - UNUSABLE.get(model, set()) <= known, model
