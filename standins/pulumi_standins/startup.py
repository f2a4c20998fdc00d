"""Faster start of a plugin, without imports that it does not need: engines start it several times per command."""

from __future__ import annotations

import gc
import importlib.util
import sys
import types
from pathlib import Path


def without_asyncio_grpc() -> None:
    """Let `import grpc` skip `grpc.aio`, a sixth of a plugin's start; call this before that import."""
    sys.modules.setdefault("grpc.aio", types.ModuleType("grpc.aio"))


def bare_package(name: str) -> None:
    """Let submodules of a package be imported without its `__init__` and the imports there. Raises ImportError."""
    if name in sys.modules:
        return
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"the {name} package is not installed for {sys.executable}")
    package = types.ModuleType(name)
    package.__path__ = [str(Path(location)) for location in spec.submodule_search_locations]
    sys.modules[name] = package


def settle() -> None:
    """Exclude the loaded modules from garbage collection, and collect less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
