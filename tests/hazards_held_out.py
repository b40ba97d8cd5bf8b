"""Mistakes and clean models from an attack by someone who had not read the rules.

The rules missed these mistakes, or accused these models, when they first saw them. `hazards_table`
counts them with the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from hazards_clean import Made, of
from hazards_planted import (
    CANCELS,
    CONSTANT,
    DIFFER,
    EPS,
    FP16,
    GRID,
    GROWS,
    LOG,
    RAISES,
    SUMS,
    WATCH,
    WRONG,
    Planted,
    half,
    points,
)
from torch import Tensor, nn
from torch.nn import functional as F


def slope(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """The gradient of a function at x."""
    x = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(function(x).sum(), x)
    return gradient


def acosh_of_clamped(x):
    """The distance of a hyperboloid model."""
    return torch.acosh(x.clamp(min=1 + 1e-7))


def nearest_code(m, x):
    """The index of VQ-VAE's nearest code."""
    far = x.pow(2).sum(1, keepdim=True) + m.codes.pow(2).sum(1) - 2 * x @ m.codes.t()
    return far.argmin(1)


def far_by_diagonal(x):
    """Squared distances in a kernel of MMD, from the diagonal of one product."""
    products = x @ x.t()
    squares = products.diag()[None].expand_as(products)
    return squares.t() + squares - 2 * products


def kernel_by_diagonal(x):
    return torch.exp(-0.5 * far_by_diagonal(F.normalize(x)))


def dirichlet(x):
    return torch.lgamma(x.sum(-1).to(x.dtype)) - torch.lgamma(x).sum(-1)


def signal_to_noise(m, x):
    """Of a diffusion model whose cumulated alphas were converted to the dtype of x."""
    alphas = m.alphas.to(x.dtype)[:4, None]
    return x * (alphas / (1 - alphas))


def linear_attention(x):
    """Its normaliser: keys that are at least 0, summed over 4096 positions."""
    keys = F.elu(x) + 1
    return torch.einsum("nd,d->n", keys, keys.sum(0))


def timestep_embedding(x, t):
    return x * (t.to(x.dtype)[:, None] * x.new_ones(8)).sin()


def through_features(x, ids):
    return torch.cat([x, ids[:, None].to(x.dtype)], 1)[:, -1].long()


def counted_up(m, x):
    m.steps.add_(1)
    return x


def in_steps(count: int) -> Tensor:
    steps = torch.zeros((), dtype=FP16)
    for _ in range(count):
        steps += 1
    return steps


def scores_with_two_masks(x):
    low = torch.finfo(x.dtype).min
    causal = torch.full((8, 8), low, device=x.device, dtype=x.dtype).triu(1)[:4]
    padding = (1 - (x > 0).to(x.dtype)) * low
    return (x + causal + padding).softmax(-1)


def areas(boxes):
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def overlap(boxes):
    """As torchvision's box_iou has it."""
    sides = (boxes[:, 2:4] - boxes[:, :2]).clamp(min=0)
    return sides[:, 0] * sides[:, 1]


def bag(x):
    """An embedding bag with float32 vectors, weighted by an activation."""
    vectors, indices = torch.ones(10, 4, device=x.device), torch.arange(8, device=x.device)
    return F.embedding_bag(indices[None], vectors, per_sample_weights=x[:1], mode="sum")


def angle(a, b):
    return torch.acos((F.normalize(a) * F.normalize(b)).sum(-1).half())


def log_of_share(x, y):
    """The probability of a binary target."""
    p = x.sigmoid()
    return torch.log(p * y + (1 - p) * (1 - y))


def survival(x):
    return torch.log(1 - 0.5 * (1 + torch.erf(x / math.sqrt(2))))


def masked_attention(x, keep):
    x = x[None, None]
    return F.scaled_dot_product_attention(x, x, x, attn_mask=(1 - keep) * -1e9)


def local_variance(x):
    """SSIM's variance, by a convolution with a window."""
    x, window = x[None, None], torch.full((1, 1, 3, 3), 1 / 9, device=x.device)
    return F.conv2d(x * x, window.to(x.dtype)) - F.conv2d(x, window.to(x.dtype)).pow(2)


BOX = torch.tensor([[0.0, 0.0, 640.0, 480.0]])
ALPHAS = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000), 0)

