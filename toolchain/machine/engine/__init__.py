"""The container engine: one that answers, or Debian's own, started by us in a folder and a socket of its own."""

from toolchain.machine.engine.lifecycle import Engine, ensure, find, remove, stop

__all__ = ["Engine", "ensure", "find", "remove", "stop"]
