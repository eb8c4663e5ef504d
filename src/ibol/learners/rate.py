"""The learning rate over a training."""


def falling(final: float, epoch: int, epochs: int) -> float:
    """What is left of the learning rate at `epoch`: it falls along a straight line from 1 to `final`."""
    return 1 - (1 - final) * epoch / epochs
