"""The path that the published pytorch-simple manifest runs: /opt/pytorch-mnist/mnist.py."""

from trainer.__main__ import run

run()
