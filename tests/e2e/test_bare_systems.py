"""Debian with README's prerequisites and nothing else: two commands do all of it, or one before the network is cut."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from tests.e2e import docker_user, machines, public_registries
from tests.e2e.machines import Go, ProjectInside
from tests.e2e.project import Project
from tests.runbooks.readme import first_change
from toolchain.machine.engine import Engine

FLOOR = 0.9
REGISTRY_PORT = 5000
"""Of the repository in stacks/Pulumi.existing.yaml."""
BARE = pytest.mark.slow(reason="a root file system, and an engine in it for which every image is made anew")


@BARE
def test_debian_12_comes_up_without_a_network_after_make_fetch(engine: Engine) -> None:
    with machines.standing("bookworm", "/root/trainstack") as project:
        assert project.machine.reaches_others(), "or the test shows nothing"
        fetched = project.make("fetch")
        assert fetched.returncode == 0, fetched.stdout
        assert not (project.root / ".trainstack" / "kubeconfig").exists(), "no cluster is made"
        project.machine.cut_network()
        assert not project.machine.reaches_others()
        first = project.up()
        assert float(first["accuracy"]) >= FLOOR, first
        assert " unchanged" in project.up()["output"]
        down = project.make("down")
        assert down.returncode == 0, down.stdout
        assert project.up()["accuracy"] == first["accuracy"], "the finished run is taken"


@BARE
def test_debian_13_comes_up_in_a_folder_with_a_space_and_is_as_it_was_after_make_clean(
    engine: Engine,
) -> None:
    with machines.standing("trixie", "/srv/a user/trainstack") as project:
        before = project.machine.packages()
        first = project.up()
        assert float(first["accuracy"]) >= FLOOR, first
        assert project.machine.packages() > before
        for command in ("down", "clean"):
            done = project.make(command)
            assert done.returncode == 0, done.stdout
        assert project.machine.packages() == before
        assert (project.models / "mnist_cnn.pt").exists()


@BARE
def test_debian_12_trains_on_a_cluster_that_is_there(
    project: Project, up: dict[str, str], engine: Engine, request: pytest.FixtureRequest
) -> None:
    """The cluster and its operator are somebody else's, and so is the registry that both reach."""
    go = Go.EMPTY_CACHES if request.config.getoption("--empty-go-caches") else Go.WITH_CACHES
    with (
        registry(project, engine) as address,
        machines.standing("bookworm", "/root/trainstack", go=go) as machine,
    ):
        machine.machine.forward(REGISTRY_PORT, address)
        write_kubeconfig(project, engine, machine.root.parent / ".kube" / "config")
        machine.stack = "existing"
        machine.configure({"trainstack:job": {"name": "there"}})
        operator = project.get("deployment", "training-operator")["metadata"]["uid"]
        began = time.monotonic()
        first = machine.up()
        print(first["output"], f"make up: {time.monotonic() - began:.0f} s")
        assert float(first["accuracy"]) >= FLOOR, first
        assert (machine.models / "mnist_cnn.pt").exists(), "brought here"
        status = machine.make("status")
        assert status.returncode == 0, status.stdout
        assert " unchanged" in machine.up()["output"]
        built = {each.name for each in machine.root.parent.glob(".cache/trainstack/tools/*/bin/*")}
        assert not built & {"kind", "registry", "kubernetes", "etcd", "coredns"}, built
        assert '"--epochs=12" => "--epochs=24"' in type_first_change(machine)
        assert " replaced" in machine.up()["output"], "trained as the change says"
        down = machine.make("down")
        assert down.returncode == 0, down.stdout
        assert project.get("deployment", "training-operator")["metadata"]["uid"] == operator


