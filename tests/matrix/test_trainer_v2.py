"""A real API server takes the controllers of Kubeflow Trainer v2 and JobSet, and every job that is written for them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from kubernetes import client, config, dynamic
from kubernetes.client.exceptions import ApiException

from infra import operators, stack_plan
from infra.clusters.discovery import Question, read_contents
from infra.config import Stack
from infra.config.operator import OperatorApi
from infra.job.trainjob import jobs_of
from infra.objects.api import ApiAddress
from infra.objects.job_kinds import JOBSET, TRAINJOB
from infra.objects.kinds import Kind
from infra.objects.look import Look
from infra.objects.manifest import Manifest
from infra.training_operator.patches import CRD_KIND
from infra.training_operator.plan import Plan
from standins.tests.apiserver import ApiServer
from tests.e2e.test_trainer_v2 import PUBLISHED, shipped_runtime
from tests.e2e.waiting import wait_until
from tests.unit.infra.config.test_pod_template import of_the_page
from tests.unit.infra.job.test_trainjob import ENTRIES, is_refused, rendered
from tests.unit.infra.samples import stack

NAMESPACE = "default"
WHOLE = Plan(crd=True, operator=True, namespaces=())
# Nothing in this server answers them.
WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


class Server:
    """Applies objects as `kubectl apply --server-side --validate=strict` does."""

    def __init__(self, kubeconfig: str) -> None:
        connection: Any = config.new_client_from_config(kubeconfig)  # type: ignore[no-untyped-call]
        self.found: Any = dynamic.DynamicClient(connection)  # type: ignore[no-untyped-call]

    def apply(self, manifest: Manifest, **options: str) -> Manifest:
        kind = self.found.resources.get(api_version=manifest["apiVersion"], kind=manifest["kind"])
        made = kind.server_side_apply(
            body=manifest,
            name=manifest["metadata"]["name"],
            namespace=manifest["metadata"].get("namespace"),
            field_manager="test",
            query_params=[("fieldValidation", "Strict"), *options.items()],
        )
        return dict(made.to_dict())

    def try_out(self, manifest: Manifest) -> Manifest:
        return self.apply(manifest, dryRun="All")


@pytest.fixture(scope="module")
def v2() -> Stack:
    return stack(operator={"api": "v2", "namespace": NAMESPACE}, cluster={"namespace": NAMESPACE})


@pytest.fixture(scope="module")
def controllers(v2: Stack) -> list[Manifest]:
    return operators.manifests(v2, WHOLE)


@pytest.fixture(scope="module")
def server(api_server: ApiServer, controllers: list[Manifest]) -> Iterator[Server]:
    """With the CRDs, which are taken away again."""
    made = Server(str(api_server.kubeconfig))
    crds = [each for each in controllers if each["kind"] == CRD_KIND]
    assert sorted(each["metadata"]["name"] for each in crds) == sorted(TRAINJOB.crds)
    for each in crds:
        made.apply(each)
    extensions = client.ApiextensionsV1Api(made.found.client)
    try:
        for each in crds:
            name = each["metadata"]["name"]
            wait_until(f"{name} is served", lambda name=name: is_served(extensions, name))  # type: ignore[misc]
        made.found.resources.invalidate_cache()
        yield made
    finally:
        for each in crds:
            extensions.delete_custom_resource_definition(each["metadata"]["name"])


def is_served(extensions: client.ApiextensionsV1Api, name: str) -> bool:
    status = extensions.read_custom_resource_definition(name).status
    conditions = (status.conditions if status else None) or []
    return any(each.type == "Established" and each.status == "True" for each in conditions)


def assert_kept(given: Any, live: Any, path: str = "") -> None:
    """Everything of `given` stands in `live`: the server has dropped no field that a schema does not name."""
    if isinstance(given, dict):
        for key, value in given.items():
            assert key in live, f"{path}.{key} was dropped"
            assert_kept(value, live[key], f"{path}.{key}")
    elif isinstance(given, list):
        assert len(given) == len(live), path
        for place, value in enumerate(given):
            assert_kept(value, live[place], f"{path}[{place}]")
    else:
        assert given == live, path


def test_the_controllers_are_taken_as_they_are(server: Server, controllers: list[Manifest]) -> None:
    for each in controllers:
        kept = server.try_out(each)
        if each["kind"] != CRD_KIND:
            assert_kept({key: each[key] for key in each if key != "metadata"}, kept)
    assert {each["metadata"].get("namespace", NAMESPACE) for each in controllers} == {NAMESPACE}


def test_the_controllers_keep_to_the_policies(v2: Stack, controllers: list[Manifest]) -> None:
    stack_plan.ensure_allowed(v2, controllers)


def test_webhooks_call_services_that_are_there(controllers: list[Manifest]) -> None:
    services = {
        (each["metadata"]["namespace"], each["metadata"]["name"])
        for each in controllers
        if each["kind"] == "Service"
    }
    hooks = [hook for each in controllers if each["kind"] in WEBHOOKS for hook in each["webhooks"]]
    called = {
        (hook["clientConfig"]["service"]["namespace"], hook["clientConfig"]["service"]["name"])
        for hook in hooks
    }
    assert called
    assert called <= services


@pytest.mark.parametrize(("foreign", "found"), [(TRAINJOB, (True, False)), (JOBSET, (False, True))])
def test_what_somebody_else_has_installed_is_found(
    server: Server, api_server: ApiServer, foreign: Kind, found: tuple[bool, bool]
) -> None:
    look = Look(ApiAddress(str(api_server.kubeconfig)), print)
    asked = Question(kind=TRAINJOB)
    contents = read_contents(look, lambda each: each["metadata"]["name"] != foreign.crd, asked)
    assert (contents.problem, contents.crd, contents.beneath) == ("", *found)


KEYS = [key for key, entry in ENTRIES.items() if not is_refused(key, entry)]


def test_every_job_is_taken_and_nothing_of_it_dropped(server: Server) -> None:
    """The runtime, the job, and the batch/v1 Job that JobSet makes from the runtime: of each key's second value, and of
    each block in docs/pods.md.
    """
    given = {key: (key, ENTRIES[key].applied(f"job.{key}")) for key in KEYS}
    given |= {
        f"{name}, {number}": (name, {f"job.{name}": job[name]})
        for number, job in enumerate(of_the_page())
        for name in job
    }
    wrong = {}
    for key, (changed, changes) in given.items():
        for each in rendered(OperatorApi.V2, changed, **changes):
            for manifest in (placed(each), *map(placed, jobs_of(each))):
                try:
                    assert_kept(manifest["spec"], server.try_out(manifest)["spec"])
                except (ApiException, AssertionError) as error:
                    wrong[f"{key}: {manifest['kind']}"] = str(getattr(error, "body", None) or error)
    assert wrong == {}


def placed(manifest: Manifest) -> Manifest:
    """In a namespace that is there, and without the run's id, which is told by a word that is no label's value."""
    loaded: Manifest = json.loads(json.dumps(manifest).replace("the run", "mnist-0a1b2c3d"))
    return {**loaded, "metadata": {**loaded["metadata"], "namespace": NAMESPACE}}


def test_the_published_job_and_the_runtime_that_trainer_ships_are_taken(server: Server) -> None:
    """What tests/e2e/test_trainer_v2.py runs."""
    runtime, job = (yaml.safe_load(file.read_text()) for file in (shipped_runtime(), PUBLISHED))
    assert job["spec"]["runtimeRef"]["name"] == runtime["metadata"]["name"]
    assert_kept(runtime, server.try_out(runtime))
    assert_kept(job, server.try_out({**job, "metadata": {**job["metadata"], "namespace": NAMESPACE}}))


def misspell(manifest: Manifest) -> None:
    manifest["spec"]["trainer"]["numNode"] = 2


def text_for_a_number(manifest: Manifest) -> None:
    manifest["spec"]["activeDeadlineSeconds"] = "soon"


def no_runtime(manifest: Manifest) -> None:
    del manifest["spec"]["runtimeRef"]["name"]


@pytest.mark.parametrize("edit", [misspell, text_for_a_number, no_runtime])
def test_another_shape_is_refused(server: Server, edit: Any) -> None:
    manifest = placed(rendered(OperatorApi.V2, "name")[-1])
    server.try_out(manifest)
    edit(manifest)
    with pytest.raises(ApiException):
        server.try_out(manifest)
