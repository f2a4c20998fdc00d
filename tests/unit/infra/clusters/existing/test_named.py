"""A stack names its cluster: another one in reach is refused, and one that cannot be asked, too."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.clusters import selection
from infra.clusters.existing import kubeconfig
from infra.config import Stack
from infra.config.errors import ConfigError
from infra.objects.look import ForbiddenError, UnknownError
from tests.unit.infra.clusters.existing.test_one_context import CONFIG
from tests.unit.infra.objects import played_api
from tests.unit.infra.objects.played_api import Request
from tests.unit.infra.samples import IMAGE, stack

ID, OTHER_ID = "3f8a1c52-7d4e-4b09-9c61-2f5e8d7a0b13", "3f8a1c52-7d4e-4b09-9c61-2f5e8d7a0b14"
PLACE = "/api/v1/namespaces/kube-system"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(CONFIG))
    return path


def named(file: Path, **cluster: Any) -> Stack:
    section = {"kind": "existing", "kubeconfig": str(file), **cluster}
    storage = {"kind": "claim", "claim": "theirs"}
    return stack(cluster=section, image={"reference": IMAGE}, operator={"install": "never"}, storage=storage)


def answering(uid: object) -> Callable[[Request], object]:
    """A cluster whose namespace kube-system has this uid, or which answers so for it."""

    def answer(request: Request) -> object:
        if request.path == PLACE:
            return {"metadata": {"name": "kube-system", "uid": uid}} if isinstance(uid, str) else uid
        return {"metadata": {"name": request.name}, "items": [], "resources": []}

    return answer


def examine(found: Stack, limit_s: float = 0.0) -> None:
    """As the program does, before anything is registered."""
    selection.examine(found, lambda _: False, played_api.look(limit_s, found.cluster.kubeconfig))


@pytest.mark.parametrize(
    "cluster",
    [
        *({}, {"server": "https://a"}, {"server": "https://a/"}, {"id": ID}),
        {"context": "home", "server": "https://planted"},
        {"context": "work", "server": "https://a", "id": ID},
    ],
    ids=str,
)
def test_the_cluster_that_is_named_is_taken(
    file: Path, monkeypatch: pytest.MonkeyPatch, cluster: dict[str, Any]
) -> None:
    played_api.play(monkeypatch, answering(ID))
    examine(named(file, **cluster))


@pytest.mark.parametrize(
    ("cluster", "found", "place"),
    [
        ({"server": "https://b"}, "https://a", "the current context of"),
        ({"server": "https://a", "context": "home"}, "https://planted", "context home of"),
        ({"id": OTHER_ID}, ID, "the current context of"),
        ({"id": OTHER_ID, "context": "work", "server": "https://a"}, ID, "context work of"),
    ],
    ids=str,
)
def test_another_cluster_is_refused_with_both_values_and_the_fix(
    file: Path, monkeypatch: pytest.MonkeyPatch, cluster: dict[str, Any], found: str, place: str
) -> None:
    played_api.play(monkeypatch, answering(ID))
    with pytest.raises(ConfigError) as refused:
        examine(named(file, **cluster))
    key = "id" if "id" in cluster else "server"
    said = str(refused.value)
    assert f"stacks/Pulumi.dev.yaml: trainstack:cluster.{key} = {cluster[key]!r}" in said
    for part in (found, f"{place} {file}", "KUBECONFIG=FILE", f"write `{key}: {found}`"):
        assert part in said


def test_a_kubeconfig_without_a_server_is_another_one(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text(yaml.safe_dump({**CONFIG, "clusters": []}))
    played_api.play(monkeypatch, answering(ID))
    with pytest.raises(ConfigError, match=r"\(none\)"):
        examine(named(file, server="https://a"))


@pytest.mark.parametrize(
    ("answer", "error"), [(403, ForbiddenError), (404, UnknownError), (503, UnknownError), ({}, UnknownError)]
)
def test_an_id_that_cannot_be_asked_for_is_refused(
    file: Path, monkeypatch: pytest.MonkeyPatch, answer: object, error: type[Exception]
) -> None:
    played_api.play(monkeypatch, answering(answer))
    with pytest.raises(error, match="fix: "):
        examine(named(file, id=ID))


def test_without_a_kubeconfig_no_id_is_taken_to_be_the_right_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A preview goes on without one, but not where it is to say which cluster that is."""
    played_api.play(monkeypatch, answering(ID))
    examine(named(tmp_path / "missing", server="https://a"))
    with pytest.raises(UnknownError, match="no namespace kube-system"):
        examine(named(tmp_path / "missing", id=ID))


def test_the_command_looks_as_the_program_does(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a stack whose job is wrong, too: it can be taken down."""
    stack_file = tmp_path / "Pulumi.dev.yaml"
    for server in ("https://a", "https://b"):
        section = {"kind": "existing", "kubeconfig": str(file), "server": server}
        stack_file.write_text(yaml.safe_dump({"config": {"trainstack:cluster": section}}))
        wrong = pytest.raises(ConfigError, match=f"trainstack:cluster.server = '{server}'")
        with wrong if server == "https://b" else nullcontext():
            kubeconfig.ensure_named_by(stack_file, print)
