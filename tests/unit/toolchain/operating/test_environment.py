"""The variables that set-up hands on."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Collection
from pathlib import Path

import pytest

from infra import agreed, operators, paths
from infra.cluster_kinds import ClusterKind
from infra.config import shell_variables
from infra.config.load import from_file
from infra.config.operator import OperatorApi
from toolchain import stack_files
from toolchain.images import cluster_images
from toolchain.operating import environment
from toolchain.operating.state import Access
from toolchain.paths import COMMAND, LOCAL, ROOT, STANDINS, cache
from toolchain.tools import build, installed, venv

HOST = ("pulumi-language-python", "pulumi-resource-pulumi-python")


def test_exports_survive_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "of the user's shell")
    value = """a 'quoted' "value" $HOME `id` \\"""
    script = f'{environment.exports({"X": value})}\nprintf %s "$X"; printf %s "${{PULUMI_CONFIG_PASSPHRASE-unset}}"'
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == f"{value}unset"


@pytest.mark.parametrize(("name", "ours"), (environment.PARALLEL | agreed.KUBECTL).items())
def test_pulumi_and_kubectl_do_as_we_need_unless_the_user_knows_better(
    name: str, ours: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(name, raising=False)
    assert environment.local({})[name] == ours
    monkeypatch.setenv(name, "3")
    assert environment.local({})[name] == "3"
    assert int(environment.PARALLEL["PULUMI_PARALLEL"]) >= 100, "more than Pulumi does by itself"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("config:\n  trainstack:cluster: {name: mine}\n", "mine"),
        ("config:\n  trainstack:cluster: {kind: existing}\n", None),
    ],
)
def test_the_cluster_of_a_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, name: str | None
) -> None:
    """How a stack file may be written is told by tests/unit/infra/config/test_cluster_access.py."""
    monkeypatch.setattr(stack_files, "STACKS", tmp_path)
    monkeypatch.setattr(venv, "is_complete", lambda: True)
    (tmp_path / "Pulumi.dev.yaml").write_text(text)
    assert environment.cluster("dev") == name
    assert ("KUBECONFIG" in environment.for_stack({}, "dev")) is (name is not None)


@pytest.mark.parametrize("kind", ClusterKind)
def test_a_node_image_is_for_nodes_of_ours(
    bare: Path, monkeypatch: pytest.MonkeyPatch, kind: ClusterKind
) -> None:
    monkeypatch.setattr(venv, "is_complete", lambda: True)
    (bare / "Pulumi.dev.yaml").write_text(f"config:\n  trainstack:cluster: {{kind: {kind}}}\n")
    assert (agreed.NODE_IMAGE in environment.missing({}, "dev")) is kind.has_our_nodes


@pytest.mark.parametrize("named", ["", ", kubeconfig: /etc/there.yaml", ", context: prod", "all"])
def test_how_a_cluster_that_is_there_is_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.setattr(stack_files, "STACKS", tmp_path)
    monkeypatch.setattr(venv, "is_complete", lambda: True)
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/missing:{tmp_path}")
    named = ", kubeconfig: /etc/there.yaml, context: prod" if named == "all" else named
    (tmp_path / "Pulumi.dev.yaml").write_text(f"config:\n  trainstack:cluster: {{kind: existing{named}}}\n")
    file = "/etc/there.yaml" if "there" in named else str(tmp_path)
    assert environment.access("dev") == Access(file, "prod" if "prod" in named else None)


def test_before_the_models_are_installed_no_cluster_is_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(venv, "is_complete", lambda: False)
    assert environment.cluster("dev") is None
    assert environment.access("dev") is None
    assert "KUBECONFIG" not in environment.for_stack({}, "dev")


COMMITTED = sorted(each.suffixes[0].lstrip(".") for each in (ROOT / "stacks").glob("Pulumi.*.yaml"))
TEXTS = {
    "config:\n  trainstack:job:\n    epochs: 1\n": ClusterKind.KIND,
    "config:\n  trainstack:cluster:\n    workers: 1\n  trainstack:storage:\n    kind: nfs\n": ClusterKind.KIND,
    "config:\n  trainstack:storage:\n    kind: nfs\n": ClusterKind.KIND,
    "config:\n  trainstack:cluster: {kind: existing}\n": ClusterKind.EXISTING,
    "config:\n  trainstack:cluster: {name: a, kind: existing}\n": ClusterKind.EXISTING,
    "config:\n  trainstack:cluster:\n    kind: microk8s\n": ClusterKind.MICROK8S,
    "config:\n  trainstack:cluster:\n    # ours\n    name: a\n\n    kind: existing # theirs\n": ClusterKind.EXISTING,
}


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of stack files; the packages that read them are not there yet."""
    monkeypatch.setattr(stack_files, "STACKS", tmp_path)
    monkeypatch.setattr(venv, "is_complete", lambda: False)
    return tmp_path


