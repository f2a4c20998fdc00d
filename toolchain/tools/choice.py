"""Chooses pulumi, kind and kubectl: the user's own where it will do, else one that we build."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from toolchain.tools import build, go_modules, installed

# Program -> the folder of toolchain/tools/go that builds it.
MODULES = {"pulumi": "pulumi", "kind": "kind", "kubectl": "kubernetes"}


@dataclass(frozen=True)
class Choice:
    """The user's own program, or None where one has to be built."""

    name: str
    own: Path | None

    def program(self) -> Path:
        """The program's path, after building it where the user has none."""
        if self.own:
            return self.own
        return build.build(go_modules.load(MODULES[self.name]), self.name) / self.name

    @property
    def is_available(self) -> bool:
        return self.own is not None or build.built(go_modules.load(MODULES[self.name]), self.name) is not None


def choose() -> dict[str, Choice]:
    """The choice for each program, after a look at the user's PATH."""
    return {name: Choice(name, installed.find(name)) for name in MODULES}
