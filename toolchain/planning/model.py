"""The model: what a step computes, what it exchanges, and how many images a second come of it. Arithmetic alone.

A replica sends 2 (n - 1) / n of the bytes in an all-reduce over n replicas, whatever its shape: NVIDIA, nccl-tests,
doc/PERFORMANCE.md. A ring does so in 2 (n - 1) steps, each with a latency: R. Thakur, R. Rabenseifner, W. Gropp,
"Optimization of Collective Communication Operations in MPICH", IJHPCA 19(1), 2005. A tree needs 2 log2 of the nodes
and sends all bytes twice; NCCL takes whichever it reckons faster, with these formulas: src/graph/tuning.cc.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

FLOAT32 = 4
HALF = 0.5


@dataclass(frozen=True)
class Link:
    """A way between two replicas.

    Parameters:
        latency_s: seconds that a message takes, however short.
        bandwidth: bytes a second that a replica sends while it receives as many.
    """

    latency_s: float
    bandwidth: float


@dataclass(frozen=True)
class Fabric:
    """What connects all replicas.

    Parameters:
        name: as `--link` has it.
        between: the link between nodes.
        source: where the figures are from.
        within: the link in a node; None where every replica is a node of its own.
        per_node: replicas of a node.
        trees: whether trees are built where they are faster, as NCCL does and gloo does not.
    """

    name: str
    between: Link
    source: str
    within: Link | None = None
    per_node: int = 1
    trees: bool = False

    def all_reduce_s(self, replicas: int, size: int) -> float:
        """Seconds of an all-reduce of `size` bytes."""
        if replicas == 1:
            return 0.0
        nodes = math.ceil(replicas / self.per_node)
        within = self.within or self.between
        link = within if nodes == 1 else self.between
        outside = 2 * (nodes - 1)
        inside = 2 * (replicas - 1) - outside
        ring = inside * within.latency_s + outside * self.between.latency_s
        ring += sent(replicas, size) / link.bandwidth
        if not self.trees:
            return ring
        depth = (min(replicas, self.per_node) - 1) * within.latency_s + math.log2(
            nodes
        ) * self.between.latency_s
        return min(ring, 2 * depth + 2 * size / link.bandwidth)


@dataclass(frozen=True)
class Training:
    """A job, apart from how many replicas it has.

    Parameters:
        size: bytes that every replica puts into the all-reduce of a step.
        image_s: seconds of one replica for one image.
        batch: images of a step.
        per_replica: whether `batch` is of each replica; else all of them share it.
        fixed_s: seconds of a step that do not depend on its images.
        cores: of the node on which all replicas are; None where each has its own.
        threads: of a replica.
    """

    size: int
    image_s: float
    batch: int
    per_replica: bool
    fixed_s: float = 0.0
    cores: int | None = None
    threads: int = 1

    def crowding(self, replicas: int) -> float:
        """How many times longer everything takes, as there are more threads than cores."""
        return max(1.0, replicas * self.threads / self.cores) if self.cores else 1.0

    def images(self, replicas: int) -> int:
        """Images of a step over all replicas."""
        return self.batch * replicas if self.per_replica else self.batch

    def most(self, wanted: int) -> int:
        """At most `wanted` replicas, and none without an image."""
        return wanted if self.per_replica else min(wanted, self.batch)

    def compute_s(self, replicas: int) -> float:
        """Seconds of a step without its all-reduce."""
        return self.crowding(replicas) * (self.fixed_s + self.images(replicas) / replicas * self.image_s)

    def exchange_s(self, replicas: int, fabric: Fabric) -> float:
        """Seconds of a step's all-reduce. It begins when the last gradient is there: nothing overlaps."""
        return self.crowding(replicas) * fabric.all_reduce_s(replicas, self.size)

    def images_per_s(self, replicas: int, fabric: Fabric) -> float:
        """Images a second over all replicas."""
        return self.images(replicas) / (self.compute_s(replicas) + self.exchange_s(replicas, fabric))


@dataclass(frozen=True)
class Point:
    """One row: `sent` in bytes by each replica; `efficiency` against as many replicas that need not exchange."""

    replicas: int
    images: int
    sent: int
    exchange_s: float
    compute_s: float
    images_per_s: float
    efficiency: float


def exchanged(parameters: int, buffers: int = 0) -> int:
    """Bytes of the trainer's one all-reduce a step: gradients, the loss, changes of buffers, float32 all of them."""
    return FLOAT32 * (parameters + 1 + buffers)


def sent(replicas: int, size: int) -> int:
    """Bytes that a replica sends in an all-reduce of `size` bytes."""
    return math.ceil(2 * (replicas - 1) * size / replicas)


def point(training: Training, fabric: Fabric, replicas: int) -> Point:
    """The row of one number of replicas."""
    alone, speed = training.images_per_s(1, fabric), training.images_per_s(replicas, fabric)
    return Point(
        replicas=replicas,
        images=training.images(replicas),
        sent=sent(replicas, training.size),
        exchange_s=training.exchange_s(replicas, fabric),
        compute_s=training.compute_s(replicas),
        images_per_s=speed,
        efficiency=speed / alone / replicas,
    )


def counts(most: int, also: Iterable[int] = ()) -> list[int]:
    """Powers of two up to `most`, `most` itself, and those of `also` that are no more."""
    powers = {2**power for power in range(most.bit_length())}
    return sorted({count for count in powers | {most, *also} if 1 <= count <= most})


def pays_up_to(training: Training, fabric: Fabric, most: int, worth: float = HALF) -> int:
    """The most replicas of which the last one adds at least `worth` of what one alone does.

    No smaller number is faster. A step down, as where a second node begins, may be made up for by more nodes.
    """
    alone = before = best = training.images_per_s(1, fabric)
    found = 1
    for replicas in range(2, most + 1):
        speed = training.images_per_s(replicas, fabric)
        if speed - before >= worth * alone and speed >= best:
            found = replicas
        before, best = speed, max(best, speed)
    return found