PLANTED = (
    Planted("log of 1 - exp", lambda x: torch.log(1 - torch.exp(-x.abs()).to(x.dtype)), CANCELS,
            WRONG,
            (lambda: torch.log(1 - torch.exp(-half(1e-4)).half()),
             lambda: torch.log(-torch.expm1(-half(1e-4).float())), math.log(1e-4))),
    Planted("the least acosh", lambda x: acosh_of_clamped(x), EPS, WRONG,
            (lambda: slope(acosh_of_clamped, half(1.001).clamp(max=1)),
             lambda: slope(acosh_of_clamped, torch.tensor([1.001])), 1.001**0.5 / 0.002001**0.5)),
    Planted("torch.minimum as a margin",
            lambda x: torch.atanh(torch.minimum(x.tanh(), torch.tensor(1 - 1e-6))), EPS, WRONG,
            (lambda: torch.atanh(torch.minimum(half(20.0).tanh(), torch.tensor(1 - 1e-6))),
             lambda: torch.atanh(half(20.0).double().tanh().clamp(max=1 - 1e-6)),
             math.atanh(1 - 1e-6))),
    Planted("the distance of codes", nearest_code, CANCELS, WATCH,
            (lambda: (points(10).pow(2).sum() + points(10.1).pow(2).sum()
                      - 2 * (points(10).half() @ points(10.1).half().t())),
             lambda: torch.cdist(points(10), points(10.1)).square(), 8 * 0.01),
            buffers=(("codes", torch.ones(4, 8)),)),
    Planted("a kernel from a diagonal", kernel_by_diagonal, CANCELS, WATCH,
            (lambda: far_by_diagonal(torch.cat([points(10), points(10.1)]).half())[0, 1],
             lambda: torch.cdist(points(10), points(10.1)).square(), 8 * 0.01)),
    Planted("the normaliser of a Dirichlet", dirichlet, CANCELS, WATCH,
            (lambda: torch.lgamma(half(2001.0)) - torch.lgamma(half(2000.0)),
             lambda: torch.lgamma(torch.tensor([2001.0]).double()) - math.lgamma(2000),
             math.log(2000))),
    Planted("half alphas of a diffusion", signal_to_noise, EPS, WRONG,
            (lambda: (lambda a: a / (1 - a))(ALPHAS.half())[0],
             lambda: (lambda a: a / (1 - a))(ALPHAS.double())[0], 9999.0),
            buffers=(("alphas", ALPHAS),)),
    Planted("powers that vanish",
            lambda x: x / (0.5 ** torch.arange(40, device=x.device)).to(x.dtype)[:8], EPS, WRONG,
            (lambda: 2.0**-30 / (0.5 ** torch.tensor([30])).half(),
             lambda: 2.0**-30 / (0.5 ** torch.tensor([30])), 1.0)),
    Planted("float32's eps", lambda x: x / (x.relu() + torch.finfo(torch.float32).eps), GROWS,
            WATCH,
            (lambda: half(-1.0) / (half(-1.0).relu() + torch.finfo(torch.float32).eps),
             lambda: -1.0 / (torch.zeros(1) + 2.0**-23), -(2.0**23))),
    Planted("two masks on scores", scores_with_two_masks, CONSTANT, WATCH,
            (lambda: (half(1.0) + half(-65504.0) + half(-65504.0)).expand(2).softmax(-1)[0],
             lambda: torch.minimum(half(-65504.0), half(-65504.0)).expand(2).softmax(-1)[0],
             0.5)),
    Planted("new_tensor past the end", lambda x: x * x.new_tensor([1.0, 70000.0]).repeat(4),
            CONSTANT, WRONG,
            (lambda: half(0.5) * half(0.5).new_tensor([70000.0]),
             lambda: 0.5 * torch.tensor([70000.0]), 35000.0)),
    Planted("a tensor of -1e9", lambda x: x + torch.tensor(-1e9, dtype=x.dtype, device=x.device),
            CONSTANT, WRONG,
            (lambda: torch.tensor(-1e9, dtype=FP16), lambda: torch.tensor(-1e9), -1e9)),
    Planted("a large number for nan", lambda x: x.nan_to_num(nan=1e6), CONSTANT, WRONG,
            (lambda: half(math.nan).nan_to_num(nan=1e6),
             lambda: half(math.nan).float().nan_to_num(nan=1e6), 1e6)),
    Planted("the area of a box", areas, GROWS, WATCH,
            (lambda: areas(BOX.half()), lambda: areas(BOX), 640.0 * 480)),
    Planted("the overlap of boxes", overlap, GROWS, WATCH,
            (lambda: overlap(BOX.half()), lambda: overlap(BOX), 640.0 * 480)),
    Planted("a Bessel function", lambda x: torch.special.i0(x), GROWS, WATCH,
            (lambda: torch.special.i0(half(14.0)),
             lambda: torch.special.i0(torch.tensor([14.0])), 129418.56)),
    Planted("the normaliser of linear attention", linear_attention, GROWS, WATCH,
            (lambda: half(20.0).float().expand(4096).sum().half(),
             lambda: half(20.0).float().expand(4096).sum(), 81920.0),
            inputs=(torch.randn(4096, 8),)),
    Planted("the overlap with a target",
            lambda x, y: torch.einsum("bn,bn->b", x.sigmoid().reshape(1, -1), y), SUMS, WATCH,
            (lambda: torch.ones(1, 131072, dtype=FP16) @ torch.ones(131072, 1, dtype=FP16),
             lambda: torch.ones(1, 131072) @ torch.ones(131072, 1), 131072.0),
            inputs=(torch.randn(16384, 8), torch.ones(1, 131072))),
    Planted("a half counter", counted_up, GRID, WRONG,
            (lambda: in_steps(3000), lambda: torch.tensor(3000), 3000.0),
            buffers=(("steps", torch.zeros((), dtype=FP16)),)),
    Planted("ids beside features", through_features, GRID, WATCH,
            (lambda: torch.tensor([50001]).half().long() - 50000,
             lambda: torch.tensor([50001]).float().long() - 50000, 1.0),
            inputs=(torch.randn(4, 8), torch.tensor([50001, 2, 3, 4]))),
    Planted("timesteps in half", timestep_embedding, GRID, WATCH,
            (lambda: (torch.tensor([777]).half() * half(0.9)).sin(),
             lambda: (torch.tensor([777]) * half(0.9).float()).sin(),
             math.sin(777 * 0.89990234375)),
            inputs=(torch.randn(4, 8), torch.tensor([777, 1, 2, 3]))),
    Planted("the weights of a bag", bag, DIFFER, RAISES,
            (lambda: bag(half(*range(8))[None]), lambda: bag(torch.arange(8.0)[None]), 28.0)),
    Planted("the angle of two rows", lambda x: angle(x, x.roll(1, 0)), CANCELS, WATCH,
            (lambda: slope(torch.acos, half(1 - 1e-4)),
             lambda: slope(torch.acos, torch.tensor([1 - 1e-4])), -(1 / (2e-4 - 1e-8) ** 0.5))),
    Planted("log of a shifted tanh", lambda x: torch.log((x.tanh() + 1) / 2), LOG, WRONG,
            (lambda: torch.log((half(-6.0).tanh() + 1) / 2),
             lambda: F.logsigmoid(torch.tensor([-12.0])), -12.000006)),
    Planted("log of a scaled sigmoid", lambda x: torch.log(80 * x.sigmoid()), LOG, WRONG,
            (lambda: torch.log(80 * half(-20.0).sigmoid()),
             lambda: F.logsigmoid(torch.tensor([-20.0])) + math.log(80), math.log(80) - 20)),
    Planted("log of the share of a target", log_of_share, LOG, WRONG,
            (lambda: log_of_share(half(12.0), 0.0),
             lambda: F.logsigmoid(-torch.tensor([12.0])), -12.000006),
            inputs=(torch.randn(4, 8), torch.ones(4, 8))),
    Planted("log of the product of two gates",
            lambda x: torch.log(x.sigmoid() * x.roll(1, 0).sigmoid()), LOG, WRONG,
            (lambda: torch.log(half(-10.0).sigmoid() * half(-10.0).sigmoid()),
             lambda: 2 * F.logsigmoid(torch.tensor([-10.0])), -20.000091)),
    Planted("1 - exp divided by x",
            lambda x: (1 - torch.exp(-x.relu()).to(x.dtype)) / (x.relu() + 1), CANCELS, WRONG,
            (lambda: (1 - torch.exp(-half(1e-4)).half()) / half(1e-4),
             lambda: -torch.expm1(-half(1e-4).float()) / half(1e-4).float(), 0.99995)),
    Planted("log of a survival function", survival, LOG, WRONG,
            (lambda: survival(half(4.0)),
             lambda: torch.special.log_ndtr(-torch.tensor([4.0])), -10.360101)),
    Planted("attention with a mask of -1e9", masked_attention, CONSTANT, WATCH,
            (lambda: masked_attention(torch.ones(2, 8, dtype=FP16), torch.zeros(2, 2).half()),
             lambda: masked_attention(torch.ones(2, 8), torch.zeros(2, 2)), 1.0),
            inputs=(torch.randn(4, 8), torch.ones(4, 4))),
    Planted("the variance of SSIM by a window", lambda x: local_variance(x.sigmoid()), CANCELS,
            WRONG,
            (lambda: local_variance((torch.arange(9.0).view(3, 3) / 100 + 0.9).half()),
             lambda: local_variance(torch.arange(9.0).view(3, 3) / 100 + 0.9), 20 / 3 * 1e-4),
            inputs=(torch.randn(8, 8),)),
    Planted("float_power", lambda x: torch.float_power(x, 2).mean(), "float64", WATCH),
)  # fmt: skip


