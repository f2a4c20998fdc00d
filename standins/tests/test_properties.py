"""Random objects and random edits: previews come true, refreshes are empty, deletions leave nothing."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pulumi_standins.kubernetes.api_client import ApiClient
from pulumi_standins.kubernetes.errors import ApiError
from pulumi_standins.kubernetes.objects import kind_of

from standins.tests.driver import Driver, Object

pytestmark = pytest.mark.apiserver

unhurried = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
_numbers = itertools.count()

keys = st.from_regex(r"[a-z][a-z0-9]{0,5}", fullmatch=True)
words = st.text("abcxyz 019-:/é\n", max_size=8)
labels = st.dictionaries(keys, st.from_regex(r"[a-z0-9]{0,5}", fullmatch=True), max_size=2)
data = st.dictionaries(keys, words, max_size=3)
quantities = st.sampled_from(["1", "500m", "0.5", "1000m", "64Mi", "1024Mi", "1.5Gi", "2"])
rules = st.lists(
    st.fixed_dictionaries(
        {
            "apiGroups": st.just([""]),
            "resources": st.lists(keys, min_size=1, max_size=2),
            "verbs": st.lists(st.sampled_from(["get", "list", "watch"]), min_size=1, max_size=2),
        }
    ),
    max_size=2,
)
ports = st.lists(
    st.fixed_dictionaries({"port": st.integers(1, 65535), "protocol": st.sampled_from(["TCP", "UDP"])}),
    min_size=1,
    max_size=2,
)


def kind(api_version: str, name: str, **fields: Any) -> st.SearchStrategy[Object]:
    return st.fixed_dictionaries(
        {
            "apiVersion": st.just(api_version),
            "kind": st.just(name),
            "metadata": st.fixed_dictionaries({"labels": labels, "annotations": data}),
            **fields,
        }
    )


kinds = [
    kind("v1", "ConfigMap", data=data),
    kind("v1", "Secret", stringData=data),
    kind("v1", "ServiceAccount", automountServiceAccountToken=st.booleans()),
    kind("rbac.authorization.k8s.io/v1", "Role", rules=rules),
    kind(
        "v1",
        "LimitRange",
        spec=st.fixed_dictionaries(
            {
                "limits": st.lists(
                    st.fixed_dictionaries(
                        {
                            "type": st.just("Pod"),
                            "max": st.fixed_dictionaries({"cpu": quantities, "memory": quantities}),
                        }
                    ),
                    min_size=1,
                    max_size=1,
                )
            }
        ),
    ),
    kind(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        spec=st.fixed_dictionaries(
            {
                "podSelector": st.fixed_dictionaries({}, optional={"matchLabels": labels}),
                "ingress": st.lists(st.fixed_dictionaries({"ports": ports}), max_size=2),
            }
        ),
    ),
    kind(
        "coordination.k8s.io/v1",
        "Lease",
        spec=st.fixed_dictionaries(
            {}, optional={"holderIdentity": keys, "leaseTransitions": st.integers(0, 9)}
        ),
    ),
]


@st.composite
def edits(draw: st.DrawFn) -> tuple[Object, Object]:
    """An object, and another of the same kind and name."""
    chosen = draw(st.sampled_from(kinds))
    before, after = draw(chosen), draw(chosen)
    merged = copy.deepcopy(before)
    for key in draw(st.sets(st.sampled_from(sorted(after)))) - {"apiVersion", "kind"}:
        merged[key] = copy.deepcopy(after[key])
    return before, merged


def placed(obj: Object, namespace: str, name: str) -> Object:
    found = copy.deepcopy(obj)
    found["metadata"].update(name=name, namespace=namespace)
    return found


def settled(outputs: Object) -> Object:
    """The outputs without what every write changes."""
    found = copy.deepcopy(outputs)
    for key in ("managedFields", "resourceVersion", "uid", "creationTimestamp", "generation"):
        found["metadata"].pop(key, None)
    found.pop("__fieldManager", None)
    return found


@unhurried
@given(edit=edits())
def test_previews_come_true_and_refreshes_are_empty(
    edit: tuple[Object, Object], driver: Driver, client: ApiClient, namespace: str
) -> None:
    before, after = (placed(obj, namespace, f"it-{next(_numbers)}") for obj in edit)
    after["metadata"]["name"] = before["metadata"]["name"]
    foreseen = driver.create(before, preview=True)
    made = driver.create(before)
    assert settled(foreseen.outputs) == settled(made.outputs)
    assert driver.plan(made, before).action == "same", "what was just made needs no change"

    plan = driver.plan(made, after)
    if plan.action == "update":
        foreseen = driver.update(made, after, preview=True)
        changed = driver.update(made, after)
        assert settled(foreseen.outputs) == settled(changed.outputs)
    else:
        changed = driver.apply(made, after)
    if plan.action == "same":
        assert settled(made.outputs) == settled(changed.outputs)
    refreshed = driver.read(changed)
    assert refreshed is not None
    assert refreshed.inputs == changed.inputs
    assert driver.plan(refreshed, after).action == "same"

    driver.delete(changed)
    with pytest.raises(ApiError, match="not found"):
        client.get(kind_of(after), namespace, after["metadata"]["name"])
