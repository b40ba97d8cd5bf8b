"""training.py: the same digits everywhere, and the same training in each precision."""

from __future__ import annotations

import inspect
import math
import random
from itertools import islice

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits as original  # its import alone draws from `random`

from amp_lessons.amp.scaling.scaler_log import ScalerLog, simulate_scaler
from amp_lessons.amp.training import loops
from amp_lessons.amp.training.loops import (
    MODES,
    Batches,
    accuracy,
    digits_gradients,
    digits_network,
    load_digits,
    train_digits,
    train_fp16,
    train_fp16_unscaled,
)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Networks this small gain nothing from more threads, and wait for them on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


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


# ---- batches -----------------------------------------------------------------------------------


def take(batches: Batches, count: int) -> list[list[int]]:
    """Labels of the next batches; the tests below give each image its number as its label."""
    return [labels.tolist() for _, labels in islice(batches, count)]


def numbered(count: int = 10, size: int = 3, seed: int = 0) -> Batches:
    return Batches(torch.arange(count).float()[:, None], torch.arange(count), size, seed)


@pytest.mark.usefixtures("global_generators_untouched")
def test_an_epoch_shows_each_image_once_and_drops_the_rest():
    batches = take(numbered(), 6)
    for epoch in (batches[:3], batches[3:]):
        seen = [number for batch in epoch for number in batch]
        assert len(seen) == len(set(seen)) == 9
        assert seen != sorted(seen)
    assert batches[:3] != batches[3:]


def test_images_stay_with_their_labels():
    for images, labels in islice(numbered(), 5):
        assert images[:, 0].tolist() == labels.tolist()


def test_the_order_depends_on_seed_and_epoch_alone():
    assert take(numbered(), 7) == take(numbered(), 7)
    assert take(numbered(seed=1), 7) != take(numbered(), 7)
    assert take(numbered(seed=1), 3) != take(numbered(), 6)[3:]


@pytest.mark.parametrize("taken", range(8))
def test_batches_go_on_where_they_stood(taken):
    whole = take(numbered(), 10)
    first = numbered()
    assert take(first, taken) == whole[:taken]
    second = numbered(seed=5)
    take(second, 2)
    second.load_state_dict(first.state_dict())
    assert take(second, 10 - taken) == whole[taken:]


@pytest.mark.parametrize("size", [0, -1, 11])
def test_a_batch_that_cannot_be_filled_is_refused(size):
    with pytest.raises(ValueError, match="size must be 1 to 10, the number of images"):
        numbered(size=size)


# ---- the loops ---------------------------------------------------------------------------------

LOOPS = [getattr(loops, f"train_{name}") for name in ("fp32", "bf16", "fp16_unscaled", "fp16")]


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.__name__)
def test_a_loop_fits_on_a_slide(loop):
    lines = inspect.getsource(loop).splitlines()
    assert len(lines) <= 20
    assert max(map(len, lines)) <= 100


@pytest.fixture(scope="module")
def small_loss():
    """The four trainings with a loss that is a million times smaller."""
    return {mode: train_digits(mode, loss_factor=1e-6) for mode in MODES}


def test_a_small_loss_is_learned_in_every_precision_but_unscaled_fp16(small_loss):
    for mode in ("fp32", "fp16", "bf16"):
        assert small_loss[mode].accuracy > 0.8
        assert small_loss[mode].losses[-1] < small_loss[mode].losses[0] / 2
    assert small_loss["fp16 unscaled"].accuracy < 0.2


def test_unscaled_fp16_gradients_are_exactly_zero(small_loss):
    for mode, run in small_loss.items():
        gradients = [p.grad for p in run.network.parameters()]
        assert all(g.dtype == torch.float32 for g in gradients)
        zeros = [not g.any() for g in gradients]
        assert zeros == [mode == "fp16 unscaled"] * 6
    untouched = digits_network().state_dict()
    trained = small_loss["fp16 unscaled"].network.state_dict()
    assert all(torch.equal(untouched[name], trained[name]) for name in untouched)


def test_a_run_says_what_the_scaler_did(small_loss):
    records = small_loss["fp16"].records
    assert len(records) == len(small_loss["fp16"].losses) == 200
    assert [r.scale for r in records] == simulate_scaler(r.found_inf for r in records)
    assert [small_loss[mode].records for mode in MODES if mode != "fp16"] == [[], [], []]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.usefixtures("global_generators_untouched")
