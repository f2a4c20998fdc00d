"""A machine that has Docker, Pulumi, kind and kubectl: they are used, and nothing is built."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from infra.cluster_kinds import ClusterKind
from tests.unit.toolchain.conftest import Machine

PREPARE = "from toolchain.operating import setup; print(setup.prepare())"

# The node image is not here and can be pulled. A container of it is called `made`, and has a kubectl.
DOCKER = """
case "$1 $2" in
"image inspect") exit 1 ;;
"create "*) echo made ;;
"cp made:/usr/bin/kubectl") echo pulled > "$3/kubectl" ;;
esac
"""
UNREACHABLE = 'case "$1" in image|manifest) exit 1 ;; esac'

# Makes the environment that it is asked for; instead of installing packages it takes those that this test has.
UV = f"""
case "$1" in
venv) for last; do :; done
  mkdir -p "$last/bin"
  printf '#!/bin/sh\\nexec "{sys.executable}" "$@"\\n' > "$last/bin/python"
  chmod +x "$last/bin/python" ;;
esac
"""


@pytest.fixture
def connected(machine: Machine) -> Machine:
    """Every tool is there in a good version, the engine answers, and the node image can be pulled."""
    machine.program("docker", DOCKER)
    plugin = 'mkdir -p "$HOME/.pulumi/plugins/resource-kubernetes-v$5"'
    machine.program("pulumi", f'case "$1" in version) echo v3.246.0;; plugin) {plugin};; esac')
    machine.program("pulumi-language-python", "exit 1")
    machine.program("kind", "echo 0.33.0")
    machine.program("kubectl", """echo '{"clientVersion": {"gitVersion": "v1.34.2"}}'""")
    machine.program("uv", UV)
    machine.program("go", "exit 1")
    machine.program("mmdebstrap", "exit 1")
    machine.program("apt-get", "exit 1")
    return machine


OWN = "trainstack"  # our own command line


def links(machine: Machine) -> set[str]:
    """The names of ours that a shell gets before the user's own on PATH."""
    done = machine.python("from toolchain.operating import environment; print(environment.path())")
    folders = map(Path, done.stdout.strip().split(os.pathsep))
    ours = {each for each in folders if each.parent == machine.root / ".trainstack" / "bin"}
    assert all((each / each.name).exists() for each in ours)
    return {each.name for each in ours}


def test_nothing_is_built_or_installed_and_the_second_run_makes_nothing_anew(connected: Machine) -> None:
    done = connected.python(PREPARE)
    assert done.returncode == 0, done.stderr
    assert links(connected) == {OWN}, "none shadows a tool of the user's"
    installs = [call for call in connected.called("pulumi") if call.startswith("plugin install")]
    assert len(installs) == 1, "Pulumi's own plugin, before a stand-in"
    assert installs[0].startswith("plugin install resource kubernetes 4.")
    environments = connected.called("uv")
    assert connected.python(PREPARE).returncode == 0
    assert connected.called("uv") == environments
    for builder in ("go", "mmdebstrap", "apt-get"):
        assert connected.called(builder) == []
    assert not [call for call in connected.called("docker") if call.startswith(("build", "import", "commit"))]
    tools = connected.home / ".cache" / "trainstack" / "tools"
    assert not tools.exists()


@pytest.mark.parametrize("kind", ClusterKind)
@pytest.mark.parametrize("again", [False, True], ids=["first", "again"])
def test_kind_is_built_for_clusters_that_it_makes_alone(
    kind: ClusterKind, again: bool, connected: Machine
) -> None:
    (connected.root / "stacks" / "Pulumi.own.yaml").write_text(
        f"config:\n  trainstack:cluster: {{kind: {kind}}}\n"
    )
    code = "from toolchain.operating import setup; setup.preflight.check_space = lambda needs: None\n"
    code += "setup.prepare('own')"
    if again:
        assert connected.python(code).returncode == 0
    connected.program("kind", "echo too old")
    connected.program("go", 'case "$1" in env|version) echo go1.99.0 ;; *) exit 1 ;; esac')
    done = connected.python(code)
    wants_kind = kind is ClusterKind.KIND
    assert (done.returncode != 0, bool(connected.called("go"))) == (wants_kind, wants_kind), done.stderr
    built = [call for call in connected.called("go") if not call.startswith(("env", "version"))]
    assert bool(built) is wants_kind


def test_the_environment_leaves_engine_and_pulumi_home_as_they_are(connected: Machine) -> None:
    connected.python(PREPARE)
    done = connected.toolchain("env")
    assert done.returncode == 0, done.stderr
    exported = {line.split()[1].partition("=")[0] for line in done.stdout.splitlines()}
    assert "DOCKER_HOST" not in exported
    assert "PULUMI_HOME" not in exported
    assert "TRAINSTACK_CPU_BASE" not in exported
    assert {"PATH", "PULUMI_BACKEND_URL", "PULUMI_CONFIG_PASSPHRASE_FILE", "KUBECONFIG"} <= exported


