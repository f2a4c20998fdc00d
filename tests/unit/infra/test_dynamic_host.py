"""What our providers change in Pulumi's real host of dynamic providers."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from pulumi.dynamic.dynamic import serialize_provider
from pulumi.runtime import rpc
from pulumi.runtime.proto import provider_pb2 as proto
from pulumi.runtime.proto.provider_pb2_grpc import ResourceProviderStub

from infra import paths
from tests.unit.infra.hosted.meeting import MeetingProvider

URN = "urn:pulumi:s::p::pulumi-python:dynamic:Resource::m"
CALLS = 8


@pytest.fixture
def host() -> Iterator[Any]:
    """A client of a host like those that `pulumi up` starts."""
    environment = {**os.environ, "PYTHONPATH": str(paths.ROOT)}
    command = [sys.executable, "-u", "-m", "pulumi.dynamic"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout
            with grpc.insecure_channel(f"127.0.0.1:{process.stdout.readline().strip()}") as channel:
                yield ResourceProviderStub(channel)
        finally:
            process.terminate()


def properties_of(folder: Path, calls: int) -> Any:
    """What Pulumi sends for a MeetingProvider."""
    given = {"__provider": serialize_provider(MeetingProvider()), "folder": str(folder), "calls": calls}
    return asyncio.run(rpc.serialize_properties(given, {}))


def test_as_many_jobs_are_waited_for_as_pulumi_asks_for(host: Any, tmp_path: Path) -> None:
    properties = properties_of(tmp_path, CALLS)
    host.Check(
        proto.CheckRequest(urn=URN, olds=properties, news=properties)
    )  # as Pulumi does before each creation
    request = proto.CreateRequest(urn=URN, properties=properties)
    with ThreadPoolExecutor(CALLS) as pool:
        created = [*pool.map(lambda _: host.Create(request).id, range(CALLS))]
    assert created == ["met"] * CALLS


def test_an_error_is_its_message(host: Any, tmp_path: Path) -> None:
    properties = properties_of(tmp_path / "missing", 1)
    with pytest.raises(grpc.RpcError) as failed:
        host.Create(proto.CreateRequest(urn=URN, properties=properties))
    assert str(failed.value.details()).startswith("[Errno 2] No such file or directory")
