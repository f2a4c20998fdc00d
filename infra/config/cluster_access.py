"""A stack's cluster, how it is reached, its claim, what may be applied: what `toolchain/` asks a stack file.

Only what is asked for is validated: a stack whose job is wrong
can still be taken down.
"""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import ValidationError

from infra import paths
from infra.config.errors import ConfigError, explain
from infra.config.load import Sections, from_file, read, source, stack_name

ASKED_FOR = ("cluster", "operator", "protected")


def access(file: Path) -> dict[str, str | bool | None]:
    """The cluster of the stack whose file is stacks/Pulumi.<stack>.yaml. Raises ConfigError.

    `kind`: of the cluster. `cluster`: its name, None for one that the stack does not make. `kubeconfig`: the
    absolute path of the file that reaches it, None for the file that kubectl finds by itself. `context`: that in
    the file, None for its current one. `namespace`: that of the jobs. `operatorApi`: v1 or v2. `gang`: who schedules
    gangs, `none` for nobody. `protected`: whether only what was reviewed is applied. `isNamed`: whether another
    cluster than the one that the file names is refused. `claim`: name of the models' claim, None where the rest of
    the file is wrong. `claimMayWait`: whether that may be Pending. `usesGpuBase`: whether the image is built on the
    GPU base.
    """
    sections = valid_sections(file)
    cluster = sections.cluster
    common: dict[str, str | bool | None] = {
        "kind": cluster.kind.value,
        "context": cluster.context,
        "namespace": cluster.namespace,
        "operatorApi": sections.operator.api.value,
        "gang": sections.operator.gang.value,
        "protected": sections.protected,
        "isNamed": bool(cluster.server or cluster.id),
        **_of_whole_stack(file),
    }
    if not cluster.kind.is_ours:
        return {"cluster": None, "kubeconfig": cluster.kubeconfig, **common}
    name = cluster.name_for(stack_name(file))
    return {"cluster": name, "kubeconfig": str(paths.kubeconfig(name)), **common}


def valid_sections(file: Path) -> Sections:
    """The sections ASKED_FOR of a stack file, whatever is wrong with the others. Raises ConfigError."""
    found = read(file)
    try:
        return Sections.model_validate({name: found[name] for name in ASKED_FOR if name in found})
    except ValidationError as error:
        raise explain(error, Sections, source(file, os.path.relpath(file))) from None


def _of_whole_stack(file: Path) -> dict[str, str | bool | None]:
    try:
        stack = from_file(file)
    except ConfigError:
        return {"claim": None, "claimMayWait": False, "usesGpuBase": False}
    return {
        "claim": stack.claim,
        "claimMayWait": stack.claim_may_wait,
        "usesGpuBase": stack.image.uses_gpu_base,
    }
