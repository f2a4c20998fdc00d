"""What a preview knows of an object's uid."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest

from infra.objects.manifest import Object
from tests.unit.infra.recorder import Recorder

JOB = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "mnist"}, "spec": {}}


@pytest.mark.parametrize(("id_", "known"), [("team/mnist", True), ("", False)])
def test_a_preview_says_nothing_of_an_object_to_come(id_: str, known: bool) -> None:
    """A plan that has a value is violated by another one. A dry run of a creation makes up a uid, and no id."""

    class Server(Recorder):
        def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str, dict[str, Any]]:
            return id_, {**args.inputs, "metadata": {**args.inputs["metadata"], "uid": "1"}}

    pulumi.runtime.set_mocks(Server(), preview=True)
    found: list[bool] = []

    @pulumi.runtime.test
    def registered() -> pulumi.Output[None]:
        uid = Object(JOB, pulumi.ResourceOptions()).uid

        async def ask() -> None:
            found.append(await uid.is_known())

        return pulumi.Output.from_input(ask())

    registered()
    assert found == [known]
