"""The path that the published traindb manifest runs: /opt/mnist/src/mnist_training.py."""

from trainer.__main__ import run

run()
