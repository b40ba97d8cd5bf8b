"""training.py: the digits, the network and its gradients are the same wherever they are made."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits as original  # its import alone draws from `random`

from amp_lessons.training import digits_gradients, digits_network, load_digits


@pytest.fixture
def global_generators_untouched():
    """Fail a test that leaves a global random generator in another state."""
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    yield
    assert torch.equal(before[0], torch.get_rng_state())
    assert (before[1] == np.random.get_state()[1]).all()
    assert before[2] == random.getstate()


def rows(images: torch.Tensor, labels: torch.Tensor) -> list[tuple]:
    pairs = zip(images.tolist(), labels.tolist(), strict=True)
    return sorted((*image, label) for image, label in pairs)


@pytest.mark.usefixtures("global_generators_untouched")
def test_digits_are_split_without_loss_or_overlap():
    digits = load_digits()
    assert digits.train_images.shape == (1347, 64)
    assert digits.validation_images.shape == (450, 64)
    assert digits.train_labels.shape == (1347,)
    assert digits.validation_labels.shape == (450,)
    images, labels = original(return_X_y=True)
    every = rows(
        torch.cat([digits.train_images, digits.validation_images]),
        torch.cat([digits.train_labels, digits.validation_labels]),
    )
    assert every == rows(torch.tensor(images).float() / 16, torch.tensor(labels))


def test_digits_have_the_promised_dtypes_and_values():
    digits = load_digits()
    for images in (digits.train_images, digits.validation_images):
        assert images.dtype == torch.float32
        assert (images.min(), images.max()) == (0, 1)
    for labels in (digits.train_labels, digits.validation_labels):
        assert labels.dtype == torch.int64
        assert labels.unique().tolist() == list(range(10))


@pytest.mark.usefixtures("global_generators_untouched")
def test_the_seed_alone_decides_the_shuffle():
    first, again, other = load_digits(), load_digits(), load_digits(seed=1)
    assert torch.equal(first.train_images, again.train_images)
    assert torch.equal(first.validation_labels, again.validation_labels)
    assert not torch.equal(first.train_labels, other.train_labels)
    assert first.train_labels.tolist() != sorted(first.train_labels.tolist())


@pytest.mark.parametrize(("share", "train"), [(0.0, 1797), (0.5, 898), (1.0, 0)])
def test_the_validation_share_is_taken_from_the_end(share, train):
    digits = load_digits(validation_share=share)
    assert len(digits.train_labels) == len(digits.train_images) == train
    assert len(digits.validation_labels) == len(digits.validation_images) == 1797 - train
    whole = load_digits(validation_share=0.0)
    assert torch.equal(digits.train_images, whole.train_images[:train])
    assert torch.equal(digits.validation_images, whole.train_images[train:])


@pytest.mark.usefixtures("global_generators_untouched")
def test_the_network_depends_on_its_arguments_alone():
    def weights(network):
        return torch.cat([p.detach().reshape(-1) for p in network.parameters()])

    first = weights(digits_network())
    with torch.random.fork_rng():
        torch.manual_seed(123)
        assert torch.equal(first, weights(digits_network()))
    assert not torch.equal(first, weights(digits_network(seed=1)))
    assert first.dtype == torch.float32


@pytest.mark.parametrize("width", [1, 64, 100])
def test_the_network_takes_images_and_gives_ten_logits(width):
    network = digits_network(width)
    assert network(load_digits().train_images[:5]).shape == (5, 10)
    shapes = [tuple(p.shape) for p in network.parameters()]
    assert shapes == [(width, 64), (width,), (width, width), (width,), (10, width), (10,)]


@pytest.mark.usefixtures("global_generators_untouched")
def test_gradients_are_the_same_each_time():
    first, again = digits_gradients(), digits_gradients()
    assert list(first) == [name for name, _ in digits_network().named_parameters()]
    for name, gradient in first.items():
        assert gradient.dtype == torch.float32
        assert torch.isfinite(gradient).all()
        assert torch.equal(gradient, again[name])


@pytest.mark.parametrize("seed", [0, 1])
def test_gradients_are_those_of_the_mean_cross_entropy(seed):
    digits, network = load_digits(seed=seed), digits_network(width=8, seed=seed)

    def loss(inputs, labels):
        log_p = network.double()(inputs.double()).log_softmax(1)
        return -log_p.gather(1, labels[:, None]).mean()

    exact = torch.autograd.grad(
        loss(digits.train_images[:32], digits.train_labels[:32]), network.parameters()
    )
    ours = digits_gradients(batch=32, width=8, seed=seed)
    for gradient, want in zip(ours.values(), exact, strict=True):
        torch.testing.assert_close(gradient.double(), want, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("power", [-10, 3, 16])
def test_a_loss_factor_that_is_a_power_of_two_scales_each_gradient_bit_for_bit(power):
    plain, scaled = digits_gradients(), digits_gradients(2.0**power)
    for name, gradient in plain.items():
        assert torch.equal(gradient * 2.0**power, scaled[name])


def test_gradients_change_with_batch_width_and_seed():
    base = digits_gradients()["4.bias"]
    assert not torch.equal(base, digits_gradients(batch=255)["4.bias"])
    assert not torch.equal(base, digits_gradients(width=65)["4.bias"])
    assert not torch.equal(base, digits_gradients(seed=1)["4.bias"])
