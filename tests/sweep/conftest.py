"""The environments of the locks, each made once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from toolchain.paths import LOCAL, ROOT
from toolchain.sweep import kept_study
from toolchain.tools import venv


@pytest.fixture(scope="session")
def optuna() -> Path:
    """The Python with Optuna."""
    return kept_study.python()


@pytest.fixture(scope="session")
def katib_models() -> str:
    """The folder with the models of Katib's API, for this Python, which has all that they need."""
    folder = venv.ensure_beside(LOCAL / "katib", ROOT / "requirements-katib.lock").parent
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return str(folder / "lib" / version / "site-packages")
