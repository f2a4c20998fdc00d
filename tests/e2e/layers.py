"""The layers of images, handed on from one clone's registry to the next one's.

For each new registry the engine packs them anew, half a minute of a core for the trainer image (docs/internals), and
few tests are about that. A registry serves layers by their checksums: one that no image asks for changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infra.clusters.kind import registry
from toolchain.machine.engine import Engine

TRAINER = "docker/registry/v2/repositories/trainstack/trainer"
"""What a registry's storage has where it was sent a trainer image."""


class Kept:
    """The layers of one clone of this session.

    Parameters:
        owner: the folder with which they go, one of `clones.owned`.
        image: one with a shell, which copies them.
    """

    def __init__(self, engine: Engine, owner: Path, image: str) -> None:
        self._engine, self._image = engine, image
        self._volume = f"{owner.name}-layers"
        self._label = f"{registry.PROJECT}={owner}"
        self._is_filled = False

    def give(self, clone: Path) -> None:
        """Begin the registry of `clone`, which has none yet, with the layers that are kept, if any are."""
        if self._is_filled:
            self._copy(self._volume, registry.volume(clone), f"{registry.PROJECT}={clone}")

    def keep(self, clone: Path) -> None:
        """Keep what the registry of `clone` holds, unless something is kept or no trainer image was sent there."""
        name = registry.volume(clone)
        if not self._is_filled and self._engine.output(
            "volume", "ls", "--quiet", "--filter", f"name=^{name}$"
        ):
            self._is_filled = self._copy(name, self._volume, self._label)

    def _copy(self, source: str, target: str, label: str) -> bool:
        self._engine.output("volume", "create", "--label", label, target)
        volumes = ("--volume", f"{source}:/from:ro", "--volume", f"{target}:/to")
        script = f"if test -d /from/{TRAINER}; then cp -a /from/. /to && echo copied; fi"
        words = ("--rm", "--network", "none", *volumes, "--entrypoint", "sh", self._image, "-c", script)
        return "copied" in self._engine.output("run", *words)


_kept: list[Kept] = []


@contextmanager
def kept(engine: Engine, owner: Path, image: str) -> Iterator[None]:
    """Inside, what one clone's registry was sent is there for the next one's. `owner`, `image`: see `Kept`."""
    _kept.append(Kept(engine, owner, image))
    try:
        yield
    finally:
        _kept.clear()


def give(clone: Path) -> None:
    """See `Kept.give`; nothing outside `kept`."""
    for each in _kept:
        each.give(clone)


def keep(clone: Path) -> None:
    """See `Kept.keep`; nothing outside `kept`."""
    for each in _kept:
        each.keep(clone)
