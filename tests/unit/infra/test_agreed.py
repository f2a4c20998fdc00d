"""What program and toolchain agree on, where it has to fit something else: Pulumi's types, the rules of kubectl."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra import agreed
from infra.clusters import selection
from infra.dynamic import DynamicResource
from infra.objects.owner import Owner

TYPES = {agreed.OWNER, *(kind.resource for kind in selection.PROTOCOLS if kind.resource)}


@pytest.mark.parametrize("token", sorted(TYPES))
def test_a_type_in_the_state_is_that_of_a_class(token: str) -> None:
    assert Owner in DynamicResource.__subclasses__()
    assert token in {f"pulumi-python:{each._resource_type_name}" for each in DynamicResource.__subclasses__()}


@pytest.mark.parametrize("named", ["", ":", "/a", "/a:{there}", "{there}:/a", ":{there}"])
def test_the_usual_kubeconfig(tmp_path: Path, named: str) -> None:
    environment = {"KUBECONFIG": named.format(there=tmp_path)}
    expected = (
        tmp_path if "there" in named else Path("/a") if named == "/a" else Path.home() / ".kube" / "config"
    )
    assert agreed.usual_kubeconfig(environment) == expected
