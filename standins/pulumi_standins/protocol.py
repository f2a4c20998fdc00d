"""Pulumi's generated gRPC messages, without the SDK around them.

`import pulumi` takes 0.4 s, and the plugins do not need it; the generated modules only import each other.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING

from pulumi_standins.startup import without_asyncio_grpc

_PACKAGE = "pulumi_standins._messages"


def _generated_modules() -> None:
    spec = importlib.util.find_spec("pulumi")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"the pulumi package is not installed for {sys.executable}")
    package = types.ModuleType(_PACKAGE)
    package.__path__ = [str(Path(spec.submodule_search_locations[0]) / "runtime" / "proto")]
    sys.modules[_PACKAGE] = package


without_asyncio_grpc()

if TYPE_CHECKING:
    from pulumi.runtime.proto import engine_pb2 as engine_pb2
    from pulumi.runtime.proto import engine_pb2_grpc as engine_pb2_grpc
    from pulumi.runtime.proto import language_pb2 as language_pb2
    from pulumi.runtime.proto import language_pb2_grpc as language_pb2_grpc
    from pulumi.runtime.proto import plugin_pb2 as plugin_pb2
    from pulumi.runtime.proto import provider_pb2 as provider_pb2
    from pulumi.runtime.proto import provider_pb2_grpc as provider_pb2_grpc
    from pulumi.runtime.proto import resource_pb2 as resource_pb2
    from pulumi.runtime.proto import resource_pb2_grpc as resource_pb2_grpc
    from pulumi.runtime.proto import status_pb2 as status_pb2
else:

    def __getattr__(name: str) -> types.ModuleType:
        if not name.endswith(("_pb2", "_pb2_grpc")):
            raise AttributeError(name)
        if _PACKAGE not in sys.modules:
            _generated_modules()
        return importlib.import_module(f"{_PACKAGE}.{name}")
