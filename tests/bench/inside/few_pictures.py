"""`--data few_pictures:noise`: examples in the shape of MNIST's, as few as a benchmark of speed needs."""

import torch

TRAINED, TESTED = 10_240, 100


def noise(seed: int) -> tuple[tuple[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    count = TRAINED + TESTED
    images = torch.randn(count, 1, 28, 28, generator=generator)
    labels = torch.randint(0, 10, (count,), generator=generator)
    return (images[:TRAINED], labels[:TRAINED]), (images[TRAINED:], labels[TRAINED:])
