"""`make doctor`: checks whether this machine has what `make up` needs. It changes and builds nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from infra import agreed
from toolchain import PYTHON_NEEDED, failure, stack_files
from toolchain.images import cluster_images
from toolchain.machine import engine, inotify, preflight
from toolchain.machine.processes import is_linux
from toolchain.operating import api_server, environment, setup, state
from toolchain.operating.state import Access
from toolchain.operating.status import MARKS, Health, overall
from toolchain.paths import LOCAL, VENV, cache
from toolchain.steps import SetupError
from toolchain.tools import build, installed, venv

CGROUPS = Path("/sys/fs/cgroup")
CONTROLLERS = ("cpu", "memory", "pids")
PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")
LOOPBACK = ("127.0.0.1", "localhost")
PORT = re.compile(r"^\s*apiServerPort:\s*(\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Check:
    """The result of one check; `fix` is empty if there is nothing to do."""

    what: str
    health: Health
    said: str
    fix: str = ""


Found = tuple[Health, str] | tuple[Health, str, str]


def doctor(stack: str, as_json: bool) -> int:
    """Print a line for each check, or JSON; 0 if all passed, 1 if one failed, 2 if one is unknown."""
    stack_files.check(stack)
    found = [_looked(name, look) for name, look in checks(stack).items()]
    health = overall(found)
    if as_json:
        records = [{**vars(each), "health": MARKS[each.health]} for each in found]
        print(json.dumps({"health": MARKS[health], "checks": records}))
        return health
    for each in found:
        print(f"{each.what:<12} {MARKS[each.health]:<8} {each.said}")
        if each.fix:
            print(f"{'':<21} fix: {each.fix}")
    return health


def _looked(name: str, look: Callable[[], Found]) -> Check:
    """The result of `look`. A SetupError would also end `make up`; any other error means that the answer is unknown."""
    try:
        return Check(name, *look())
    except SetupError as error:
        return Check(name, Health.NOT, error.what, error.fix)
    except Exception as error:
        told = failure.sentence(error)
        return Check(name, Health.UNKNOWN, told.what, told.fix)


def python() -> Found:
    """The Python that runs this. A Python that is too old fails earlier."""
    return Health.HEALTHY, f"{sys.version.split()[0]}, {'.'.join(map(str, PYTHON_NEEDED))} or newer is needed"


def pip() -> Found:
    """Whether the Python packages can be installed. Raises SetupError."""
    venv.check_pip()
    return Health.HEALTHY, "the packages of requirements.lock are here or can be installed"


def tools(nodes: bool = True) -> Found:
    """Pulumi, kind and kubectl: the user's own, already built, or to be built.

    Parameters:
        nodes: whether kind creates the stack's cluster.
    """
    missing = to_build(nodes)
    said = [f"{name} {_origin(each, missing)}" for name, each in installed.choose().items()]
    return Health.HEALTHY, ", ".join(said)


def _origin(tool: installed.Choice, missing: set[str]) -> str:
    if tool.own:
        return str(tool.own)
    if tool.is_available:
        return "built"
    if tool.name in missing:
        return "to be built"
    return "from kind's node image" if tool.name == "kubectl" else "not needed"


def go(nodes: bool = True) -> Found:
    """Go, if a program has to be built. Raises SetupError. `nodes` as for `tools`."""
    if not builds(nodes):
        return Health.HEALTHY, "not needed: nothing has to be built"
    try:
        build.check_go()
    except SetupError as error:
        if to_build(nodes) - {"kubectl"} or engine.find():
            raise
        return Health.UNKNOWN, f"{error.what}; Go is not needed if the engine can pull the images", error.fix
    return Health.HEALTHY, f"{shutil.which('go')}, for programs that have to be built"


def to_build(nodes: bool) -> set[str]:
    """Which of Pulumi, kind and kubectl have to be built."""
    missing = installed.missing(installed.choose(), nodes)
    return missing - ({"kubectl"} if is_linux() and published(True) else set())


def builds(nodes: bool) -> bool:
    """Whether a tool or an image has to be built."""
    return bool(to_build(nodes)) or not (published(nodes) or cluster_images.all_built(nodes))


def published(nodes: bool) -> bool:
    """Whether published images are used. It prints no progress line, because the output may be JSON."""
    return cluster_images.published(engine.find(), nodes, quiet=True)


def disk(nodes: bool = True) -> Found:
    """Free space for builds and the stack. Raises SetupError. `nodes` as for `tools`."""
    grows = preflight.needs(builds=builds(nodes))
    preflight.check_space(grows)
    said = [
        f"{shutil.disk_usage(preflight.existing(folder)).free / preflight.GIB:.0f} GiB free for {folder}, "
        f"which grows by {size / preflight.GIB:.0f} GiB"
        for folder, size in grows
    ]
    return Health.HEALTHY, "; ".join(said)


def files() -> Found:
    """Whether this user may write the files of an earlier set-up. Raises SetupError."""
    preflight.check_access([LOCAL, VENV, cache()])
    return Health.HEALTHY, "this user may write the project's own folders"


def container_engine() -> Found:
    """The engine that answers, or whether one can be installed. Raises SetupError."""
    if found := engine.find():
        return (
            Health.HEALTHY,
            "the engine that `make up` started answers" if found.ours else "your own engine answers",
        )
    engine.may_install()
    return Health.HEALTHY, "no engine answers; `make up` installs and starts Debian's docker.io"


def other_engines() -> Found:
    """Other installed engines. An engine that answers is used."""
    other, found = engine.other(), engine.find()
    if other is None:
        return Health.HEALTHY, "none"
    if found and not found.ours:
        return Health.HEALTHY, f"{other.name}, which is used"
    return (
        Health.NOT,
        f"{other.name} does not answer; `make up` installs no second engine beside it",
        other.fix,
    )


def ports() -> Found:
    """The ports that stack files name: free or in use. A running cluster uses its own port."""
    wanted = {
        file.name: int(found[1])
        for file in sorted(stack_files.STACKS.glob("*.yaml"))
        if (found := PORT.search(file.read_text(errors="replace")))
    }
    if not wanted:
        return Health.HEALTHY, "no stack file names a port; kind takes a free port"
    taken = [f"{port} ({name})" for name, port in wanted.items() if _answers(port)]
    if taken:
        fix = "nothing if the stack's own cluster, which is up, uses the port; otherwise set another `apiServerPort`"
        return Health.UNKNOWN, f"in use: {', '.join(taken)}", fix
    return Health.HEALTHY, f"free: {', '.join(map(str, wanted.values()))}"


def _answers(port: int) -> bool:
    with socket.socket() as tried:
        tried.settimeout(1)
        return tried.connect_ex(("127.0.0.1", port)) == 0


def cgroups() -> Found:
    """The version of control groups, and the controllers that pods' limits need."""
    if not is_linux():
        return Health.HEALTHY, "not checked: the engine's virtual machine has its own control groups"
    unified = CGROUPS / "cgroup.controllers"
    version = 2 if unified.is_file() else 1
    there = unified.read_text().split() if version == 2 else [each.name for each in CGROUPS.iterdir()]
    # Version 1 may have two controllers in one folder: cpu,cpuacct.
    known = {word for name in there for word in name.split(",")}
    if missing := [each for each in CONTROLLERS if each not in known]:
        fix = "boot the machine with these controllers, or give them to this container or virtual machine"
        return Health.NOT, f"version {version} without {', '.join(missing)}", fix
    return Health.HEALTHY, f"version {version} with {', '.join(CONTROLLERS)}"


