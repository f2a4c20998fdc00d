"""The environment variables that set-up gives to Pulumi, the program, the tests and the user's shell."""

from __future__ import annotations

import json
import os
import re
import shlex
import tempfile
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from infra import agreed
from infra.atomic_file import write_whole
from infra.cluster_kinds import USUAL, ClusterKind, kind_of
from toolchain import git, stack_files
from toolchain.images import cluster_images
from toolchain.operating import user_backend
from toolchain.operating.state import Access
from toolchain.paths import COMMAND, LINKS, LOCAL, VENV
from toolchain.steps import SetupError
from toolchain.tools import plugins, venv
from toolchain.tools.installed import RULES, find, user_path, which

if TYPE_CHECKING:
    from infra.config.cluster_access import ClusterAccess

FILE = LOCAL / "env.json"
# `kind` of section cluster, in both styles of YAML. `kind` of a later section does not match.
_KIND = re.compile(
    r"^ *trainstack:cluster:(?: *\{[^}\n]*?| *\n(?:[ \t]+(?!trainstack:)\S.*\n|[ \t]*\n)*?[ \t]+)kind: *(\w+)",
    re.MULTILINE,
)
_EXTENDS = re.compile(r"^ *trainstack:extends: *([\w-]+)", re.MULTILINE)
PARALLEL = {"PULUMI_PARALLEL": "128"}
"""How many objects Pulumi works on at once, also runs that it waits for. Its default is four for each processor."""


def local(found: Mapping[str, str]) -> dict[str, str]:
    """All variables except PATH and KUBECONFIG: what set-up `found`, and where the stacks' state is."""
    given = {name: os.environ.get(name) or value for name, value in (PARALLEL | agreed.KUBECTL).items()}
    return {**user_backend.variables(), "PULUMI_SKIP_UPDATE_CHECK": "true", **given, **found}


def save(found: Mapping[str, str]) -> None:
    """Save for `make env` what set-up found on this machine.

    The Pulumi program also reads the names of images from this file (infra/config/shell_variables.py). The file has the
    images of all operators on this machine, for every stack.
    """
    LOCAL.mkdir(exist_ok=True)
    operators = cluster_images.known(found, cluster_images.ALL)
    write_whole(FILE, json.dumps({**found, **operators}, indent=2))


def load() -> dict[str, str] | None:
    """What the last set-up found on this machine; None if there was none, or if a program of ours is missing.

    Values that depend on the user's own programs are computed again: the last set-up may have had another PATH.
    """
    try:
        found = json.loads(FILE.read_text())
    except (OSError, ValueError):
        return None
    # kind is only built for a stack that creates its cluster with it.
    wanted = [name for name in _programs() if name != "kind" or (LINKS / name).is_dir()]
    if not (all((LINKS / name / name).exists() for name in wanted) and (VENV / "bin").is_dir()):
        return None
    again = {"PULUMI_HOME", "UV_CACHE_DIR", *cluster_images.programs_of(cluster_images.ALL)}
    kept = {name: value for name, value in found.items() if name not in again}
    return {**kept, **plugins.own_environment(find("pulumi")), **venv.uv_cache(venv.uv())}


def path() -> str:
    """PATH: the programs of ours that this shell needs, the virtual environment, then the user's own folders."""
    return os.pathsep.join([*(str(LINKS / name) for name in _programs()), str(VENV / "bin"), user_path()])


def _programs() -> list[str]:
    """Names of our programs that this shell needs: our command, and programs that the user's PATH lacks."""
    own = {name: find(name) for name in RULES}
    lacking = plugins.lacking(
        own["pulumi"] or LINKS / "pulumi" / "pulumi", plugins.own_environment(own["pulumi"])
    )
    tools = [name for name, program in own.items() if program is None]
    return [COMMAND.name, *tools, *([] if which("uv") else ["uv"]), *lacking]


def for_stack(found: Mapping[str, str], stack: str) -> dict[str, str]:
    """The variables for work on `stack`, PATH and KUBECONFIG included. Raises SetupError for a wrong stack file.

    Parameters:
        found: what set-up found, for any stack.
    """
    told = cluster_access(stack)
    operators = cluster_images.known(found, told.controllers if told else ())
    variables = {"PATH": path(), **local({**found, **operators})}
    if told and told.kubeconfig:
        variables["KUBECONFIG"] = told.kubeconfig
    return variables


def missing(variables: Mapping[str, str], stack: str) -> list[str]:
    """Names of variables that `stack` needs and that have no value on this machine.

    Raises SetupError as `for_stack` does.
    """
    told = cluster_access(stack)
    nodes = [agreed.NODE_IMAGE] if told and told.kind.has_our_nodes else []
    controllers = cluster_images.names_of(variables, told.controllers if told else ())
    return [name for name in [*nodes, *controllers] if name not in variables]


def tools() -> dict[str, str]:
    """Variables of the last set-up; if there was no set-up, a PATH with the tools that are here."""
    return {"PATH": path(), **(load() or {})}


def for_child(variables: Mapping[str, str]) -> dict[str, str]:
    """This process's environment for a child, with `variables` added.

    The variable with which Pulumi drops objects of an unreachable cluster is removed: the user's shell must not set it.
    """
    unwanted = [*user_backend.unwanted(), agreed.DELETE_UNREACHABLE]
    kept = {name: value for name, value in os.environ.items() if name not in unwanted}
    return {**kept, **variables}


