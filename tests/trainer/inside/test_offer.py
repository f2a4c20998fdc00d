"""Which device and which interface a rank takes; meeting and losing others is tested with whole jobs."""

import os
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from tests.inside.conftest import Job
from trainer import options, rendezvous
from trainer.distributed import PeerLostError, SetupError, World
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
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda index: SimpleNamespace(uuid=f"GPU-{index}")
    )
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


@pytest.fixture
def joined(gpus: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Rank 0 of two, whose group is only noted in the variables BACKEND and those of NCCL."""
    for name in ("BACKEND", *rendezvous.NCCL_LIKE_GLOO):
        gpus.setenv(name, "")
    for name, value in {
        "WORLD_SIZE": "2",
        "RANK": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "1",
    }.items():
        gpus.setenv(name, value)
    (store := dist.HashStore()).set("complete", "")
    gpus.setattr(rendezvous, "enter", lambda *arguments: store)
    gpus.setattr(rendezvous, "ends_with_peers", lambda missed: nullcontext())
    gpus.setattr(dist, "init_process_group", lambda backend, **more: os.environ.update(BACKEND=backend))
    gpus.setattr(dist.distributed_c10d, "_set_pg_timeout", lambda patience: None)
    return gpus


@pytest.mark.parametrize("backend", ["nccl", "gloo", None])
@pytest.mark.parametrize("card", ["GPU-0", "GPU-1"])
def test_two_ranks_on_one_gpu_are_refused_where_nccl_would_loop(
    joined: pytest.MonkeyPatch, card: str, backend: str | None
) -> None:
    """Each sees a GPU of its own: pods that share one by time, or several ranks without LOCAL_RANK."""
    config = options.parse(["--backend", backend] if backend else [], {})
    mine = Offer.of(config)
    joined.setattr(rendezvous, "exchange", lambda *arguments: [mine, replace(mine, card=card)])
    if card == mine.card and backend != "gloo":
        with pytest.raises(SetupError, match=r"ranks 0 and 1 share the GPU GPU-0, .*or use --backend gloo"):
            rendezvous.join(config)
        return
    assert rendezvous.join(config).device.type == "cuda"
    assert os.environ["BACKEND"] == (backend or "nccl")
    set_so = {name: os.environ[name] for name in rendezvous.NCCL_LIKE_GLOO} == rendezvous.NCCL_LIKE_GLOO
    assert set_so is (backend != "gloo"), "a lost rank raises an error, instead of ending the process"


@pytest.mark.parametrize(
    "kind", [dist.DistBackendError, dist.DistNetworkError, dist.DistStoreError, RuntimeError]
)
def test_whatever_a_backend_raises_is_a_lost_replica(
    kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(values: torch.Tensor) -> None:
        raise kind("NCCL communicator was aborted on rank 0\nmore")

    monkeypatch.setattr(dist, "all_reduce", lose)
    with pytest.raises(
        PeerLostError, match=r"^rank 0 lost another replica \(NCCL communicator was aborted on rank 0\); "
    ):
        World(0, 2, torch.device("cpu")).sum(torch.zeros(1))


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
