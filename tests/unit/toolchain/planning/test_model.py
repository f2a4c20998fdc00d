"""The model's arithmetic: what is sent, what takes longer with more replicas, and which number of them pays."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.planning import fabrics
from toolchain.planning.model import (
    Fabric,
    Link,
    Training,
    counts,
    exchanged,
    pays_up_to,
    point,
    sent,
)

FABRICS = [*fabrics.ALL.values(), *(replace(each, trees=True) for each in fabrics.ALL.values())]
LINKS = st.builds(Link, st.floats(1e-7, 1e-2), st.floats(1e6, 1e12))
ANY_FABRIC = st.builds(
    Fabric,
    name=st.just("any"),
    between=LINKS,
    source=st.just(""),
    per_node=st.integers(1, 16),
    trees=st.booleans(),
)
TRAININGS = st.builds(
    Training,
    size=st.integers(4, 10**10),
    image_s=st.floats(1e-7, 1.0),
    batch=st.integers(1, 4096),
    per_replica=st.booleans(),
    fixed_s=st.floats(0, 0.1),
    cores=st.none() | st.integers(1, 64),
    threads=st.integers(1, 8),
)
REPLICAS = st.integers(1, 1000)
LENET = Training(size=exchanged(431_080), image_s=1e-4, batch=64, per_replica=True)


def ring(ranks: int, numbers: int) -> list[int]:
    """How many numbers each rank sends, counted in a ring that adds up `numbers` of them, chunk by chunk."""
    chunks = [numbers // ranks + (place < numbers % ranks) for place in range(ranks)]
    out = [0] * ranks
    for phase in (0, 1):  # reduce-scatter, then all-gather
        for turn in range(ranks - 1):
            for rank in range(ranks):
                out[rank] += chunks[(rank + phase - turn) % ranks]
    return out


@given(st.integers(2, 40), st.integers(1, 10_000))
def test_a_ring_sends_as_many_bytes_as_the_formula_says(ranks: int, numbers: int) -> None:
    counted = ring(ranks, numbers)
    assert sum(counted) == 2 * (ranks - 1) * numbers
    assert all(abs(4 * each - sent(ranks, 4 * numbers)) <= 8 * ranks for each in counted)


@pytest.mark.parametrize(("parameters", "buffers", "size"), [(1, 0, 8), (431_080, 0, 1_724_324), (10, 7, 72)])
def test_gradients_loss_and_buffers_travel_in_float32(parameters: int, buffers: int, size: int) -> None:
    assert exchanged(parameters, buffers) == size


@given(ANY_FABRIC, st.integers(1, 10**9), REPLICAS)
def test_an_all_reduce_takes_longer_with_more_replicas_and_with_more_bytes(
    fabric: Fabric, size: int, replicas: int
) -> None:
    now = fabric.all_reduce_s(replicas, size)
    almost = now * (1 - 1e-9)
    assert fabric.all_reduce_s(replicas + 1, size) >= almost
    assert fabric.all_reduce_s(replicas, 2 * size) >= almost
    assert (now == 0) == (replicas == 1)


@given(ANY_FABRIC, st.integers(1, 10**9), REPLICAS)
def test_trees_are_taken_only_where_they_are_faster(fabric: Fabric, size: int, replicas: int) -> None:
    with_trees, rings = (replace(fabric, trees=trees).all_reduce_s(replicas, size) for trees in (True, False))
    assert with_trees <= rings


@given(LINKS, st.integers(1, 10**9), st.integers(2, 1000))
def test_a_ring_is_latency_for_each_message_and_its_bytes_at_the_bandwidth(
    link: Link, size: int, replicas: int
) -> None:
    wanted = 2 * (replicas - 1) * link.latency_s + sent(replicas, size) / link.bandwidth
    assert math.isclose(Fabric("x", link, "").all_reduce_s(replicas, size), wanted)


@pytest.mark.parametrize("replicas", range(2, 9))
def test_a_node_that_is_not_left_uses_its_own_link(replicas: int) -> None:
    h200 = fabrics.ALL["h200"]
    assert h200.within is not None
    inside = Fabric("inside", h200.within, "")
    assert math.isclose(h200.all_reduce_s(replicas, 10**8), inside.all_reduce_s(replicas, 10**8))
    assert h200.all_reduce_s(9, 10**8) > 2 * h200.all_reduce_s(8, 10**8)


@given(TRAININGS, ANY_FABRIC, REPLICAS)
def test_a_row_adds_up(training: Training, fabric: Fabric, replicas: int) -> None:
    row = point(training, fabric, replicas)
    assert row.images == training.batch * (replicas if training.per_replica else 1)
    assert math.isclose(row.images_per_s * (row.compute_s + row.exchange_s), row.images)
    assert row.efficiency <= 1 + 1e-9
    assert row.exchange_s >= 0


@given(TRAININGS, REPLICAS)
def test_replicas_of_one_node_share_its_cores(training: Training, replicas: int) -> None:
    apart = replace(training, cores=None)
    factor = max(1.0, replicas * training.threads / training.cores) if training.cores else 1.0
    assert math.isclose(training.compute_s(replicas), factor * apart.compute_s(replicas))


@given(TRAININGS, ANY_FABRIC, st.integers(1, 200))
def test_the_number_that_pays_is_the_last_that_adds_half_a_share(
    training: Training, fabric: Fabric, most: int
) -> None:
    found = pays_up_to(training, fabric, most)
    speeds = [0.0] + [training.images_per_s(each, fabric) for each in range(1, most + 1)]
    assert 1 <= found <= most
    assert speeds[found] >= max(speeds[: found + 1])
    assert found == 1 or speeds[found] - speeds[found - 1] >= speeds[1] / 2
    later = [each for each in range(found + 1, most + 1) if speeds[each] - speeds[each - 1] >= speeds[1] / 2]
    assert all(speeds[each] < max(speeds) for each in later)


@pytest.mark.parametrize("fabric", FABRICS, ids=lambda each: f"{each.name}-{each.trees}")
def test_a_faster_network_never_pays_for_fewer(fabric: Fabric) -> None:
    free = Fabric("free", Link(0.0, 1e18), "")
    assert pays_up_to(LENET, fabric, 100) <= pays_up_to(LENET, free, 100) == 100


def test_more_replicas_than_cores_never_pay() -> None:
    free = Fabric("free", Link(0.0, 1e18), "")
    assert pays_up_to(replace(LENET, cores=4), free, 16) == 4
    assert pays_up_to(replace(LENET, cores=4, threads=2), free, 16) == 2


def test_no_replica_is_without_an_image() -> None:
    assert replace(LENET, per_replica=False).most(1000) == 64
    assert LENET.most(1000) == 1000


@given(st.integers(1, 5000), st.lists(st.integers(-3, 6000), max_size=5))
def test_rows_are_powers_of_two_with_the_last_and_those_asked_for(most: int, also: list[int]) -> None:
    found = counts(most, also)
    assert found == sorted(set(found))
    assert (found[0], found[-1]) == (1, most)
    assert {each for each in also if 1 <= each <= most} <= set(found)
    assert all(2**power in found for power in range(most.bit_length()))


@pytest.mark.parametrize("fabric", fabrics.ALL.values(), ids=lambda each: each.name)
def test_a_fabric_says_where_its_figures_are_from(fabric: Fabric) -> None:
    assert fabric.source
    assert (fabric.within is None) == (fabric.per_node == 1)


def test_every_backend_has_a_fabric() -> None:
    from infra.config.training import Backend

    assert {each.value for each in Backend} == set(fabrics.BY_BACKEND)
    assert set(fabrics.BY_BACKEND.values()) <= set(fabrics.ALL)
