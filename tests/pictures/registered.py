"""What the program registers for a stack: its resources, and which of them wait for which. Under Pulumi's mocks."""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulumi
import pytest
from pulumi.runtime.mocks import MockMonitor

from infra import dataset, docker, paths
from infra.config.load import read
from tests.unit.infra.recorder import Recorder

PROGRAM = Path(paths.__file__).parent / "__main__.py"
STACK_TYPE = "pulumi:pulumi:Stack"
COMPONENT = "trainstack:"


@dataclass(frozen=True)
class Resource:
    """One registration.

    Parameters:
        parent: its URN, empty for the stack itself.
        needs: URNs of what is made before it, its provider included.
    """

    urn: str
    type: str
    name: str
    parent: str
    needs: frozenset[str]

    @property
    def is_component(self) -> bool:
        """Whether it only holds others."""
        return self.type.startswith(COMPONENT)

    @property
    def kind(self) -> str:
        """`Deployment` of `kubernetes:apps/v1:Deployment`, `Provider` of the provider."""
        return "Provider" if self.type.startswith("pulumi:providers:") else self.type.rpartition(":")[2]


class _Monitor(MockMonitor):
    """Keeps the requests, which say more than the mocks are told."""

    def __init__(self, mocks: Recorder) -> None:
        super().__init__(mocks)
        self.registered: dict[str, Resource] = {}

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 - gRPC's name
        response = super().RegisterResource(request)  # type: ignore[no-untyped-call]
        provider = request.provider.rpartition("::")[0]
        needs = frozenset(filter(None, [*request.dependencies, provider]))
        self.registered[response.urn] = Resource(
            response.urn, request.type, request.name, request.parent, needs
        )
        return response


def resources(stack: str) -> list[Resource]:
    """Those of `stack`, whose file is committed, without the stack itself; in no certain order."""
    mocks = Recorder()
    monitor = _Monitor(mocks)
    file = paths.ROOT / "stacks" / f"Pulumi.{stack}.yaml"
    given = {f"trainstack:{name}": json.dumps(value) for name, value in read(file).items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dataset, "resolve", lambda chosen, folder, root: chosen)
        patch.setenv("PULUMI_CONFIG", json.dumps(given))
        patch.setattr(pulumi, "get_root_directory", lambda: str(paths.ROOT))
        patch.setattr(docker, "labelled", lambda label: [])
        for name in ("NODE_IMAGE", "OPERATOR_IMAGE", "INIT_IMAGE", "REGISTRY_IMAGE"):
            patch.delenv(f"TRAINSTACK_{name}", raising=False)
        pulumi.runtime.set_mocks(mocks, project="trainstack", stack=stack, preview=False, monitor=monitor)

        @pulumi.runtime.test
        def program() -> None:
            runpy.run_path(str(PROGRAM), run_name="__main__")

        program()
    return [each for each in monitor.registered.values() if each.type != STACK_TYPE]


def component_of(resource: Resource, among: Iterable[Resource]) -> Resource | None:
    """The component that `resource` belongs to; None for one that hangs on the stack itself."""
    by_urn = {each.urn: each for each in among}
    found: Resource | None = resource
    while found and not found.is_component:
        found = by_urn.get(found.parent)
    return found
