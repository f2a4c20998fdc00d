"""The container engine: the user's own, or Debian's, which we install and start with its own folder and socket."""

from toolchain.machine.engine.client import Engine, find
from toolchain.machine.engine.service import Installed, ensure, may_install, other, remove, stop

__all__ = ["Engine", "Installed", "ensure", "find", "may_install", "other", "remove", "stop"]
