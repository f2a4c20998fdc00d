"""One buffer for all parameters changes nothing about what is computed."""

import pytest
import torch
from torch.nn import functional

from tests.inside.conftest import trainer
from trainer import networks
from trainer.optimizers import OPTIMIZERS, Flat
from trainer.recipes import RECIPES

PLAIN = {
    "published-sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.01, momentum=0.5),
    "published-adadelta": lambda parameters: torch.optim.Adadelta(parameters, lr=0.01),
    "fast": lambda parameters: torch.optim.Adam(parameters, lr=0.01, betas=(0.7, 0.9)),
}


@pytest.mark.parametrize("recipe", RECIPES)
def test_steps_are_those_of_torch_optim(recipe: str) -> None:
    settings = RECIPES[recipe]
    network, plain = networks.build("lenet", seed=3), networks.build("lenet", seed=3)
    flat, theirs = Flat(network), PLAIN[recipe](plain.parameters())
    ours = OPTIMIZERS[settings.optimizer](settings, flat.values)
    x, labels = torch.randn(8, 1, 28, 28), torch.arange(8)
    for count in range(3):
        flat.exchanged.zero_()
        functional.cross_entropy(network(x), labels).backward()
        ours.step(flat.values, flat.gradients, 0.01, count)
        theirs.zero_grad()
        functional.cross_entropy(plain(x), labels).backward()
        theirs.step()
    for one, other in zip(network.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", networks.NETWORKS)
def test_gradients_and_the_loss_are_exchanged_in_float32(name: str) -> None:
    """What `make plan` reckons with, docs/plan.md: buffers come on top, of which these have none."""
    network = networks.build(name, seed=1)
    parameters = sum(parameter.numel() for parameter in network.parameters())
    assert Flat(network).exchanged.nbytes == 4 * (parameters + 1)


def test_a_run_never_imports_the_compiler() -> None:
    code = (
        "import sys; from trainer.__main__ import main; main(['--dataset', 'digits']); "
        "print([name for name in ('torch._dynamo', 'torch._inductor') if name in sys.modules])"
    )
    assert trainer(script=code).stdout.splitlines()[-1] == "[]"


def test_parameters_and_gradients_live_in_the_buffers() -> None:
    network = networks.build("fast", seed=1)
    flat = Flat(network)
    network(torch.randn(2, 1, 28, 28)).sum().backward()
    assert flat.gradients.abs().sum() > 0
    flat.values.zero_()
    assert all(parameter.abs().sum() == 0 for parameter in network.parameters())
