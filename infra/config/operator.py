"""Section `operator`: whether the training-operator is ours to install."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from infra.config.section import Section


class Install(StrEnum):
    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class OperatorConfig(Section):
    """With `auto`, an operator that was there before is used, never changed and never deleted."""

    install: Install = Field(default=Install.AUTO, description="auto, always or never")
