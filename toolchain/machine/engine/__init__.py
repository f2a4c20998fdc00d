"""The container engine: the user's, or Debian's own, which we start with a folder and a socket of its own."""

from toolchain.machine.engine.choice import Engine, ensure, find, remove, stop

__all__ = ["Engine", "ensure", "find", "remove", "stop"]
