"""Entry point of `pulumi-resource-kubernetes`."""

from __future__ import annotations

from pulumi_standins import protocol, serving
from pulumi_standins.kubernetes.provider import Provider

serving.serve(Provider, protocol.provider_pb2_grpc.add_ResourceProviderServicer_to_server, threads=512)
