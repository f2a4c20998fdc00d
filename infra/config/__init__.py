"""Typed stack configuration: one model per section, validated before any resource is registered."""

from infra.config.errors import ConfigError
from infra.config.load import Stack, from_file, from_raw

__all__ = ["ConfigError", "Stack", "from_file", "from_raw"]
