"""Questions on the order of the calls in a training step, and after a restart."""

from __future__ import annotations

import random
from dataclasses import dataclass

from amp_lessons.quiz.generators.base import Draft, generator

SOURCE = "PyTorch 2.13 docs, Automatic Mixed Precision examples; run in the proof"

MODELS = (
    "an image classifier",
    "a speech recognizer",
    "a small language model",
    "a segmentation network",
    "a recommender",
    "a translation model",
    "a diffusion model",
    "a vision transformer",
    "a graph network",
    "a ranking model",
)
OPTIMIZERS = ("SGD", "Adam", "AdamW", "RMSprop")

ZERO = "optimizer.zero_grad()"
LOSS = 'with torch.autocast("cuda", torch.float16): loss = loss_fn(model(x), y)'
BACKWARD = "scaler.scale(loss).backward()"
UNSCALE = "scaler.unscale_(optimizer)"
STEP = "scaler.step(optimizer)"
UPDATE = "scaler.update()"

PLAIN_BACKWARD = (
    "loss.backward()",
    "This is a backward pass without the scale: `step` would divide gradients that were never "
    "multiplied.",
)
PLAIN_BACKWARD_UNSCALED = (
    "loss.backward()",
    "This is a backward pass without the scale: `unscale_` would divide gradients that were never "
    "multiplied.",
)
PLAIN_STEP = (
    "optimizer.step()",
    "This steps whatever the gradients are. `scaler.step` divides them if need be, and skips the "
    "step if one is inf or NaN.",
)
SEVERAL = "More than one order can be right."
HALF = ("model.half()", "Under autocast the parameters stay in FP32.")


@dataclass(frozen=True)
class Variant:
    """One kind of training step.

    Attributes:
        what: the end of a sentence that begins with "You train".
        lines, before, slips: as in `items.OrderItem`.
        distractors: lines that don't belong, with the reason.
        explanation: why this order.
        expected: for the proof: a step of the same training in plain FP32.
        setup: for the proof: what else the lines need.
    """

    what: str
    lines: tuple[str, ...]
    before: tuple[tuple[int, int], ...]
    slips: tuple[tuple[int, int, str], ...]
    distractors: tuple[tuple[str, str], ...]
    explanation: str
    expected: str
    setup: str = ""
    task: str = "Put the lines of one training step in order. `.grad` still holds the last step's "
    ending: str = "gradients."

    @property
    def several(self) -> bool:
        """Whether more than one order is right: two lines in a row may change places."""
        neighbours = ((place, place + 1) for place in range(len(self.lines) - 1))
        return any(pair not in self.before for pair in neighbours)


def _plain() -> Variant:
    return Variant(
        what="in FP16 with a GradScaler",
        lines=(ZERO, LOSS, BACKWARD, STEP, UPDATE),
        before=((0, 2), (1, 2), (2, 3), (3, 4)),
        slips=(
            (4, 3, "`update` comes before `step`, so it finds no inf check and raises an error."),
            (2, 0, "You clear the gradients after the backward pass that made them."),
        ),
        distractors=(PLAIN_BACKWARD, PLAIN_STEP, HALF),
        explanation="The old gradients go before the backward pass adds new ones. `step` "
        "divides by "
        "the scale and may skip, and `update` changes the scale last.",
        expected="loss_fn(model(x), y).backward()\nif finite(): optimizer.step()",
    )


def _clip(norm: str) -> Variant:
    clip = f"clip_grad_norm_(model.parameters(), {norm})"
    return Variant(
        what=f"in FP16 with a GradScaler, and clip the gradients to a norm of {norm}",
        lines=(ZERO, LOSS, BACKWARD, UNSCALE, clip, STEP, UPDATE),
        before=((0, 2), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6)),
        slips=(
            (4, 3, "You clip before `unscale_`, so the norm is too large by the loss scale."),
            (5, 4, "You clip after the step: the update has used the gradients already."),
        ),
        distractors=(PLAIN_BACKWARD_UNSCALED, PLAIN_STEP, HALF),
        explanation="`unscale_` divides the gradients, so that the clip sees their true norm. "
        "`step` won't divide them again, and `update` comes last.",
        expected=f"loss_fn(model(x), y).backward()\nfine = finite()\n{clip}\n"
        "if fine: optimizer.step()",
    )


