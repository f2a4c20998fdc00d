"""The environment of the lock, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolchain.sweep import kept_study


@pytest.fixture(scope="session")
def optuna() -> Path:
    """The Python with Optuna."""
    return kept_study.python()