def watches() -> Found:
    """Whether one more node can watch its files. If not, its kube-proxy ends, and its cluster never becomes ready."""
    if not is_linux():
        return Health.HEALTHY, "not checked: the engine's virtual machine has its own limit"
    limit = inotify.limit()
    if os.geteuid() != 0:
        # The instances of the nodes belong to root, and only root can count them.
        return (
            Health.HEALTHY,
            f"{limit} instances for each user; a node takes about {inotify.OF_A_NODE} of root's instances",
        )
    used = inotify.in_use()
    said = f"{used} of {limit} instances in use; a node takes about {inotify.OF_A_NODE}"
    if used + inotify.OF_A_NODE <= limit:
        return Health.HEALTHY, said
    more = max(512, 2 * limit)
    return Health.NOT, said, f"sudo sysctl -w fs.inotify.max_user_instances={more}, or take a cluster down"


def proxies() -> Found:
    """Whether a proxy variable would send requests to this machine's own cluster through the proxy."""
    if not any(_set(PROXIES)):
        return Health.HEALTHY, "none is set"
    excepted = {word.strip() for value in _set(("NO_PROXY",)) for word in value.split(",")}
    if "*" in excepted or excepted.issuperset(LOOPBACK):
        return Health.HEALTHY, "set, but not for this machine"
    missing = ",".join(each for each in LOOPBACK if each not in excepted)
    said = f"a proxy is set, and NO_PROXY does not name {missing}: requests to a cluster here would go to the proxy"
    return Health.NOT, said, f"export NO_PROXY=$NO_PROXY,{missing}"