def shared_keys(m, x):
    """Attention whose keys are its queries: no more likely to overflow than other scores."""
    scores = x @ x.t() / 4
    hidden = torch.ones(len(x), len(x), device=x.device, dtype=torch.bool).triu(1)
    return scores.masked_fill(hidden, torch.finfo(scores.dtype).min).softmax(-1) @ x


def barlow_twins(m, x):
    """A correlation of standardised features, with an eps."""
    z = (x - x.mean(0)) / (x.std(0) + 1e-4)
    return z.t() @ z / len(z)


def bounded_cosine(m, x):
    """1 - c * c that stays far from 0."""
    return (1.0 - (x.tanh() * 0.9).float().pow(2)).sqrt()


def kl_of_probabilities(m, x):
    """kl_div's own p * log(p), which is 0 where p is."""
    return F.kl_div(F.log_softmax(m.second(x), -1), F.softmax(x, -1), reduction="batchmean")


def angles_of_pixels(m, x, pixels):
    return x + (pixels.to(x.dtype) / 255).sin()


def complex_by_hand(m, x):
    """Pairs of neighbours, turned by an angle as in a rotary embedding."""
    pairs = x.unflatten(-1, (8, 2))
    a, b = pairs[..., 0], pairs[..., 1]
    return torch.stack([a * 0.8 - b * 0.6, a * 0.6 + b * 0.8], -1).flatten(-2)


