"""Distributed training of small image classifiers; the package that the trainer image runs.

Modules that parse options and check data import the standard library only, so that they run on a host without torch.
"""
