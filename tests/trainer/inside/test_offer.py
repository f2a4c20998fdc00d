"""Which device and which interface a rank takes; meeting and losing others is tested with whole jobs."""

from pathlib import Path

import pytest
import torch

from tests.inside.conftest import Job
from trainer import options
from trainer.offer import Offer, device_of, interface

ROUTES = """\
Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth1	0000F40A	00000000	0001	0	0	0	00FFFFFF	0	0	0
eth0	00000000	0100F40A	0003	0	0	0	00000000	0	0	0
"""
NOWHERE, LINK = "0" * 32, "fe80" + "0" * 28
REST = "00000400 00000001 00000000 00000003"
ROUTES_6 = f"""\
{LINK} 40 {NOWHERE} 00 {NOWHERE} {REST}     eth1
{NOWHERE} 00 {NOWHERE} 00 {LINK} {REST}     eth6
{NOWHERE} 00 {NOWHERE} 00 {NOWHERE} ffffffff 00000001 00000000 00200200       lo
"""


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Two GPUs that nothing is computed on."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: True)
    return monkeypatch


def test_each_rank_of_a_node_takes_its_gpu(gpus: pytest.MonkeyPatch) -> None:
    offer = Offer.of(options.parse(["--backend", "nccl"], {}))
    assert (offer.gpu, offer.refusal) == (True, None)
    assert device_of(offer.gpu) == torch.device("cuda", 0)
    gpus.setenv("LOCAL_RANK", "1")
    assert device_of(offer.gpu) == torch.device("cuda", 1)
    assert not Offer.of(options.parse(["--no-cuda"], {})).gpu
    assert device_of(False) == torch.device("cpu")


def test_fewer_gpus_than_ranks_is_an_error_for_nccl(gpus: pytest.MonkeyPatch) -> None:
    gpus.setenv("LOCAL_RANK", "2")
    gpus.setenv("LOCAL_WORLD_SIZE", "3")
    refusal = Offer.of(options.parse(["--backend", "nccl"], {})).refusal
    assert "has 2 for 3 ranks: start fewer ranks per node, or use" in str(refusal)
    assert not Offer.of(options.parse([], {})).gpu, "without a GPU each, all compute on CPUs"


@pytest.mark.parametrize("backend", ["nccl", "gloo"])
def test_without_a_gpu_only_nccl_complains(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    offer = Offer.of(options.parse(["--backend", backend], {}))
    assert not offer.gpu
    assert ("use --backend gloo" in str(offer.refusal)) == (backend == "nccl")


def test_the_interface_is_that_of_the_default_route(tmp_path: Path) -> None:
    (routes := tmp_path / "route").write_text(ROUTES)
    (routes_6 := tmp_path / "ipv6_route").write_text(ROUTES_6)
    assert interface(routes, routes_6) == "eth0"
    routes.write_text(ROUTES.splitlines()[0] + "\n")
    assert interface(routes, routes_6) == "eth6", "a pod with IPv6 only"
    routes.unlink()
    assert interface(routes, routes_6) == "eth6", "a kernel without IPv4"
    routes_6.write_text(ROUTES_6.splitlines()[2] + "\n")
    assert interface(routes, routes_6) == "lo"
    assert interface(tmp_path / "none", tmp_path / "none") == "lo"


def test_ranks_meet_over_ipv6(job: Job) -> None:
    addresses = Path("/proc/net/if_inet6")
    assert addresses.exists(), "the container has IPv6 on its loopback interface"
    assert "world_size" in job.train(world=2, MASTER_ADDR="::1") or job.folder().exists()
