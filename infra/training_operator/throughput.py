"""How many jobs an operator handles at once, and how often it may ask the API server."""

from __future__ import annotations

from infra.config import ConfigError, Stack
from infra.config.errors import paragraph
from infra.config.operator import Install, OperatorConfig

FLAGS = {"concurrency": "--controller-threads", "qps": "--kube-api-qps", "burst": "--kube-api-burst"}
"""Key of section `operator` -> the training-operator's flag (cmd/training-operator.v1/main.go)."""


def given(operator: OperatorConfig) -> dict[str, int]:
    """The keys of FLAGS that the stack file has, with their values."""
    return {key: value for key in FLAGS if (value := getattr(operator, key)) is not None}


def flags(operator: OperatorConfig) -> list[str]:
    """The training-operator's arguments for what is given."""
    return [f"{FLAGS[key]}={value}" for key, value in given(operator).items()]


def ensure_heeded(stack: Stack, operator: bool) -> None:
    """Raises ConfigError for a key that would have no effect.

    Parameters:
        operator: whether the stack installs the operator.
    """
    for key, value in given(stack.operator).items():
        if not operator:
            allowed = "nothing where the operator is somebody else's, which the stack never changes"
            fix = f"remove it, or write `install: {Install.ALWAYS}` where the cluster has no operator"
            raise ConfigError(paragraph(stack.file, f"trainstack:operator.{key}", value, allowed, fix))