def normal_boxes(m, x):
    """Areas of boxes with coordinates between 0 and 1."""
    boxes = x.sigmoid()
    return boxes[:, 2] * boxes[:, 3]


def soft_divisor(m, x):
    return x / (F.softplus(m.second(x)) + 1e-3), x / (x.std() + 1e-5), x / (x.abs() + 1e-5)


def penalty(m, x, mask):
    """A mask of a size that the format holds, subtracted."""
    return (x - 1e4 * (1 - mask.to(x.dtype))).softmax(-1)


def one_minus_exp(m, x):
    """The opacity of a ray, in float32 as autocast's exp gives it."""
    opacity = 1 - torch.exp(-x.float().relu())
    return torch.cumprod(1 - opacity + 1e-10, -1)


def counted_in_64(m, x):
    count = torch.zeros((), dtype=torch.int64, device=x.device)
    count += 1
    return x, x.argmax(1).float().long(), torch.lgamma(x.float() + 1) - torch.lgamma(x.float())


def masked_product(m, x, keep):
    """BERT's mask of -10000 in float32, added by baddbmm."""
    mask = ((1.0 - keep) * -10000.0)[None]
    return torch.baddbmm(mask, x[None], x[None].transpose(1, 2)).softmax(-1)


def expected_position(m, x):
    """A soft argmax, and a gate times a signal."""
    places = torch.arange(16, device=x.device, dtype=x.dtype)
    return (x.softmax(-1).to(x.dtype) * places).sum(-1), torch.log1p((x.sigmoid() * x).abs())


class Slopes(nn.Module):
    """Known numbers between 0 and 1 that 16 bits hold, and a buffer that counts in int64."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.register_buffer("slopes", torch.linspace(0.1, 0.9, 16))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.steps += 1
        slopes = self.slopes.to(x.dtype)
        return self.linear(x) * (slopes / (1 - slopes))


CLEAN: dict[str, Callable[[], Made]] = {
    "attention with shared keys": of(shared_keys, rows=64),
    "Barlow twins": of(barlow_twins, rows=256),
    "a sine that is bounded": of(bounded_cosine),
    "kl_div of probabilities": of(kl_of_probabilities),
    "angles of 8-bit pixels": of(angles_of_pixels, torch.ones(4, 16, dtype=torch.uint8)),
    "pairs that are turned": of(complex_by_hand),
    "boxes between 0 and 1": of(normal_boxes),
    "divisors that grow": of(soft_divisor),
    "a mask of 1e4": of(penalty, torch.ones(4, 16)),
    "a mask in float32 for baddbmm": of(masked_product, torch.ones(4, 4)),
    "the position that is expected": of(expected_position),
    "the opacity of a ray": of(one_minus_exp),
    "counts in int64": of(counted_in_64),
    "numbers that 16 bits hold": lambda: (Slopes(), (torch.randn(4, 16),)),
}