def test_a_wrong_stack_file_is_reported_instead_of_a_guessed_kubeconfig(connected: Machine) -> None:
    connected.python(PREPARE)
    (connected.root / "stacks" / "Pulumi.dev.yaml").write_text(
        "config:\n  trainstack:cluster: {kind: knid}\n"
    )
    done = connected.toolchain("env")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "trainstack:cluster.kind = 'knid'" in done.stderr


def test_a_stand_in_takes_the_place_of_a_plugin_that_cannot_be_had(connected: Machine) -> None:
    connected.program("pulumi", 'case "$1" in version) echo v3.246.0;; plugin) exit 255;; esac')
    for _ in range(2):
        assert connected.python(PREPARE).returncode == 0
    assert links(connected) == {OWN, "pulumi-resource-kubernetes"}
    assert len([call for call in connected.called("pulumi") if "install" in call]) == 1, (
        "not asked again at once"
    )


def test_one_failed_look_is_not_remembered_for_a_day(connected: Machine) -> None:
    connected.program("pulumi", 'case "$1" in version) echo v3.246.0;; plugin) exit 255;; esac')
    note = connected.home / ".cache" / "trainstack" / "refused"
    asked = []
    for hours_ago in ([], [1], [13, 12], [26, 25]):
        for file in note.glob("*"):
            file.write_text("".join(f"{time.time() - hours * 3600}\n" for hours in hours_ago))
        before = len(connected.called("pulumi"))
        assert connected.python(PREPARE).returncode == 0
        asked.append(any("install" in call for call in connected.called("pulumi")[before:]))
    assert asked == [True, True, False, True]


def test_one_missing_tool_is_the_only_one_built(connected: Machine) -> None:
    (connected.bin / "kind").unlink()
    connected.program(
        "go",
        'case "$1" in env) echo go1.26.0;; build) while [ "$1" != -o ]; do shift; done; '
        'mkdir -p "$2"; echo kind > "$2/kind";; esac',
    )
    done = connected.python(PREPARE)
    assert done.returncode == 0, done.stderr
    assert links(connected) == {OWN, "kind"}
    built = Path(connected.home / ".cache" / "trainstack" / "tools")
    assert [folder.name.split("-")[0] for folder in built.iterdir() if folder.is_dir()] == ["kind"]


def test_a_missing_tool_and_no_go_end_before_any_work(connected: Machine) -> None:
    (connected.bin / "kind").unlink()
    connected.program("go", "echo go1.19.8")
    done = connected.toolchain("up")
    assert done.returncode == 1
    assert "Go 1.19.8 is too old" in done.stderr
    assert "1.25" in done.stderr
    assert connected.called("uv") == []


def test_a_missing_kubectl_is_that_of_the_node_image(connected: Machine) -> None:
    connected.program("kubectl", "exit 1")
    for _ in range(2):
        done = connected.python(PREPARE)
        assert done.returncode == 0, done.stderr
    assert connected.called("go") == []
    link = connected.root / ".trainstack" / "bin" / "kubectl" / "kubectl"
    assert link.read_text() == "pulled\n"
    assert len([call for call in connected.called("docker") if call.startswith("create")]) == 1
    assert [call for call in connected.called("docker") if call.startswith("rm")] == [
        "rm --force --volumes made"
    ]


def test_a_registry_is_asked_once_in_a_command_and_again_by_the_next(connected: Machine) -> None:
    connected.program("docker", UNREACHABLE)
    for count in (1, 2):
        assert connected.python(PREPARE).returncode == 1, "nothing can be built here"
        asked = [call for call in connected.called("docker") if call.startswith("manifest")]
        assert len(asked) == count


def test_no_registry_is_asked_for_what_has_been_built(connected: Machine) -> None:
    code = "from toolchain.images import cluster_images as images; from toolchain.machine import engine; "
    code += "images.all_built = lambda nodes: True; print(images.published(engine.find()))"
    done = connected.python(code)
    assert done.stdout == "False\n", done.stderr
    assert not [call for call in connected.called("docker") if call.startswith("manifest")]


def test_previews_ask_for_no_go_where_only_kind_is_missing(connected: Machine) -> None:
    (connected.bin / "kind").unlink()
    done = connected.python("from toolchain.operating import setup; setup.prepare_pulumi()")
    assert done.returncode == 0, done.stderr
    assert connected.called("go") == []


def test_the_index_is_asked_only_for_what_the_cache_lacks(connected: Machine) -> None:
    note = f'echo "$1 $2 offline=$UV_OFFLINE" >> "{connected.home}/asked"; '
    connected.program("uv", f'{note}case "$2 $UV_OFFLINE" in "sync 1") exit 1 ;; esac; {UV}')
    done = connected.python(PREPARE)
    assert done.returncode == 0, done.stderr
    asked = (connected.home / "asked").read_text().splitlines()
    assert [each for each in asked if "sync" in each] == ["pip sync offline=1", "pip sync offline="]
    assert "pip install offline=" not in asked
