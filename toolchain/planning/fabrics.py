"""Fabrics that a cluster may have, with figures of their vendors or assumptions of ours."""

from __future__ import annotations

from toolchain.planning.model import Fabric, Link

_TCP_LATENCY_S = 50e-6
_TCP = "line rate of the Ethernet; 50 us a message by TCP between pods is our assumption"

ALL = {
    fabric.name: fabric
    for fabric in (
        Fabric("tcp-10g", Link(_TCP_LATENCY_S, 10e9 / 8), _TCP),
        Fabric("tcp-100g", Link(_TCP_LATENCY_S, 100e9 / 8), _TCP),
        # Of NVLink's 900 GB/s each way has half. One 400 Gb/s adapter a GPU.
        Fabric(
            "h200",
            Link(9.6e-6, 400e9 / 8),
            "NVIDIA's H200 system in MLPerf Inference v4.1: 8 GPUs with NVLink of 900 GB/s, InfiniBand of 400 Gb/s "
            "each; latencies of NCCL's src/graph/tuning.cc, ring, Simple: 3.4 us NVLink, 9.6 us network",
            within=Link(3.4e-6, 450e9),
            per_node=8,
        ),
    )
}
NAMES = tuple(ALL)
# What a stack's own pods have: they ask for no RDMA device, and each has a host name of its own, by which NCCL tells
# nodes apart.
BY_BACKEND = {"gloo": "tcp-10g", "mpi": "tcp-10g", "nccl": "tcp-100g"}
