"""Of `make doctor`: whether the cluster of a stack can be had, before the packages are there that read its file."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from infra import agreed
from toolchain import stack_files
from toolchain.operating import api_server, environment
from toolchain.operating.state import Access
from toolchain.operating.status import Health
from toolchain.tools import installed

KIND, MICROK8S, EXISTING = "kind", "microk8s", "existing"
# `kind` of section cluster, in YAML's two styles, and not that of a later section.
_TOLD = re.compile(
    r"^ *trainstack:cluster:(?: *\{[^}\n]*?| *\n(?:[ \t]+(?!trainstack:)\S.*\n|[ \t]*\n)*?[ \t]+)kind: *(\w+)",
    re.MULTILINE,
)
_EXTENDS = re.compile(r"^ *trainstack:extends: *([\w-]+)", re.MULTILINE)

Found = tuple[Health, str] | tuple[Health, str, str]


def kind(stack: str) -> str:
    """What makes the cluster of `stack`. Raises SetupError where its file is wrong."""
    if told := environment.cluster_kind(stack):
        return told
    texts = [stack_files.file(stack).read_text(errors="replace")]
    if base := _EXTENDS.search(texts[0]):
        texts += [each.read_text(errors="replace") for each in stack_files.STACKS.glob(f"{base[1]}.yaml")]
    found = [named[1] for text in texts if (named := _TOLD.search(text))]
    return found[0] if found else KIND


def check(stack: str) -> Found:
    """Whether the cluster of `stack` is there or can be made. Raises SetupError as `kind` does."""
    asked = kind(stack)
    if asked == MICROK8S:
        return _microk8s()
    if asked == EXISTING:
        return _existing(stack)
    return Health.HEALTHY, "made with kind"


def _microk8s() -> Found:
    if shutil.which("microk8s"):
        return Health.HEALTHY, "MicroK8s, which is here"
    if shutil.which("snap"):
        return Health.HEALTHY, "MicroK8s, installed from its snap; root alone may do that"
    return Health.NOT, "MicroK8s comes as a snap, and snapd is not here", "sudo apt-get install snapd"


def _existing(stack: str) -> Found:
    # Before the packages are there, nobody reads what the stack file names.
    access = environment.access(stack) or Access(str(agreed.usual_kubeconfig()))
    file = access.kubeconfig
    if not Path(file).exists():
        said = f"the cluster is to be there, and no kubeconfig is: {file}"
        return Health.NOT, said, f"export KUBECONFIG=FILE, or name it in stacks/Pulumi.{stack}.yaml"
    kubectl = installed.choose()["kubectl"]
    if not kubectl.is_available:
        return Health.HEALTHY, f"reached by {file}; not asked, as kubectl is not here yet"
    folder = str(kubectl.program().parent)
    variables = {"PATH": os.pathsep.join([folder, environment.path()])}
    if why := api_server.problem(variables, access):
        fix = "start that cluster, or name another kubeconfig: export KUBECONFIG=FILE"
        return Health.NOT, f"the cluster of {file} does not answer: {why}", fix
    return Health.HEALTHY, f"answers, by {file}"
