"""Environment variables that change what a stack applies: has set-up or the user's shell set them?

If no registry can be reached, set-up builds images from pinned sources instead of pulling the published images, and
records their names. Any other value comes from the user's shell, and no review has shown it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from infra import agreed, paths
from infra.config.errors import ConfigError, paragraph
from infra.config.load import Stack

RECORD = paths.STATE / "env.json"
"""What the last set-up has set (toolchain/operating/environment.py)."""
_OWN_DOCKERFILE = "write that base into your own Dockerfile (`trainstack:image.dockerfile`)"
IMAGES: dict[str, str] = {
    agreed.NODE_IMAGE: "",
    agreed.REGISTRY_IMAGE: "",
    agreed.OPERATOR_IMAGE: "",
    agreed.INIT_IMAGE: "",
    agreed.TRAINER_IMAGE: "",
    agreed.JOBSET_IMAGE: "",
    agreed.KUEUE_IMAGE: "",
    agreed.CPU_BASE: _OWN_DOCKERFILE,
    agreed.GPU_BASE: _OWN_DOCKERFILE,
}
"""Variables that replace a pinned image -> what to do instead of setting the variable; may be empty."""
CHANGES: dict[str, str] = {
    **IMAGES,
    # Of Pulumi's plugin for Kubernetes (4.30.0), which writes most of them into the stack's state, too.
    "PULUMI_K8S_ENABLE_CONFIGMAP_MUTABLE": "",
    "PULUMI_K8S_ENABLE_SECRET_MUTABLE": "",
    "PULUMI_K8S_ENABLE_SERVER_SIDE_APPLY": "",
    "PULUMI_K8S_SKIP_UPDATE_UNREACHABLE": "",
    "PULUMI_K8S_UPSERT_EXISTING_OBJECTS": "",
    # Of Pulumi's command line (3.246), which takes each option from a variable: these leave out or add steps.
    "PULUMI_OPTION_EXCLUDE": "",
    "PULUMI_OPTION_REPLACE": "",
    "PULUMI_OPTION_TARGET": "",
    "PULUMI_OPTION_TARGET_REPLACE": "",
}
"""All variables that change what is applied -> as in IMAGES."""


def of_shell(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables of CHANGES with another value than in set-up's record; without a record, all that are set."""
    known = agreed.mapping(RECORD)
    return {
        name: environment[name]
        for name in CHANGES
        if environment.get(name) not in ("", None, known.get(name))
    }


def ensure_reviewed(
    stack: Stack, warn: Callable[[str], None], environment: Mapping[str, str] = os.environ
) -> None:
    """Warn about each variable that the user's shell has set. Raises ConfigError instead if the stack is protected."""
    refused = []
    for name, value in of_shell(environment).items():
        fix = f"unset {name}" + (f", or {CHANGES[name]}" if CHANGES[name] else "")
        allowed = (
            f"only set-up's value if trainstack:protected is true ({stack.file}): no review shows the effect"
        )
        refused.append(paragraph("the shell", name, value, allowed, fix))
        if not stack.protected:
            warn(f"{name}={value} comes from your shell: no review shows its effect\n  fix: {fix}")
    if stack.protected and refused:
        raise ConfigError("\n".join(refused))
