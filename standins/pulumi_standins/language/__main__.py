"""Entry point of `pulumi-language-python`."""

from __future__ import annotations

from pulumi_standins import protocol, serving
from pulumi_standins.language.host import LanguageHost

serving.serve(LanguageHost, protocol.language_pb2_grpc.add_LanguageRuntimeServicer_to_server, threads=16)
