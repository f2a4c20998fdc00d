"""Entry point of `pulumi-language-python`."""

from __future__ import annotations

import sys
from typing import Any, cast

from toolchain.plugins import protocol, serving
from toolchain.plugins.language.host import LanguageHost


def main() -> None:
    """Serve the language runtime until the engine is done with it."""
    host = LanguageHost(serving.engine_address(sys.argv[1:]))
    serving.serve(
        lambda server: protocol.language_pb2_grpc.add_LanguageRuntimeServicer_to_server(
            cast(Any, host), server
        ),
        threads=16,
        on_stop=host.stop,
    )


main()
