"""Entry point of `pulumi-resource-kubernetes`."""

from __future__ import annotations

import sys
from typing import Any, cast

from toolchain.plugins import protocol, serving
from toolchain.plugins.kubernetes.provider import Provider


def main() -> None:
    """Serve the provider until the engine is done with it."""
    provider = Provider(serving.engine_address(sys.argv[1:]))
    serving.serve(
        lambda server: protocol.provider_pb2_grpc.add_ResourceProviderServicer_to_server(
            cast(Any, provider), server
        ),
        threads=512,
        on_stop=provider.stop,
    )


main()