def exports(variables: Mapping[str, str]) -> str:
    """Shell lines for `eval`. In that shell, Python must not find others' modules in place of ours."""
    unwanted = [name for name in user_backend.unwanted() if name in os.environ]
    lines = [f"unset {name}" for name in ("PYTHONHOME", "PYTHONPATH", *unwanted)]
    return "\n".join([*lines, *(f"export {name}={shlex.quote(value)}" for name, value in variables.items())])


def cluster_access(stack: str) -> ClusterAccess | None:
    """What the configuration's Pydantic models read from the file of `stack`; None before their packages are installed.

    Raises SetupError for a wrong stack file.
    """
    file = stack_files.file(stack)
    if not file.exists() or not venv.is_complete():
        return None
    return _read(file, tuple(_read_by_models(file).items()))


def cluster(stack: str) -> str | None:
    """Name of the cluster that `stack` creates; None if it uses an existing one, or if nothing is set up yet.

    Raises SetupError as `cluster_access` does.
    """
    found = cluster_access(stack)
    return found.cluster if found else None


def access(stack: str) -> Access | None:
    """How to reach the cluster of `stack`; None if nothing is set up yet. Raises SetupError as `cluster` does."""
    found = cluster_access(stack)
    return Access(found.kubeconfig or str(agreed.usual_kubeconfig()), found.context) if found else None


def cluster_kind(stack: str) -> ClusterKind:
    """The kind of the cluster of `stack`. Before the models' packages are installed, the text of its file tells.

    Raises SetupError as `cluster` does.
    """
    if told := cluster_access(stack):
        return told.kind
    texts = [stack_files.file(stack).read_text(errors="replace")]
    if base := _EXTENDS.search(texts[0]):
        texts += [each.read_text(errors="replace") for each in stack_files.STACKS.glob(f"{base[1]}.yaml")]
    return next((kind_of(found[1]) for text in texts if (found := _KIND.search(text))), USUAL)


def uses_gpu_base(stack: str) -> bool:
    """Whether the image of `stack` has the base of target `gpu`. Raises SetupError as `cluster` does."""
    found = cluster_access(stack)
    return bool(found and found.uses_gpu_base)


def is_protected(stack: str) -> bool:
    """Whether the stack file, or its base, says `protected: true`, here or in the commit.

    A deleted line protects until the deletion is committed. A committed file that is not valid (the configuration's
    Pydantic models refuse it) also protects the stack.
    Raises SetupError as `cluster` does, and if Git cannot read the commit's file.
    """
    file = stack_files.file(stack)
    here = _read_by_models(file)
    if _may_protect(here):
        venv.ensure()
        if (told := cluster_access(stack)) and told.protected:
            return True
    try:
        committed = git.committed(file.parent, lambda name: _is_read(name, file.name))
    except git.GitError as error:
        raise SetupError(str(error)) from None
    is_other = file.name in committed and committed != here
    return is_other and _may_protect(committed) and _protects(file.name, tuple(committed.items()))


def _is_read(name: str, stack_file: str) -> bool:
    """Whether the models may read the file `name` for this stack file: the file itself, or one that it may extend."""
    return name == stack_file or (name.endswith(".yaml") and not name.startswith("Pulumi."))


def _read_by_models(file: Path) -> dict[str, str]:
    """Name -> text of the stack file and of each file that it may extend."""
    there = (
        each for each in sorted(file.parent.iterdir()) if _is_read(each.name, file.name) and each.is_file()
    )
    return {each.name: each.read_text(errors="surrogateescape") for each in there}


def _may_protect(texts: Mapping[str, str]) -> bool:
    """Whether these files may have the key `protected`. If not, a bare machine need not install the Pydantic models."""
    # YAML can write a letter as an escape.
    return any("protected" in text or "\\" in text for text in texts.values())


@cache
def _protects(name: str, texts: tuple[tuple[str, str], ...]) -> bool:
    with tempfile.TemporaryDirectory(prefix="trainstack-commit-") as folder:
        for each, text in texts:
            (Path(folder) / each).write_text(text, errors="surrogateescape")
        venv.ensure()
        try:
            return _read(Path(folder) / name, texts).protected
        except SetupError:
            return True


@cache
def _read(file: Path, _texts: tuple[tuple[str, str], ...]) -> ClusterAccess:
    """Cached for each content of the files, because the models need time to read them."""
    with venv.program():
        from infra.config import cluster_access as models

        return models.access(file)


def link(programs: Iterable[tuple[str, Path]]) -> None:
    """Below LINKS, make links to `programs`, our command and the stand-ins, each in its own folder.

    A shell has only the folders that it needs on PATH, so that the other programs do not shadow the user's own tools.
    Links that this shell does not need stay: another shell may need them.
    """
    LINKS.mkdir(parents=True, exist_ok=True)
    for old in LINKS.iterdir():  # links of releases up to 0.1
        if old.is_symlink():
            old.unlink()
    standins = {each.name: each for each in plugins.standins()}
    for name, program in {COMMAND.name: COMMAND, **standins, **dict(programs)}.items():
        place = LINKS / name / name
        place.parent.mkdir(exist_ok=True)
        if place.is_symlink() and place.readlink() == program:
            continue
        fresh = place.with_name(f".{name}.{os.getpid()}")
        fresh.symlink_to(program)
        fresh.replace(place)
