"""The fit finds the latency and bandwidth that were planted."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.planning import fit
from toolchain.planning.all_reduce_probe import SIZES
from toolchain.planning.fit import AllReduce
from toolchain.planning.model import Fabric, Link

# What a machine may have: an hour's patience and a memory's speed at the ends.
LINKS = st.builds(Link, st.floats(1e-6, 1e-2), st.floats(1e7, 1e11))


def planted(link: Link, ranks: list[int], cores: int, noise: float = 0.0) -> list[AllReduce]:
    """As the probe would find it; every second figure is `noise` too long, the others as much too short."""
    found = []
    for place, (count, size) in enumerate((count, size) for count in ranks for size in SIZES):
        seconds = Fabric("x", link, "").all_reduce_s(count, size) * max(1.0, count / cores)
        found.append(AllReduce(count, size, seconds * (1 + noise * (-1) ** place)))
    return found


@given(LINKS, st.lists(st.integers(2, 16), min_size=1, max_size=4), st.integers(1, 16))
def test_planted_figures_are_recovered(link: Link, ranks: list[int], cores: int) -> None:
    found = fit.link(planted(link, ranks, cores), cores)
    for rank in ranks:
        for size in SIZES:
            wanted = Fabric("x", link, "").all_reduce_s(rank, size)
            assert math.isclose(Fabric("x", found, "").all_reduce_s(rank, size), wanted, rel_tol=1e-3)


@given(st.floats(0, 0.2))
def test_noise_moves_them_by_no_more_than_itself_a_few_times(noise: float) -> None:
    link = Link(1e-4, 1e9)
    found = fit.link(planted(link, [2, 4], 4, noise), 4)
    assert abs(found.latency_s / link.latency_s - 1) <= 3 * noise + 1e-6
    assert abs(found.bandwidth / link.bandwidth - 1) <= 3 * noise + 1e-6


def test_a_processor_that_shows_no_bandwidth_has_a_huge_one_and_never_a_negative() -> None:
    flat = [AllReduce(2, size, 1e-3 / (place + 1)) for place, size in enumerate(SIZES)]
    found = fit.link(flat, 2)
    assert math.isclose(found.bandwidth, fit.MOST_BANDWIDTH)
    assert found.latency_s > 0


def test_no_latency_is_no_negative_one() -> None:
    steep = [AllReduce(2, size, (size / SIZES[0]) ** 1.2 * 1e-6) for size in SIZES]
    assert fit.link(steep, 2).latency_s == 0


@pytest.mark.parametrize("sizes", [[], [1 << 20], [1 << 20, 1 << 20]])
def test_one_size_does_not_tell_two_figures_apart(sizes: list[int]) -> None:
    with pytest.raises(ValueError, match="two figures"):
        fit.link([AllReduce(2, size, 1e-3) for size in sizes], 2)
