"""Every kind of object: created, planned, previewed, updated, refreshed and deleted, without a diff of its own."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import yaml
from pulumi_standins import border

from standins.tests.driver import CallError, Driver, Object
from standins.tests.samples import annotated, definition, obj, pod_template

pytestmark = pytest.mark.apiserver

BACKEND = {"service": {"name": "none", "port": {"number": 80}}}
KINDS = [
    {"metadata": {}, **given}
    for given in yaml.safe_load_all((Path(__file__).parent / "data" / "kinds.yaml").read_text())
]


@pytest.mark.parametrize("given", KINDS, ids=[kind["kind"] for kind in KINDS])
def test_a_kind_lives_and_leaves_without_a_diff(driver: Driver, namespace: str, given: Object) -> None:
    live_and_leave(driver, namespace, given)


def live_and_leave(driver: Driver, namespace: str, given: Object) -> None:
    """Through all operations that a resource goes through; named after the test's namespace by the provider."""
    wanted = copy.deepcopy(given)
    _, checked = driver.check(wanted, name=namespace)
    if "namespace" in checked["metadata"]:
        wanted["metadata"]["namespace"] = namespace
    made = driver.create(wanted, name=namespace)
    assert made.id.endswith(made.outputs["metadata"]["name"])
    assert driver.plan(made, wanted).action == "same"
    labelled = copy.deepcopy(wanted)
    labelled["metadata"]["labels"] = {"edited": "yes"}
    plan = driver.plan(made, labelled)
    assert (plan.action, plan.changes) == ("update", {"metadata.labels": "ADD"})
    foreseen = driver.update(made, labelled, preview=True)
    changed = driver.update(made, labelled)
    assert foreseen.inputs == changed.inputs
    assert changed.outputs["metadata"]["labels"]["edited"] == "yes"
    refreshed = driver.read(changed)
    assert refreshed is not None
    assert refreshed.inputs == changed.inputs, "an update, then a refresh, is empty"
    driver.delete(changed)
    assert driver.read(changed) is None


@pytest.mark.parametrize("scope", ["Namespaced", "Cluster"])
def test_custom_resources_live_like_others(driver: Driver, namespace: str, scope: str) -> None:
    group = f"{namespace}.example.com"
    crd = definition(group)
    crd["spec"]["scope"] = scope
    with driver.made(crd, name="definition"):
        thing = obj(f"{group}/v1", "Thing", spec={"size": 1, "list": [], "map": {}})
        # In the foreground it would wait for the garbage collector, which looks for new kinds every 30 seconds.
        live_and_leave(driver, namespace, annotated(thing, deletionPropagationPolicy="background"))


def test_a_kind_that_nobody_defines_is_named(
    driver: Driver, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pulumi_standins.kubernetes.creation._FIRST_PAUSE", 0.01)
    unknown = obj("nobody.example.com/v1", "Nothing", namespace)
    assert driver.create(unknown, preview=True).inputs == unknown, (
        "its definition may be made by the same program"
    )
    with pytest.raises(CallError, match="Verify that any required CRDs have been created") as failed:
        driver.create(unknown)
    assert 'no matches for kind "Nothing" in version "nobody.example.com/v1"' in str(failed.value)


@pytest.mark.parametrize("kind", [("v1", "ConfigMapList"), ("apps/v1", "DeploymentList")])
def test_lists_are_refused(driver: Driver, kind: tuple[str, str]) -> None:
    with pytest.raises(CallError, match="list resources"):
        driver.check(obj(*kind, items=[]))


def test_crds_are_replaced_as_a_whole(driver: Driver, namespace: str) -> None:
    wanted = definition(f"{namespace}.example.com")
    made = driver.create(wanted)
    wanted = copy.deepcopy(wanted)
    wanted["spec"]["versions"].insert(0, {**wanted["spec"]["versions"][0], "name": "v2", "storage": False})
    changed = driver.update(made, wanted)
    assert [v["name"] for v in changed.outputs["spec"]["versions"]] == ["v2", "v1"]
    assert driver.plan(changed, wanted).action == "same"
    driver.delete(changed)


@pytest.mark.parametrize("kind", sorted(border.NOT_AWAITED))
def test_a_kind_that_is_not_waited_for_is_made_with_a_warning(
    driver: Driver, namespace: str, kind: str
) -> None:
    spec = {
        "Ingress": {"defaultBackend": BACKEND},
        "ReplicationController": {"replicas": 1, "template": pod_template("unschedulable")},
    }
    version, _, name = kind.rpartition("/")
    given = obj(version, name, namespace, spec=spec[name])
    warning = f"warning: {border.not_awaited(kind)}"
    made = driver.create(given)
    assert warning in driver.log
    assert driver.read(made) is not None
    driver.delete(made)
    driver.log.clear()
    driver.delete(driver.create(annotated(given, skipAwait="true")))
    assert warning not in driver.log