def _accumulate(norm: str = "") -> Variant:
    def loss(number: int) -> str:
        return (
            f'with torch.autocast("cuda", torch.float16): loss_{number} = '
            f"loss_fn(model(x_{number}), y_{number}) / 2"
        )

    backward = [f"scaler.scale(loss_{number}).backward()" for number in (1, 2)]
    clip = [UNSCALE, f"clip_grad_norm_(model.parameters(), {norm})"] if norm else []
    lines = (ZERO, loss(1), backward[0], loss(2), backward[1], *clip, STEP, UPDATE)
    after = tuple((place, place + 1) for place in range(5, len(lines) - 1))
    slips = [(5, 4, f"`{lines[5]}` comes before the second backward pass is done.")]
    if norm:
        slips.append((6, 5, "You clip before `unscale_`, so the norm is too large by the scale."))
    text = f", clip the gradients to a norm of {norm}," if norm else ""
    clipped = f"clip_grad_norm_(model.parameters(), {norm})\n" if norm else ""
    return Variant(
        what=f"in FP16 with a GradScaler{text} and accumulate the gradients of two batches",
        lines=lines,
        before=((0, 2), (0, 4), (1, 2), (3, 4), (2, 5), (4, 5), *after),
        slips=tuple(slips),
        distractors=(
            PLAIN_STEP,
            ("loss_2.backward()", "This is a backward pass without the scale. The two must match."),
            HALF,
        ),
        explanation="Both backward passes add to `.grad` under the same scale. Only after both "
        f"come {'`unscale_` and the clip, then ' if norm else ''}`step` and `update`, once each.",
        expected="((loss_fn(model(x_1), y_1) + loss_fn(model(x_2), y_2)) / 2).backward()\n"
        f"fine = finite()\n{clipped}if fine: optimizer.step()",
        setup="x_1, y_1, x_2, y_2 = x, y, 2 - x, 3 * y",
    )


def _two_optimizers() -> Variant:
    return Variant(
        what="in FP16 with a GradScaler. `optimizer_a` and `optimizer_b` each update a part of it",
        lines=(
            "optimizer_a.zero_grad(); optimizer_b.zero_grad()",
            LOSS,
            BACKWARD,
            "scaler.step(optimizer_a)",
            "scaler.step(optimizer_b)",
            UPDATE,
        ),
        before=((0, 2), (1, 2), (2, 3), (2, 4), (3, 5), (4, 5)),
        slips=(
            (5, 4, "With `update` in between, `optimizer_b` divides by another scale."),
            (5, 3, "With `update` in between, `optimizer_a` divides by another scale."),
        ),
        distractors=(
            PLAIN_BACKWARD,
            ("optimizer_b.step()", PLAIN_STEP[1]),
            ("scaler.unscale_(optimizer)", "No optimizer has this name, and `step` unscales."),
        ),
        explanation="One backward pass serves both optimizers. Each has its own `step`, in either "
        "order, and the scale is updated once, after both.",
        expected="loss_fn(model(x), y).backward()\nif finite(): optimizer_a.step(); "
        "optimizer_b.step()",
    )


def _scheduler() -> Variant:
    return Variant(
        what="in FP16 with a GradScaler. The scheduler must count only steps that weren't skipped",
        lines=(
            ZERO,
            LOSS,
            BACKWARD,
            "scale_before = scaler.get_scale()",
            STEP,
            UPDATE,
            "if scaler.get_scale() >= scale_before: scheduler.step()",
        ),
        before=((0, 2), (1, 2), (2, 4), (3, 5), (4, 5), (5, 6)),
        slips=(
            (6, 5, "The scale falls in `update`. Before it, a skipped step doesn't show."),
            (5, 3, "Here `scale_before` is the scale after `update`."),
        ),
        distractors=(
            ("scheduler.step()", "This counts skipped steps too."),
            PLAIN_BACKWARD,
            PLAIN_STEP,
        ),
        explanation="A skipped step shows only in `update`, where the scale falls. So read "
        "the scale "
        "before it, and compare afterwards.",
        expected="loss_fn(model(x), y).backward()\nif finite(): optimizer.step(); scheduler.step()",
    )


def _restart() -> Variant:
    return Variant(
        what="in FP16 with a GradScaler. The run was stopped, and `saved` is its checkpoint",
        lines=(
            "model = Net().to(device)",
            "optimizer = make_optimizer(model.parameters())",
            "scaler = torch.amp.GradScaler(device)",
            'model.load_state_dict(saved["model"])',
            'optimizer.load_state_dict(saved["optimizer"])',
            'scaler.load_state_dict(saved["scaler"])',
            "train(model, optimizer, scaler)",
        ),
        before=((0, 1), (0, 3), (1, 4), (2, 5), (1, 6), (3, 6), (4, 6), (5, 6)),
        slips=(
            (6, 5, "Training starts with a fresh scale, and the run isn't the same."),
            (4, 1, "There's no optimizer yet that could load its state."),
        ),
        distractors=(
            (
                "scaler.update(65536.0)",
                "Before the first `scale()`, `update` raises an error. And a scale of 65,536 is "
                "not the one that the run had found.",
            ),
            HALF,
            (
                "scaler = torch.amp.GradScaler(device, enabled=False)",
                "A scaler that is disabled loads nothing.",
            ),
        ),
        explanation="Build model, optimizer and scaler, then load the three states, in any order, "
        "and only then train on. The optimizer needs the parameters of this very model.",
        expected="",
        task="Put the lines that continue it in order, ",
        ending="so that it goes on exactly where it stopped.",
    )


