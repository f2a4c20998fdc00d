"""Debian's own Prometheus and promtool, unpacked into the cache and not installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolchain.machine import packages
from toolchain.paths import cache


@pytest.fixture(scope="session")
def prometheus() -> Path:
    """The folder with the programs `prometheus` and `promtool`."""
    unpacked = cache() / "debian" / "prometheus"
    if not unpacked.exists():
        packages.unpack("prometheus", unpacked)
    return unpacked / "usr" / "bin"
