import re

import pytest
import torch
from torch.nn import functional

from trainer import checkpoint, networks


@pytest.mark.parametrize("name", networks.NETWORKS)
def test_the_docstring_states_the_parameter_count(name: str) -> None:
    network = networks.build(name, seed=1)
    stated = re.search(r"([\d,]+) parameters", networks.NETWORKS[name].__doc__ or "")
    assert stated
    assert int(stated[1].replace(",", "")) == sum(parameter.numel() for parameter in network.parameters())


def test_the_lenet_file_is_as_large_as_the_published_one() -> None:
    size = len(checkpoint.dump(networks.build("lenet", seed=1).state_dict()))
    assert size == pytest.approx(1_725_733, rel=0.01)


def test_pooling_first_gives_the_published_lenet_to_the_bit() -> None:
    network = networks.build("lenet", seed=1)
    x = torch.randn(7, 1, 28, 28)
    y = functional.max_pool2d(functional.relu(network.conv1(x)), 2)
    y = functional.max_pool2d(functional.relu(network.conv2(y)), 2)
    published = network.fc2(functional.relu(network.fc1(y.flatten(1))))
    assert torch.equal(network(x), published)


@pytest.mark.parametrize("name", networks.NETWORKS)
def test_shapes_tell_the_network(name: str) -> None:
    assert networks.matching(networks.build(name, seed=1).state_dict()) == name


def test_foreign_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"no network of ours.*lenet, convnet, fast"):
        networks.matching({"weight": torch.zeros(3)})


def test_normalized_images_have_mean_zero_and_variance_one() -> None:
    grey = torch.full((2, 28, 28), 33, dtype=torch.uint8)
    assert networks.normalize(grey).shape == (2, 1, 28, 28)
    assert networks.normalize(grey).mean().item() == pytest.approx((33 / 255 - 0.1307) / 0.3081, abs=1e-5)
