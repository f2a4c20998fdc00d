"""Entry point of `pulumi-resource-kubernetes`."""

from __future__ import annotations

from pulumi_standins import protocol, serving
from pulumi_standins.kubernetes.provider import Provider


def main() -> None:
    """Serve the engine that started this process until it ends."""
    register = protocol.provider_pb2_grpc.add_ResourceProviderServicer_to_server
    serving.serve(Provider, register, threads=512)


if __name__ == "__main__":
    main()
