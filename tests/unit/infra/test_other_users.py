"""`make down` asks who else uses a shared cluster, whatever else the stack file says."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.config import ConfigException

from infra import inspection, other_users, paths
from infra.config.cluster_access import ASKED_FOR
from infra.config.load import Sections
from infra.config.operator import OperatorApi
from infra.objects.api import ApiAddress
from infra.objects.cluster_api import ClusterApi, path
from infra.objects.job_kinds import DEFINITION, JOBSET, PYTORCHJOB, TRAINJOB
from infra.objects.kinds import Kind
from tests.unit.infra.objects.played_api import Request, listed, play

KUBECONFIG = "/etc/there.yaml"
CLUSTER = {"kind": "existing", "kubeconfig": KUBECONFIG, "context": "shared"}
WRONG: dict[str, dict[str, Any]] = {
    **{name: {name: {"nmae": 1}} for name in Sections.model_fields if name not in ASKED_FOR},
    "no image for a cluster elsewhere": {"job": {"name": "mnist"}},
    "context gone": {"image": {"context": "../gone"}},
    "Dockerfile gone": {"image": {"dockerfile": "../gone/Dockerfile"}},
}
"""What may be wrong in a stack file without being in the way of a destruction."""

Written = Callable[..., None]


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Written:
    """Writes the file of stack `dev` in a clone of its own, and puts an empty list on standard input."""
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO("[]"))
    (tmp_path / "stacks").mkdir()

    def write(**sections: Any) -> None:
        config = {f"trainstack:{name}": each for name, each in sections.items()}
        (tmp_path / "stacks" / "Pulumi.dev.yaml").write_text(yaml.safe_dump({"config": config}))

    return write


@pytest.mark.parametrize("name", WRONG)
def test_only_the_cluster_of_the_stack_file_counts(
    name: str, written: Written, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[ApiAddress] = []
    monkeypatch.setattr(other_users, "_jobs", lambda *_: iter(()))
    monkeypatch.setattr(ClusterApi, "at", lambda address, **_: asked.append(address))
    written(cluster=CLUSTER, **WRONG[name])
    assert other_users.main("dev") == 0
    assert json.loads(capsys.readouterr().out) == {"jobs": [], "namespaces": {}}
    assert asked == [ApiAddress(KUBECONFIG, "shared")]


@pytest.mark.parametrize("main", [other_users.main, inspection.main])
@pytest.mark.parametrize("section", ASKED_FOR)
def test_a_section_that_is_needed_and_wrong_ends_with_a_sentence(
    main: Callable[[str], int], section: str, written: Written, capsys: pytest.CaptureFixture[str]
) -> None:
    written(**{section: {"nmae": 1}})
    assert main("dev") == 1
    shown = capsys.readouterr()
    assert f"trainstack:{section}" in shown.err
    assert "fix: " in shown.err
    assert shown.out == ""


def test_a_cluster_that_cannot_be_reached_may_have_other_users(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(address: ApiAddress, **_: Any) -> None:
        raise ConfigException("no such context")

    monkeypatch.setattr(ClusterApi, "at", refuse)
    unknown = ["unknown: the cluster cannot be asked (ConfigException)"]
    assert other_users.users(ApiAddress(KUBECONFIG), ["Namespace/a"]) == {
        "jobs": unknown,
        "namespaces": {"a": unknown},
    }


@pytest.mark.parametrize(
    ("api", "own", "kinds"),
    [
        (OperatorApi.V1, [], [PYTORCHJOB]),
        (OperatorApi.V2, [], [TRAINJOB, JOBSET]),
        (OperatorApi.V1, [f"{DEFINITION}/{each}" for each in TRAINJOB.crds], [PYTORCHJOB, TRAINJOB, JOBSET]),
        (OperatorApi.V2, [f"{DEFINITION}/{PYTORCHJOB.crd}"], [PYTORCHJOB, TRAINJOB, JOBSET]),
    ],
)
def test_the_kinds_are_those_of_the_stack_file_and_those_that_the_stack_has_defined(
    api: OperatorApi, own: list[str], kinds: list[Kind], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Kind] = []

    def jobs(_: object, kinds: list[Kind]) -> Iterator[Any]:
        asked.extend(kinds)
        return iter(())

    monkeypatch.setattr(other_users, "_jobs", jobs)
    monkeypatch.setattr(ClusterApi, "at", lambda _, **__: None)
    other_users.users(ApiAddress(KUBECONFIG), own, api)
    assert asked == kinds


OURS, THEIRS = {"name": "ours", "namespace": "a"}, {"name": "theirs", "namespace": "a"}


@pytest.mark.parametrize("kind", [*other_users.NAMESPACED, *other_users.EVERY], ids=lambda kind: kind.kind)
def test_others_objects_of_each_kind_are_found_in_a_namespace(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def answer(request: Request) -> object:
        asked.append(request.path)
        own = path(kind, "" if kind in other_users.EVERY else "a")
        return listed({"metadata": OURS}, {"metadata": THEIRS}) if request.path == own else listed()

    play(monkeypatch, answer)
    found = other_users.in_namespace(ApiAddress(KUBECONFIG), "a", [f"{kind.kind}/a/ours"])
    assert found == [f"{kind.kind}/a/theirs"]
    assert len(set(asked)) == len(other_users.NAMESPACED) + len(other_users.EVERY)


@pytest.mark.parametrize(
    ("status", "told"), [(404, []), (403, ["unknown: the cluster cannot be asked (403 status 403)"])]
)
def test_a_kind_that_nobody_has_defined_has_no_jobs(
    status: int, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    play(monkeypatch, lambda _: status)
    assert other_users.jobs_of(ApiAddress(KUBECONFIG), [PYTORCHJOB], []) == told