@generator("training_loops.gen_call_order", "The order of the calls", level=2, kind="order")
def call_order(rng: random.Random) -> Draft:
    norm = rng.choice(("0.1", "0.25", "0.5", "1.0", "2.0", "5.0"))
    variant = rng.choice(
        (
            _plain,
            _two_optimizers,
            _scheduler,
            _restart,
            lambda: _clip(norm),
            lambda: _clip(norm),
            _accumulate,
            lambda: _accumulate(norm),
        )
    )()
    distractors = rng.sample(variant.distractors, rng.randint(1, 2))
    stray = (
        "One line doesn't belong." if len(distractors) == 1 else "Two of the lines don't belong."
    )
    name = rng.choice(OPTIMIZERS)
    return {
        "prompt": f"You train {rng.choice(MODELS)} with {name} {variant.what}. {variant.task}"
        f"{variant.ending} {stray}{' ' + SEVERAL if variant.several else ''}",
        "hint": "Which line makes what another one needs? And what raises no error, but is wrong?",
        "source": SOURCE,
        "lines": variant.lines,
        "before": variant.before,
        "explanation": variant.explanation,
        "distractor": [{"text": text, "why": why} for text, why in distractors],
        "slip": [{"early": e, "late": late, "why": why} for e, late, why in variant.slips],
        "proof": _proof(variant),
    }


def _proof(variant: Variant) -> str:
    if not variant.expected:
        return _RESTARTED
    return _STEPS.replace("SETUP", variant.setup or "pass").replace(
        "EXPECTED", "\n".join(f"    {line}" for line in variant.expected.splitlines())
    )


_STEPS = """
import torch
from torch.nn.functional import mse_loss
from torch.nn.utils import clip_grad_norm_

DATA = [[1.0, -2.0, 3.0], [2.0, 1.0, -1.0], [float("inf"), 0.0, 0.0], [1.0, 1.0, 2.0]]

def trained(lines):
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 100.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    names = dict(
        torch=torch, clip_grad_norm_=clip_grad_norm_, loss_fn=mse_loss, model=model,
        optimizer=optimizer, scheduler=torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5),
        optimizer_a=torch.optim.SGD([model.weight], lr=0.05),
        optimizer_b=torch.optim.SGD([model.bias], lr=0.02),
        scaler=torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=1),
        finite=lambda: all(p.grad.isfinite().all() for p in model.parameters()),
    )
    for row in DATA:
        names |= dict(x=torch.tensor([row]), y=torch.ones(1, 1))
        exec("SETUP", names)
        for line in lines:
            exec(line, names)
    return list(model.parameters())

expected = trained(['''
optimizer.zero_grad()
if True:
EXPECTED
'''])

def accepts(lines):
    return all(torch.allclose(a, b, atol=1e-6) for a, b in zip(trained(lines), expected))
"""

_RESTARTED = """
import copy
import torch

def train(model, optimizer, scaler):
    for step in range(3):
        optimizer.zero_grad()
        scaler.scale(model(torch.tensor([[1.0, -2.0, 3.0]])).square().sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    results.append((model, optimizer, scaler))

def make_optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=0.1)

def state(run):
    model, optimizer, scaler = run
    moments = [s["exp_avg"] for s in optimizer.state.values()]
    return [*model.parameters(), *moments], scaler.state_dict()

Net, results = lambda: torch.nn.Linear(3, 1), []
model = Net()
optimizer = make_optimizer(model.parameters())
scaler = torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=2)
train(model, optimizer, scaler)
saved = copy.deepcopy({
    "model": model.state_dict(), "optimizer": optimizer.state_dict(),
    "scaler": scaler.state_dict(),
})
train(model, optimizer, scaler)
expected = state(results[-1])

def accepts(lines):
    results.clear()
    names = dict(
        torch=torch, Net=Net, device="cpu", make_optimizer=make_optimizer, train=train,
        saved=copy.deepcopy(saved),
    )
    for line in lines:
        exec(line, names)
    tensors, scale = state(results[-1])
    return scale == expected[1] and all(map(torch.equal, tensors, expected[0]))
"""

GENERATORS = (call_order,)
