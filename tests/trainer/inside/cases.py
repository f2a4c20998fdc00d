"""Which cases of the long tests run, here and outside the image: `--cases sample` for `make test`, `--cases all` or
`--cases rest` for what `make test-full` adds.

`@pytest.mark.sampled(n)` on a test says that n of its cases, spread over all, are the sample. A test without the mark
is in the sample with every case.
"""

from collections import defaultdict
from collections.abc import Sequence

import pytest

CHOICES = ("all", "sample", "rest")


def spread(count: int, wanted: int) -> set[int]:
    """`wanted` of the numbers 0…`count` - 1 at even distances; all where there are not as many."""
    return {number * count // wanted for number in range(min(wanted, count))} if wanted else set()


def chosen(items: Sequence[pytest.Item], cases: str) -> list[pytest.Item]:
    """The items that `cases`, one of CHOICES, asks for, in their order."""
    groups: dict[tuple[str, int], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if mark := item.get_closest_marker("sampled"):
            groups[item.nodeid.partition("[")[0], mark.args[0]].append(item)
    rest = {
        item.nodeid
        for (_, wanted), group in groups.items()
        for number, item in enumerate(group)
        if number not in spread(len(group), wanted)
    }
    return [item for item in items if cases == "all" or (item.nodeid in rest) == (cases == "rest")]
