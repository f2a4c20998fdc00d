"""Which device and which interface a rank takes; meeting and losing others is tested with whole jobs."""

from pathlib import Path

import pytest
import torch

from trainer import distributed, options

ROUTES = """\
Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth1	0000F40A	00000000	0001	0	0	0	00FFFFFF	0	0	0
eth0	00000000	0100F40A	0003	0	0	0	00000000	0	0	0
"""


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Two GPUs that nothing is computed on."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    return monkeypatch


def test_each_rank_of_a_node_takes_its_gpu(gpus: pytest.MonkeyPatch) -> None:
    config = options.parse([], {})
    assert distributed.choose_device(config, "nccl") == torch.device("cuda", 0)
    gpus.setenv("LOCAL_RANK", "1")
    assert distributed.choose_device(config, "nccl") == torch.device("cuda", 1)
    assert distributed.choose_device(options.parse(["--no-cuda"], {}), "gloo") == torch.device("cpu")


def test_fewer_gpus_than_ranks_is_an_error_for_nccl(gpus: pytest.MonkeyPatch) -> None:
    gpus.setenv("LOCAL_RANK", "2")
    gpus.setenv("LOCAL_WORLD_SIZE", "3")
    with pytest.raises(distributed.SetupError, match="has 2 for 3 ranks: start fewer ranks per node, or use"):
        distributed.choose_device(options.parse([], {}), "nccl")


@pytest.mark.parametrize("backend", ["nccl", "gloo"])
def test_without_a_gpu_only_nccl_complains(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    config = options.parse([], {})
    if backend == "gloo":
        assert distributed.choose_device(config, backend) == torch.device("cpu")
    else:
        with pytest.raises(distributed.SetupError, match="use --backend gloo"):
            distributed.choose_device(config, backend)


def test_the_interface_is_that_of_the_default_route(tmp_path: Path) -> None:
    (routes := tmp_path / "route").write_text(ROUTES)
    assert distributed.interface(routes) == "eth0"
    routes.write_text(ROUTES.splitlines()[0] + "\n")
    assert distributed.interface(routes) == "lo"