@pytest.mark.parametrize(("text", "kind"), TEXTS.items())
def test_the_kind_is_read_without_a_parser(bare: Path, text: str, kind: ClusterKind) -> None:
    (bare / "Pulumi.own.yaml").write_text(text)
    assert environment.cluster_kind("own") == kind


BASES = {
    "  trainstack:cluster: {workers: 1}\n": ClusterKind.EXISTING,
    "  trainstack:cluster: {kind: microk8s}\n": ClusterKind.MICROK8S,
    "  trainstack:job: {name: mnist}\n": ClusterKind.EXISTING,
}


@pytest.mark.parametrize(("lines", "kind"), BASES.items())
def test_what_the_stack_does_not_say_its_base_says(bare: Path, lines: str, kind: ClusterKind) -> None:
    (bare / "Pulumi.own.yaml").write_text(f"config:\n  trainstack:extends: base\n{lines}")
    assert environment.cluster_kind("own") == (kind if kind is ClusterKind.MICROK8S else ClusterKind.KIND)
    (bare / "base.yaml").write_text("config:\n  trainstack:cluster:\n    kind: existing\n")
    assert environment.cluster_kind("own") == kind


@pytest.mark.parametrize("stack", COMMITTED)
def test_it_reads_every_committed_stack_as_the_models_do(stack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(venv, "is_complete", lambda: False)
    assert environment.cluster_kind(stack) == from_file(paths.stack_file(stack)).cluster.kind


def test_links_of_another_shell_stay_and_those_of_an_earlier_release_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "LINKS", tmp_path / "bin")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "pulumi").symlink_to("/bin/sh")
    environment.link([("kind", Path("/bin/true")), ("pulumi", Path("/bin/true"))])
    environment.link([("kind", Path("/bin/false"))])
    found = {link.name: os.readlink(link / link.name) for link in (tmp_path / "bin").iterdir()}
    ours = {"trainstack": str(COMMAND), **{each.name: str(each) for each in STANDINS.iterdir()}}
    assert found == {"kind": "/bin/false", "pulumi": "/bin/true", **ours}


class Shells:
    """A clone that has been set up, and shells whose PATH has some of Pulumi's own programs, or all."""

    OWN = ("pulumi", "kind", "kubectl", "uv", *sorted(each.name for each in STANDINS.iterdir()))
    VERSIONS = """#!/bin/sh
[ "$1" = version ] || exit 1
[ "$2" != --client ] || echo '"gitVersion": "v1.34.4"'
echo v3.246.0
"""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.patch = folder, patch
        for name, path in (
            ("LINKS", ".trainstack/bin"),
            ("FILE", "env.json"),
            ("VENV", "venv"),
            ("LOCAL", ""),
        ):
            patch.setattr(environment, name, folder / path)
        patch.setattr(environment, "find", installed.find)
        patch.setattr(installed, "cache", lambda: folder / "cache")
        patch.setenv("HOME", str(folder))
        patch.delenv("PULUMI_HOME", raising=False)
        (folder / "venv" / "bin").mkdir(parents=True)
        for name in self.OWN:
            for place in (folder / "own" / name, folder / "built" / name):
                place.mkdir(parents=True, exist_ok=True)
                (place / name).write_text(self.VERSIONS)
                (place / name).chmod(0o755)
        self.open(())
        environment.link([(name, folder / "built" / name / name) for name in self.OWN[:4]])
        environment.save({})

    def open(self, own: Collection[str]) -> None:
        """Go on in a shell that has the user's own programs of these names."""
        folders = [str(self.folder / "own" / name) for name in own]
        self.patch.setenv("PATH", os.pathsep.join([*folders, "/nowhere"]))

    def finds(self, name: str) -> Path:
        """What the shell of `make env` runs."""
        found = shutil.which(name, path=environment.for_stack(environment.load() or {}, "dev")["PATH"])
        assert found, f"no {name}: {environment.path()}"
        return Path(found)


@pytest.fixture
def shells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shells:
    return Shells(tmp_path, monkeypatch)


@pytest.mark.parametrize("name", Shells.OWN)
@pytest.mark.parametrize("others", [(), Shells.OWN], ids=["alone", "beside all others"])
def test_a_shell_runs_its_own_program_and_one_without_it_ours(
    shells: Shells, name: str, others: tuple[str, ...]
) -> None:
    """Whichever of them was there when the last set-up ran: each makes its links, and none takes any away."""
    program = HOST if name in HOST else (name,)  # Pulumi ships both together
    with_it, without = {*others, *program}, {*others} - {*program}
    for has in (True, False, True):
        shells.open(with_it if has else without)
        environment.link([])
        for own in (without, with_it):
            shells.open(own)
            assert environment.load() is not None
            found = shells.finds(name)
            # Without its language host a pulumi of the user's will not do.
            takes_own = name in own and (name != "pulumi" or HOST[0] in own)
            assert found.is_relative_to(shells.folder / "own") is takes_own, found