def test_the_same_run_twice(mode):
    first, again = (train_digits(mode, 5) for _ in range(2))
    assert first.losses == again.losses
    assert first.records == again.records
    weights = [run.network.state_dict() for run in (first, again)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_a_normal_loss_is_learned_in_every_precision():
    assert all(train_digits(mode, 100).accuracy > 0.7 for mode in MODES)


def test_fp16_with_a_scaler_of_ones_own():
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40, growth_interval=5)
    run = train_digits("fp16", 60, scaler=scaler)
    skipped = [r.step for r in run.records if r.skipped]
    assert skipped
    assert skipped[:3] == [0, 1, 2]  # far too large: the scaler finds its scale first
    assert run.losses[: len(skipped)] != sorted(run.losses[: len(skipped)])
    assert scaler.get_scale() == run.records[-1].scale < 2.0**40
    assert run.losses[-1] < run.losses[0]


def test_a_log_is_taken_as_a_scaler_too():
    log = ScalerLog(torch.amp.GradScaler("cpu", init_scale=8.0))
    run = train_digits("fp16", 3, scaler=log)
    assert [r.scale for r in run.records] == [8.0] * 3
    assert log.records == run.records


def test_a_disabled_scaler_gives_the_unscaled_loop():
    digits = load_digits()
    found = []
    for loop, extra in (
        (train_fp16, [torch.amp.GradScaler("cpu", enabled=False)]),
        (train_fp16_unscaled, []),
    ):
        network = digits_network()
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        batches = islice(Batches(digits.train_images, digits.train_labels), 4)
        found.append(loop(network, optimizer, batches, *extra))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"mode": "fp8"}, "mode must be one of fp32, fp16 unscaled, fp16, bf16; got 'fp8'"),
        ({"mode": "fp32", "steps": 0}, "steps must be 1 or more, got 0"),
        ({"mode": "fp32", "loss_factor": 0.0}, "loss_factor must be a positive finite number"),
        ({"mode": "fp32", "loss_factor": math.inf}, "loss_factor must be a positive finite"),
        ({"mode": "bf16", "scaler": torch.amp.GradScaler("cpu")}, 'belongs to the mode "fp16"'),
        ({"mode": "fp32", "batch": 5000}, "size must be 1 to 1347"),
    ],
)
def test_what_cannot_be_trained_is_refused(arguments, complaint):
    with pytest.raises(ValueError, match=complaint):
        train_digits(**arguments)


# ---- evaluation --------------------------------------------------------------------------------


class Watched(torch.nn.Module):
    """Ten logits that notes how it was called."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(64, 10)
        self.seen = []

    def forward(self, images):
        logits = self.linear(images)
        self.seen.append((logits.dtype, self.training, logits.requires_grad))
        return logits


@pytest.mark.parametrize("dtype", [None, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("was_training", [True, False])
def test_evaluation_is_in_the_precision_of_the_training(dtype, was_training):
    digits, network = load_digits(), Watched().train(was_training)
    accuracy(network, digits.validation_images, digits.validation_labels, dtype)
    assert network.seen == [(dtype or torch.float32, False, False)]
    assert network.training == was_training


def test_accuracy_is_the_share_of_right_answers():
    images = torch.eye(10)[:8]
    labels = torch.tensor([0, 1, 2, 3, 4, 5, 0, 0])
    assert accuracy(torch.nn.Identity(), images, labels) == 0.75


@pytest.mark.parametrize("mode", MODES)
def test_the_loops_watch_the_dtype(mode, monkeypatch):
    """What each mode computes in, seen from inside the network."""
    network = Watched()
    monkeypatch.setattr(loops, "digits_network", lambda width, seed: network)
    train_digits(mode, 2)
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}.get(mode, torch.float16)
    assert network.seen == [(dtype, True, True)] * 2 + [(dtype, False, False)]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("mode", MODES)
def test_on_cuda(mode):
    run = train_digits(mode, loss_factor=1e-6, device="cuda")
    assert (run.accuracy < 0.2) == (mode == "fp16 unscaled")
    assert {p.device.type for p in run.network.parameters()} == {"cuda"}
