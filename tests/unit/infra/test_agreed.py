"""What program and toolchain agree on, where it has to fit something else: Pulumi's types, the rules of kubectl."""

from __future__ import annotations

from pathlib import Path

import pytest
from pulumi.dynamic import Resource

from infra import agreed
from infra.clusters.kind.providers import KindCluster
from infra.clusters.microk8s.providers import MicroK8sInstallation
from infra.objects.owner import Owner

TYPES: dict[str, type[Resource]] = {
    agreed.KIND_CLUSTER: KindCluster,
    agreed.MICROK8S: MicroK8sInstallation,
    agreed.OWNER: Owner,
}


@pytest.mark.parametrize("token", TYPES)
def test_a_type_in_the_state_is_that_of_its_class(token: str) -> None:
    assert token == f"pulumi-python:{TYPES[token]._resource_type_name}"


@pytest.mark.parametrize("named", ["", ":", "/a", "/a:{there}", "{there}:/a", ":{there}"])
def test_the_usual_kubeconfig(tmp_path: Path, named: str) -> None:
    environment = {"KUBECONFIG": named.format(there=tmp_path)}
    expected = (
        tmp_path if "there" in named else Path("/a") if named == "/a" else Path.home() / ".kube" / "config"
    )
    assert agreed.usual_kubeconfig(environment) == expected