@pytest.mark.parametrize("last", [(), Shells.OWN], ids=["without", "with"])
def test_each_pulumi_and_each_uv_has_its_own_folder(shells: Shells, last: tuple[str, ...]) -> None:
    """Whichever the shell of the last set-up had."""
    environment.save({"PULUMI_HOME": "/set/up", "UV_CACHE_DIR": "/set/up"} if last else {})
    for own in ((), Shells.OWN):
        shells.open(own)
        assert environment.load() == (
            {} if own else {"PULUMI_HOME": str(cache() / "pulumi"), "UV_CACHE_DIR": str(cache() / "uv")}
        )


OF_STACKS: dict[str, tuple[str, set[str]]] = {
    "v1": ("{}", set()),
    "v2": ("{api: v2}", {variable for variable, _ in operators.CONTROLLERS[OperatorApi.V2].images.values()}),
    "kueue": ("{queue: kueue}", {variable for variable, _ in operators.QUEUES.images.values()}),
}
OF_STACKS["both"] = ("{api: v2, queue: kueue}", OF_STACKS["v2"][1] | OF_STACKS["kueue"][1])
"""Name -> section `operator`, and the variables that the program reads for it, beside those of every stack."""
BUILT = {agreed.CPU_BASE: "trainstack/base:1"}
NODES = {
    "built": {**BUILT, agreed.NODE_IMAGE: "trainstack/node:1"},
    "pulled": {agreed.NODE_IMAGE: cluster_images.PUBLISHED_NODE},
}
"""What a set-up finds that builds images, or pulls them."""


@pytest.fixture
def stacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shells: Shells) -> None:
    """A stack for each of OF_STACKS, on a machine that has built all operators."""
    monkeypatch.setattr(stack_files, "STACKS", tmp_path)
    monkeypatch.setattr(venv, "is_complete", lambda: True)
    for name, (operator, _) in OF_STACKS.items():
        (tmp_path / f"Pulumi.{name}.yaml").write_text(f"config:\n  trainstack:operator: {operator}\n")
    programs = cluster_images.programs_of(cluster_images.ALL).values()
    for name in {word for pair in programs for word in pair}:
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(build, "built", lambda module, *binaries: tmp_path)


@pytest.mark.parametrize("stack", OF_STACKS)
@pytest.mark.parametrize("images", NODES)
def test_a_shell_for_a_stack_has_its_variables_whichever_stack_was_set_up_last(
    stacks: None, stack: str, images: str
) -> None:
    """A set-up for a stack without nodes or operators of its own leaves nothing of them behind."""
    environment.save(NODES[images])
    variables = environment.for_stack(environment.load() or {}, stack)
    assert environment.missing(variables, stack) == []
    operators = set().union(*(names for _, names in OF_STACKS.values()))
    assert operators & variables.keys() == (OF_STACKS[stack][1] if images == "built" else set())


@pytest.mark.parametrize("stack", OF_STACKS)
def test_all_images_that_a_shell_gets_are_in_the_record(stacks: None, stack: str) -> None:
    """The program tells by it what set-up has set; an operator of an earlier release is in no later shell."""
    environment.save({**NODES["built"], "TRAINSTACK_TRAINER_IMAGE": "of an earlier release"})
    variables = environment.for_stack(environment.load() or {}, stack)
    recorded = json.loads(environment.FILE.read_text())
    images = {name: value for name, value in variables.items() if name in shell_variables.IMAGES}
    assert len(images) == 2 + len(OF_STACKS[stack][1])
    assert {name: recorded[name] for name in images} == images
    assert environment.FILE.name == shell_variables.RECORD.name
    assert shell_variables.RECORD.parent == LOCAL


@pytest.mark.parametrize("stack", OF_STACKS)
def test_what_a_shell_for_a_stack_lacks_is_named(
    stacks: None, stack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "built", lambda module, *binaries: None)
    environment.save(BUILT)
    variables = environment.for_stack(environment.load() or {}, stack)
    assert {*environment.missing(variables, stack)} == {agreed.NODE_IMAGE, *OF_STACKS[stack][1]}


def test_a_set_up_whose_tools_are_gone_counts_as_missing(shells: Shells) -> None:
    assert environment.load() is not None
    (shells.folder / "built" / "kind" / "kind").unlink()
    assert environment.load() is None
