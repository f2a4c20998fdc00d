"""Entry point of `pulumi-language-python`."""

from __future__ import annotations

from toolchain.plugins import protocol, serving
from toolchain.plugins.language.host import LanguageHost

serving.serve(LanguageHost, protocol.language_pb2_grpc.add_LanguageRuntimeServicer_to_server, threads=16)