@BARE
def test_a_user_with_docker_pulumi_and_kind_compiles_nothing(engine: Engine) -> None:
    """Without Go, kubectl and root, in a home with a space in its name. `docker_user` says what stands in for what."""
    with docker_user.standing(engine) as user:
        packages = user.machine.packages()
        for name in ("go", "kubectl", "mmdebstrap"):
            assert not user.machine.has(name), f"{name} is there, and the test shows nothing"
        began = time.monotonic()
        first = user.up()
        print(first["output"], f"make up: {time.monotonic() - began:.0f} s")
        assert float(first["accuracy"]) >= FLOOR, first
        tools = {each.name.rpartition("-")[0] for each in user.root.parent.glob(".cache/trainstack/tools/*")}
        assert tools == {"kubectl", "uv"}, "nothing is compiled"
        path = [Path(each) for each in user.environment()["PATH"].split(":")]
        ours = {each.name for each in path if each.parts[-3:-1] == (".trainstack", "bin")}
        assert ours == {"trainstack", "kubectl", "uv"}, "all else is the user's own"
        assert "DOCKER_HOST" not in user.environment()
        assert not (user.machine.root / "var/lib/trainstack").exists(), "no engine of ours"
        assert user.machine.packages() == packages
        assert pulled_by_node(user) >= set(public_registries.pulled_by_nodes())
        assert " unchanged" in user.up()["output"]
        type_first_change(user)
        assert " replaced" in user.up()["output"], "trained as the change says"
        down = user.make("down")
        assert down.returncode == 0, down.stdout
        assert (user.models / "mnist_cnn.pt").exists()


def type_first_change(project: ProjectInside) -> str:
    """README's five commands, by a user whom git knows, where what `make review` writes is committed.

    Returns what they print. README shows that of `dev`; for another stack each command has only to succeed.
    """
    for name, value in (("user.name", "test"), ("user.email", "test@localhost")):
        project.run("git", "config", "--global", name, value)
    assert project.make("review").returncode == 0
    project.run("git", "commit", "--all", "--allow-empty", "--quiet", "--message", "the review of this clone")
    printed = ""
    for command in first_change():
        text = command.text if project.stack == "dev" else for_stack(project.stack, command.text)
        done = project.run("bash", "-c", f"({text}) 2>&1", check=False)
        is_as_shown = command.accepts(done.returncode, done.stdout)
        assert is_as_shown if project.stack == "dev" else done.returncode == 0, f"$ {text}\n{done.stdout}"
        printed += done.stdout
    return printed


def for_stack(stack: str, command: str) -> str:
    """README's command as it says that one types it for a stack whose job names its data set."""
    for place in ("Pulumi.{}.yaml", "STACK={}", "--stack {}"):
        command = command.replace(place.format("dev"), place.format(stack))
    return command.replace("digitsEpochs", "epochs")


def pulled_by_node(project: ProjectInside) -> set[str]:
    """The images of its cluster's node by the names that they were pulled by."""
    listed = ("ctr", "--namespace", "k8s.io", "images", "list", "--quiet")
    return set(project.run("docker", "exec", f"{project.cluster}-control-plane", *listed).stdout.split())


@contextmanager
def registry(project: Project, engine: Engine) -> Iterator[str]:
    """host:port of a registry without a password; the nodes pull from it what is called localhost:REGISTRY_PORT."""
    name = f"e2e-{uuid.uuid4().hex[:6]}-registry"
    own = engine.output("inspect", "--format={{.Config.Image}}", f"{project.cluster}-registry").strip()
    node = f"{project.cluster}-control-plane"
    folder = f"/etc/containerd/certs.d/localhost:{REGISTRY_PORT}"
    engine.output(
        "run", "--detach", "--network=kind", f"--name={name}", "--env=OTEL_TRACES_EXPORTER=none", own
    )
    try:
        address = f"{ip_address(engine, name)}:{REGISTRY_PORT}"
        hosts = f'[host."http://{address}"]\n  capabilities = ["pull", "resolve"]\n'
        script = f"mkdir --parents {folder} && printf '%s' '{hosts}' > {folder}/hosts.toml"
        engine.output("exec", node, "sh", "-c", script)
        yield address
    finally:
        engine.output("exec", node, "rm", "--recursive", "--force", folder)
        engine.output("rm", "--force", "--volumes", name)


def ip_address(engine: Engine, container: str) -> str:
    return engine.output(
        "inspect", "--format={{.NetworkSettings.Networks.kind.IPAddress}}", container
    ).strip()


def write_kubeconfig(project: Project, engine: Engine, file: Path) -> None:
    """The cluster's, as it is reached from another machine."""
    config = yaml.safe_load((project.root / ".trainstack/kubeconfig" / f"{project.cluster}.yaml").read_text())
    node = ip_address(engine, f"{project.cluster}-control-plane")
    config["clusters"][0]["cluster"]["server"] = f"https://{node}:6443"
    file.parent.mkdir(mode=0o700)
    file.write_text(yaml.safe_dump(config))
    file.chmod(0o600)
