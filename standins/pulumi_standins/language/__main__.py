"""Entry point of `pulumi-language-python`."""

from __future__ import annotations

from pulumi_standins import protocol, serving
from pulumi_standins.language.host import LanguageHost


def main() -> None:
    """Serve the engine that started this process until it ends."""
    serving.serve(LanguageHost, protocol.language_pb2_grpc.add_LanguageRuntimeServicer_to_server, threads=16)


if __name__ == "__main__":
    main()
