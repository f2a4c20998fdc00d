"""`make clean` on a machine whose engine is the user's: what of ours lies in it goes, what is others' stays."""

from __future__ import annotations

import json
from pathlib import Path

from tests.unit.toolchain.conftest import Machine

# A docker with one registry and one volume of this clone.
DOCKER = """
case "$*" in
"version "*) echo 27.0 ;;
"ps --all --quiet --filter label=trainstack.project=$ROOT") echo registry-1 ;;
"volume ls --quiet --filter label=trainstack.project=$ROOT") echo trainstack-registry-0123 ;;
esac
"""


def test_where_nothing_of_ours_is_left_nothing_is_removed(machine: Machine) -> None:
    machine.program("docker", 'case "$*" in "version "*) echo 27.0 ;; esac')
    done = machine.toolchain("clean")
    assert done.returncode == 0, done.stderr
    assert not [call for call in machine.called("docker") if " rm " in f" {call} "]


def test_the_registry_goes_with_its_volume(machine: Machine) -> None:
    machine.program("docker", DOCKER)
    done = machine.toolchain("clean", ROOT=str(machine.root))
    assert done.returncode == 0, done.stdout + done.stderr
    calls = machine.called("docker")
    assert [call for call in calls if call.startswith("rm ")] == ["rm --force --volumes registry-1"]
    assert [call for call in calls if call.startswith("volume rm")] == ["volume rm trainstack-registry-0123"]


# A docker whose kind clusters are one of this clone, running or stopped, and another clone's.
CLUSTERS = """
case "$*" in
"ps --all --quiet --filter label=io.x-k8s.kind.cluster") echo node-1 node-2 ;;
*" node-1") echo '[{"Source": "'$OURS'"}, {"Source": "/lib/modules"}, {"Type": "tmpfs"}]' ;;
*" node-2") echo '[{"Source": "/another/.trainstack/clusters/theirs.json"}]' ;;
esac
"""


HELD = {"checkpoint": {"latest": {"resources": [{"type": "pulumi:pulumi:Stack", "urn": "urn:gone"}]}}}


def test_make_clean_keeps_a_state_whose_stack_file_is_not_checked_out(machine: Machine) -> None:
    state = machine.root / ".trainstack" / "state" / ".pulumi" / "stacks" / "trainstack" / "gone.json"
    state.parent.mkdir(parents=True)
    state.write_text(json.dumps(HELD))
    machine.program("docker", DOCKER)
    done = machine.toolchain("clean", ROOT=str(machine.root))
    assert done.returncode == 1
    for part in ("stacks that are still up: gone", "make down STACK=gone", "stacks/Pulumi.gone.yaml"):
        assert part in done.stderr
    assert state.exists()
    assert not [call for call in machine.called("docker") if " rm " in f" {call} "]
    state.write_text("{}")
    assert machine.toolchain("clean", ROOT=str(machine.root)).returncode == 0
    assert not state.exists()


def test_make_clean_goes_on_where_go_is_gone(machine: Machine) -> None:
    machine.program("docker", DOCKER)
    record = machine.home / ".cache" / "trainstack" / "go-caches"
    record.parent.mkdir(parents=True)
    record.write_text("GOCACHE\nGOMODCACHE\n")
    done = machine.toolchain("clean", ROOT=str(machine.root), PATH=f"{machine.bin}:/usr/bin:/bin")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "go clean -modcache" in done.stdout + done.stderr
    assert not record.exists()


def test_make_clean_takes_no_registry_from_a_cluster_that_another_backend_tells_of(machine: Machine) -> None:
    machine.program("docker", DOCKER + CLUSTERS)
    marker = machine.python("from toolchain.operating import leftovers; print(leftovers.marker('shared'))")
    given = {"ROOT": str(machine.root), "PULUMI_BACKEND_URL": "file:///srv/states"}
    done = machine.toolchain("clean", **given, OURS=marker.stdout.strip())
    assert done.returncode == 1
    for part in ("cluster shared still exists", "make down STACK=", "PULUMI_BACKEND_URL"):
        assert part in done.stderr
    assert "theirs" not in done.stderr
    assert not [call for call in machine.called("docker") if " rm " in f" {call} "]


def test_make_clean_goes_on_beside_another_clones_cluster(machine: Machine) -> None:
    machine.program("docker", DOCKER + CLUSTERS)
    done = machine.toolchain("clean", ROOT=str(machine.root), OURS="/a/third/clone.json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rm --force --volumes registry-1" in machine.called("docker")


def test_make_clean_forgets_no_cluster_whose_engine_does_not_answer(machine: Machine) -> None:
    """Its engine may be ours, stopped: the cluster would go with that engine's data."""
    machine.program("docker", "exit 1")
    marker = machine.python("from toolchain.operating import leftovers; print(leftovers.marker('shared'))")
    file = Path(marker.stdout.strip())
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    done = machine.toolchain("clean", ROOT=str(machine.root), USED_BY="")
    assert done.returncode == 1
    for part in (
        "begun to create cluster shared",
        "no container engine answers",
        str(file.parent),
    ):
        assert part in done.stderr
    assert file.exists()
