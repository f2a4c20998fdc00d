"""Images that are made in the engine: by one command at a time, whichever clone or user it works for."""

from __future__ import annotations

from collections.abc import Callable

from toolchain.machine.engine import Engine
from toolchain.machine.locks import machine_wide


def made_once(engine: Engine, image: str, make: Callable[[], object]) -> str:
    """`image`, made by `make` where the engine lacks it.

    Two builds at once would remove each other's intermediate images. Raises what `make` raises.
    """
    if engine.has_image(image):
        return image
    with machine_wide(f"image-{image.partition(':')[0].rpartition('/')[2]}"):
        if not engine.has_image(image):
            make()
    return image