def _set(names: tuple[str, ...]) -> Iterator[str]:
    """Values of these variables, named in capitals or small letters. Never print a value: it may hold a password."""
    for name in names:
        if value := os.environ.get(name) or os.environ.get(name.lower()):
            yield value


def cluster(stack: str) -> Found:
    """Whether the cluster of `stack` exists or can be created. Raises SetupError for a wrong stack file."""
    asked = environment.cluster_kind(stack)
    if not asked.is_ours:
        return _existing(stack)
    here = [said for program, said in asked.traits.programs if shutil.which(program)]
    if here or not asked.traits.programs:
        return Health.HEALTHY, here[0] if here else f"made with {asked}"
    return Health.NOT, *asked.traits.without


def _existing(stack: str) -> Found:
    # Without the packages, nothing can read which kubeconfig the stack file names.
    access = environment.access(stack) or Access(str(agreed.usual_kubeconfig()))
    file = access.kubeconfig
    if not Path(file).exists():
        said = f"the stack uses an existing cluster, and its kubeconfig is missing: {file}"
        return Health.NOT, said, f"export KUBECONFIG=FILE, or name the file in stacks/Pulumi.{stack}.yaml"
    kubectl = installed.choose()["kubectl"]
    if not kubectl.is_available:
        return (
            Health.HEALTHY,
            f"its kubeconfig is {file}; it was not asked, because kubectl is not installed yet",
        )
    folder = str(kubectl.program().parent)
    variables = {"PATH": os.pathsep.join([folder, environment.path()])}
    if why := api_server.problem(variables, access):
        fix = f"start that cluster, or name another kubeconfig in stacks/Pulumi.{stack}.yaml; without one there: "
        fix += "export KUBECONFIG=FILE"
        return Health.NOT, f"the cluster of {file} does not answer: {why}", fix
    return Health.HEALTHY, f"answers; its kubeconfig is {file}"


def checks(stack: str) -> dict[str, Callable[[], Found]]:
    """The checks for `stack`, by name."""

    def nodes() -> bool:
        return setup.makes_nodes(stack)

    return {
        "python": python,
        "pip": pip,
        "cluster": lambda: cluster(stack),
        "tools": lambda: tools(nodes()),
        "go": lambda: go(nodes()),
        "disk": lambda: disk(nodes()),
        "files": files,
        "engine": container_engine,
        "others": other_engines,
        "ports": ports,
        "cgroups": cgroups,
        "inotify": watches,
        "proxies": proxies,
    }


def ensure_node_possible(before: state.Deployment, stack: str) -> None:
    """Raises SetupError if the node of a new cluster would have too few inotify instances.

    The node's kube-proxy would crash in a loop, and the operator would never become ready.

    Parameters:
        before: the stack's state.
    """
    if not environment.cluster(stack) or state.objects(before):
        return
    health, said, *fix = watches()
    if health is Health.NOT:
        raise SetupError(f"a new node could not watch its files: inotify: {said}", *fix)
