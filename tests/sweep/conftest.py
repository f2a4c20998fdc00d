"""The environment of the lock, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolchain.sweep import searching


@pytest.fixture(scope="session")
def optuna() -> Path:
    """The Python with Optuna."""
    return searching.python_with_optuna()
