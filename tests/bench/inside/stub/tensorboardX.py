"""Stands in for tensorboardX, which Debian lacks: it writes nothing, so the operator's example only gains."""


class SummaryWriter:
    def __init__(self, *arguments: object) -> None:
        pass

    def add_scalar(self, *arguments: object) -> None:
        pass
