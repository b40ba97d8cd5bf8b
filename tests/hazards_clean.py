"""Models as careful people write them: no rule may find a hazard in them, in FP16 and in BF16.

Each is a factory of a model and its inputs. Some hold what looks like a mistake and is none: a
square that is bounded, a small eps in float32, a half model that is not trained.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Made = tuple[nn.Module, tuple[Any, ...]]


class Of(nn.Module):
    """A Linear, then a function of it and its output."""

    def __init__(self, function: Callable[..., Any], width: int = 16) -> None:
        super().__init__()
        self.linear, self.second = nn.Linear(width, width), nn.Linear(width, width)
        self.function = function

    def forward(self, x, *rest):
        return self.function(self, self.linear(x), *rest)


def of(function, *rest: Tensor, rows: int = 4) -> Callable[[], Made]:
    return lambda: (Of(function), (torch.randn(rows, 16), *rest))


class RMSNorm(nn.Module):
    """As Hugging Face's llama has it."""

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.variance_epsilon = eps

    def forward(self, hidden_states):
        input_dtype = hidden_states.dtype
        hidden_states = hidden_states.to(torch.float32)
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
        return self.weight * hidden_states.to(input_dtype)


def causal_mask(scores: Tensor) -> Tensor:
    mask = torch.full(scores.shape[-2:], torch.finfo(scores.dtype).min, device=scores.device)
    return torch.triu(mask.to(scores.dtype), diagonal=1)


class Attention(nn.Module):
    """By hand: scaled scores, an additive mask of finfo.min, a softmax in float32."""

    def __init__(self, width: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        b, n, c = x.shape
        qkv = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        scores = q @ k.transpose(-2, -1) / math.sqrt(c // self.heads)
        scores = scores + causal_mask(scores)
        weights = scores.softmax(-1, dtype=torch.float32).to(q.dtype)
        return self.out((weights @ v).transpose(1, 2).reshape(b, n, c))


class Rotary(nn.Module):
    """Rotary positions as Hugging Face has them: angles in float32 with autocast off."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.q, self.k = nn.Linear(width, width), nn.Linear(width, width)
        frequencies = 1.0 / (10000 ** (torch.arange(0, width, 2).float() / width))
        self.register_buffer("inv_freq", frequencies, persistent=False)

    def forward(self, x):
        positions = torch.arange(x.shape[1], device=x.device)[None].float()
        with torch.autocast(x.device.type, enabled=False):
            angles = (self.inv_freq[None, :, None] @ positions[:, None, :]).transpose(1, 2)
            both = torch.cat((angles, angles), dim=-1)
            cos, sin = both.cos(), both.sin()
        q, k = self.q(x), self.k(x)

        def turned(t):
            a, b = t.chunk(2, dim=-1)
            return torch.cat((-b, a), dim=-1)

        cos, sin = cos.to(q.dtype), sin.to(q.dtype)
        q, k = q * cos + turned(q) * sin, k * cos + turned(k) * sin
        return F.scaled_dot_product_attention(q[:, None], k[:, None], k[:, None], is_causal=True)


class LayerScaleBlock(nn.Module):
    """A block of timm's vision transformers."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.gamma1 = nn.Parameter(1e-5 * torch.ones(width))
        self.gamma2 = nn.Parameter(1e-5 * torch.ones(width))
        self.mlp = nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Linear(32, width))

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.gamma1 * self.attention(y, y, y, need_weights=False)[0]
        return x + self.gamma2 * self.mlp(self.norm2(x))


class DropPath(nn.Module):
    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x):
        keep = 1 - self.rate
        mask = x.new_empty((x.shape[0],) + (1,) * (x.ndim - 1)).bernoulli_(keep)
        return x * mask.div_(keep)


class SqueezeExcite(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.SiLU(inplace=True))
        self.down, self.up = nn.Conv2d(8, 2, 1), nn.Conv2d(2, 8, 1)
        self.head, self.drop = nn.Linear(8, 4), DropPath(0.1)

    def forward(self, x):
        x = self.stem(x)
        gate = x.mean((2, 3), keepdim=True)
        x = x + self.drop(x * torch.sigmoid(self.up(F.relu(self.down(gate)))))
        return self.head(x.mean(dim=(2, 3)))


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.conv = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.norm, self.pool = nn.BatchNorm2d(8), nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        x = self.stem(x)
        out = self.norm(self.conv(x))
        out += x
        return self.head(self.pool(F.relu(out)).flatten(1))


class Frozen(nn.Module):
    """A frozen half backbone and a float32 head."""

    def __init__(self, dtype: torch.dtype = torch.float16) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(16, 16), nn.GELU()).to(dtype).requires_grad_(False)
        self.head = nn.Linear(16, 4)

    def train(self, mode: bool = True):
        super().train(mode)
        self.backbone.eval()
        return self

    def forward(self, x):
        with torch.no_grad():
            x = self.backbone(x)
        return self.head(x.float())


class LoRA(nn.Module):
    """A frozen BF16 or FP16 base with float32 adapters."""

    def __init__(self, dtype: torch.dtype = torch.bfloat16) -> None:
        super().__init__()
        self.base = nn.Linear(16, 16).to(dtype).requires_grad_(False)
        self.a, self.b = nn.Linear(16, 2, bias=False), nn.Linear(2, 16, bias=False)
        self.scaling = 16 / 2

    def forward(self, x):
        return self.base(x) + self.b(self.a(x)) * self.scaling


class Average(nn.Module):
    """An average of features in a float32 buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.register_buffer("centre", torch.zeros(16))

    def forward(self, x):
        x = self.linear(x)
        with torch.no_grad():
            self.centre.mul_(0.999).add_(x.detach().float().mean(0), alpha=0.001)
        return x - self.centre.to(x.dtype)


class Average2(Average):
    def forward(self, x):
        x = self.linear(x)
        self.centre.lerp_(x.detach().float().mean(0), 0.001)
        return x - self.centre


class VAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(16, 8), nn.Linear(4, 16)

    def forward(self, x):
        mean, logvar = self.encoder(x).float().chunk(2, -1)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * logvar.clamp(-30, 20))
        kl = -0.5 * (1 + logvar - mean.pow(2) - logvar.clamp(-30, 20).exp()).sum(-1)
        return self.decoder(z), kl.mean()


class Contrastive(nn.Module):
    """CLIP's loss: normalised features, a learned temperature, logits in float32."""

    def __init__(self) -> None:
        super().__init__()
        self.image, self.text = nn.Linear(16, 8), nn.Linear(16, 8)
        self.logit_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self, x, y):
        a, b = F.normalize(self.image(x).float(), dim=-1), F.normalize(self.text(y).float(), dim=-1)
        with torch.autocast(x.device.type, enabled=False):
            logits = self.logit_scale.clamp(max=math.log(100)).exp() * a @ b.t()
        target = torch.arange(len(x), device=x.device)
        return (F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target)) / 2


def simclr(m, x):
    """Similarities of all pairs of unit vectors, over a temperature."""
    z = F.normalize(x.float(), dim=-1)
    similarity = z @ z.t() / 0.1
    eye = torch.eye(len(z), dtype=torch.bool, device=z.device)
    similarity = similarity.masked_fill(eye, torch.finfo(similarity.dtype).min)
    return F.cross_entropy(similarity.float(), torch.arange(len(z), device=z.device))


def focal(m, x, target):
    cross = F.binary_cross_entropy_with_logits(x, target, reduction="none")
    p = torch.sigmoid(x.float())
    right = p * target + (1 - p) * (1 - target)
    return (0.25 * (1 - right) ** 2 * cross).mean()


def dice(m, x, target):
    p = torch.sigmoid(x)
    overlap = (p * target).sum(dtype=torch.float32)
    return 1 - (2 * overlap + 1) / (p.sum(dtype=torch.float32) + target.sum() + 1)


def distillation(m, x):
    student, teacher = F.log_softmax(x.float() / 4, -1), F.softmax(m.second(x).float() / 4, -1)
    return F.kl_div(student, teacher, reduction="batchmean") * 16


def entropy(m, x):
    logp = x.float().log_softmax(-1)
    return -(logp.exp() * logp).sum(-1).mean()


def gumbel(m, x):
    noise = torch.rand(x.shape, device=x.device).clamp_(1e-9, 1 - 1e-7)
    return (x.float() - torch.log(-torch.log(noise))).softmax(-1)


def softmax_by_hand(m, x):
    x = x.float()
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)


def stable_softmax(m, x):
    """The maximum is subtracted, so that exp is at most 1 also in 16 bits."""
    e = torch.exp(x - x.max(-1, keepdim=True).values)
    return e / e.sum(-1, keepdim=True)


def temperature(m, x):
    return (x / 0.7).softmax(-1)


def arcface(m, x):
    with torch.autocast(x.device.type, enabled=False):
        cosine = F.linear(F.normalize(x.float()), F.normalize(m.second.weight.float()))
        cosine = cosine.clamp(-1 + 1e-6, 1 - 1e-6)
        sine = torch.sqrt(1.0 - cosine * cosine)
        return 64 * (cosine * math.cos(0.5) - sine * math.sin(0.5))


def gates(m, x):
    """Squares and products of what is bounded."""
    p = torch.sigmoid(x)
    return p * p * (3 - 2 * p) + torch.tanh(x) * torch.tanh(x)


def swiglu(m, x):
    return m.second(F.silu(x) * m.linear(x))


def quick_gelu(m, x):
    return x * torch.sigmoid(1.702 * x)


def soft_cap(m, x):
    return 30.0 * torch.tanh(x / 30.0)


def sinusoid(m, t):
    """Diffusion's embedding of the time step, in float32."""
    half = 8
    steps = torch.arange(half, dtype=torch.float32, device=t.device)
    frequencies = torch.exp(-math.log(10000) * steps / half)
    angles = t.sum(-1).float()[:, None] * frequencies[None]
    return m.second(torch.cat([angles.cos(), angles.sin()], -1))


def masked_mean(m, x, mask):
    mask = mask.to(x.dtype)[:, None]
    return (x * mask).sum(0) / mask.sum(0).clamp(min=1e-4)


def fourier(m, x):
    return torch.fft.irfft(torch.fft.rfft(x.float(), dim=-1), n=x.shape[-1]).to(x.dtype)


def cumulative(m, x):
    """Positions of the tokens, from a mask of integers."""
    mask = torch.ones(x.shape[0], 4096, dtype=torch.long, device=x.device)
    positions = mask.cumsum(-1) - 1
    return F.embedding(positions % 16, m.second.weight)


def double_for_a_reason(m, x):
    """A sum in float64, back in float32."""
    return x.double().cumsum(0).float() * 0.1


def scalar_of_float64(m, x):
    return x * torch.tensor(0.5, dtype=torch.float64, device=x.device)


def scatter_of_one_dtype(m, x):
    index = torch.zeros(x.shape, dtype=torch.long, device=x.device)
    return torch.zeros_like(x).scatter_add_(0, index, x)


def accumulator(m, x):
    """16-bit terms added to a float32 sum."""
    total = torch.zeros(x.shape, dtype=torch.float32, device=x.device)
    for _ in range(3):
        total += m.second(x)
        total.add_(x)
    return total


def cache_of_keys(m, x):
    cache = x.new_zeros(2, *x.shape)
    cache[0] = x
    cache[1] = m.second(x)
    return cache


def smooth(m, x):
    return F.cross_entropy(x, torch.zeros(len(x), dtype=torch.long, device=x.device),
                           label_smoothing=0.1)  # fmt: skip


def huber(m, x, target):
    return F.smooth_l1_loss(x, target) + F.mse_loss(x, target) + (x - target).abs().mean()


def normalised_by_hand(m, x):
    x = x.float()
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.pow(2).mean(-1, keepdim=True) + 1e-12).sqrt()


def standardised(m, x):
    x = x.float()
    return (x - x.mean(0)) / (x.std(0) + 1e-8)


def decay(m, x):
    """A state-space decay: the exponent is never positive."""
    a = -torch.exp(m.second.weight[0].float())
    return torch.exp(F.softplus(x).float() * a) * x


def mixture(m, x):
    weights = m.second(x).softmax(-1, dtype=torch.float32)
    values, chosen = weights.topk(2)
    values = (values / values.sum(-1, keepdim=True)).to(x.dtype)
    return x * torch.zeros_like(x).scatter(1, chosen, values)


def quantised(m, x):
    return torch.linalg.qr(x.float())[0] + torch.quantile(x.float(), 0.9)


def additive_mask(m, x, mask):
    """An integer mask, as Hugging Face's older models add it."""
    mask = mask[:, None].to(dtype=x.dtype)
    return x + (1.0 - mask) * torch.finfo(x.dtype).min + (1.0 - mask) * -10000.0


def pixel_norm(m, x):
    return x * torch.rsqrt(torch.mean(x.float() ** 2, dim=1, keepdim=True) + 1e-8)


def anchors(m, x):
    """Centres of a feature map's cells, in the dtype of the features."""
    row = torch.arange(80, device=x.device, dtype=x.dtype) + 0.5
    return torch.stack(torch.meshgrid(row, row, indexing="ij"), -1)


def slopes(m, x):
    """ALiBi: relative positions times a slope."""
    positions = torch.arange(1024, device=x.device)
    slope = torch.tensor([0.5, 0.25], device=x.device)[:, None, None]
    return (slope * (positions[None] - positions[:, None])).to(x.dtype)


def by_the_largest(m, x):
    """Divided by the largest magnitude, then squared."""
    scaled = x / (x.abs().amax(-1, keepdim=True) + 1e-4)
    return scaled * scaled


def vicreg(m, x):
    x = x.float() - x.float().mean(0)
    with torch.autocast(x.device.type, enabled=False):
        covariance = x.t() @ x / (len(x) - 1)
    spread = torch.sqrt(x.var(0) + 1e-4)
    return F.relu(1 - spread).mean() + covariance.pow(2).sum()


def glow(m, x):
    """An invertible 1x1 convolution, and its log determinant in float32."""
    return x @ m.second.weight, torch.linalg.slogdet(m.second.weight)[1]


def contrastive(m, x):
    """SupCon: the maximum is subtracted, and each row's own column masked."""
    x = F.normalize(x, dim=1)
    logits = x @ x.t() / 0.1
    logits = logits - logits.amax(1, keepdim=True).detach()
    others = 1 - torch.eye(len(x), device=x.device)
    return logits - torch.log((logits.exp() * others).sum(1, keepdim=True))


def distances_in_float32(m, x):
    """The nearest code of a VQ-VAE, and the distance to it."""
    with torch.autocast(x.device.type, enabled=False):
        x, codes = x.float(), m.second.weight
        squares = x.pow(2).sum(1, keepdim=True) + codes.pow(2).sum(1)
        return (squares - 2 * x @ codes.t()).clamp(min=1e-12).sqrt()


def graph_softmax(m, x):
    """PyG's: the maximum of each node is subtracted, the sum has 1e-16 added in float32."""
    to = torch.arange(len(x), device=x.device) // 2
    score = x.sum(-1)
    most = torch.full((len(x),), -torch.inf, device=x.device, dtype=score.dtype)
    score = (score - most.scatter_reduce(0, to, score.detach(), "amax")[to]).exp()
    total = torch.zeros(len(x), device=x.device, dtype=score.dtype).scatter_add(0, to, score)
    return x * (score / (total + 1e-16)[to])[:, None]


def squashed(m, x):
    """SAC's log probability in the form with a softplus."""
    mean, log_std = x.float().chunk(2, -1)
    action = mean + log_std.clamp(-20, 2).exp() * torch.randn_like(mean)
    return torch.tanh(action), 2 * (math.log(2) - action - F.softplus(-2 * action))


def bits(m, x):
    """BitLinear: the largest magnitude scales to 127."""
    scale = 127.0 / x.abs().amax(-1, keepdim=True).clamp(min=1e-5)
    return F.linear((x * scale).round().clamp(-128, 127) / scale, m.second.weight)


def renormalised(m, x):
    """The weights of the best experts, divided by their sum."""
    weights = x.sigmoid().topk(2, -1).values
    shared = weights / (weights.mean(-1, keepdim=True) + 1e-6)
    return shared, weights / (weights.amax(-1, keepdim=True) + 1e-6)


def averaged(m, x):
    """A row-normalised adjacency of many nodes, and attention over them: rows add up to 1."""
    many = x.repeat(2048, 1)
    return F.softmax(x @ many.t(), -1) @ many.relu()


def encoded(m, x):
    """NeRF's encoding of float32 coordinates, and SIREN's factor of 30."""
    frequencies = 2.0 ** torch.arange(10, device=x.device) * math.pi
    points = torch.rand(4, 1, device=x.device)
    return (points * frequencies).sin(), torch.sin(30 * x)


def rotary_by_exp(m, x):
    """A table of angles by broadcasting in float32, used in the dtype of x."""
    steps = torch.exp(torch.arange(8, device=x.device) * (-math.log(10000) / 8))
    angles = torch.arange(4096, device=x.device).float()[:, None] * steps
    return x[:, :8] * angles[: len(x)].cos().to(x.dtype)


def margins_in_float32(m, x):
    """The end of atanh and of a log, clamped where 1 - 1e-6 is not 1."""
    x = x.float().clamp(-1 + 1e-6, 1 - 1e-6)
    return torch.atanh(x), torch.log(1 - x), torch.acos(x)


def image() -> Tensor:
    return torch.randn(2, 3, 16, 16)


CLEAN: dict[str, Callable[[], Made]] = {
    "Hugging Face's RMSNorm": lambda: (
        nn.Sequential(nn.Linear(16, 16), RMSNorm(16), nn.Linear(16, 16)), (torch.randn(4, 16),)
    ),
    "attention by hand, masked by finfo.min": lambda: (Attention(), (torch.randn(2, 5, 16),)),
    "rotary positions": lambda: (Rotary(), (torch.randn(2, 4096, 16),)),
    "a transformer encoder": lambda: (
        nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2),
        (torch.randn(2, 5, 16),),
    ),
    "a block of a vision transformer": lambda: (LayerScaleBlock(), (torch.randn(2, 5, 16),)),
    "squeeze and excite with average pooling": lambda: (SqueezeExcite(), (image(),)),
    "a residual network's head": lambda: (Residual(), (image(),)),
    "a frozen half backbone": lambda: (Frozen().train(), (torch.randn(4, 16).half(),)),
    "a half model for inference": lambda: (
        nn.Linear(16, 16).half().eval().requires_grad_(False), (torch.randn(4, 16),)
    ),
    "LoRA on a BF16 base": lambda: (LoRA(), (torch.randn(4, 16),)),
    "LoRA on a half base": lambda: (LoRA(torch.float16), (torch.randn(4, 16),)),
    "an average in float32": lambda: (Average(), (torch.randn(4, 16),)),
    "an average by lerp in float32": lambda: (Average2(), (torch.randn(4, 16),)),
    "a variational autoencoder": lambda: (VAE(), (torch.randn(4, 16),)),
    "CLIP's loss": lambda: (Contrastive(), (torch.randn(4, 16), torch.randn(4, 16))),
    "SimCLR's similarities": of(simclr),
    "focal loss with logits": of(focal, torch.ones(4, 16)),
    "dice loss": of(dice, torch.ones(4, 16)),
    "distillation": of(distillation),
    "entropy from log_softmax": of(entropy),
    "Gumbel noise in float32": of(gumbel),
    "a softmax by hand in float32": of(softmax_by_hand),
    "a softmax with its maximum subtracted": of(stable_softmax),
    "a temperature": of(temperature),
    "ArcFace in float32": of(arcface),
    "squares of gates": of(gates),
    "SwiGLU": of(swiglu),
    "QuickGELU": of(quick_gelu),
    "soft-capped logits": of(soft_cap),
    "a sinusoid of the time step": of(sinusoid),
    "a masked mean": of(masked_mean, torch.ones(4)),
    "a Fourier transform in float32": of(fourier),
    "positions as integers": of(cumulative),
    "a float64 sum that comes back": of(double_for_a_reason),
    "a float64 scalar": of(scalar_of_float64),
    "scatter_add_ of one dtype": of(scatter_of_one_dtype),
    "16-bit terms in a float32 sum": of(accumulator),
    "a cache of keys": of(cache_of_keys),
    "label smoothing": of(smooth),
    "regression losses": of(huber, torch.randn(4, 16)),
    "a norm by hand in float32": of(normalised_by_hand),
    "standardised features": of(standardised),
    "a state-space decay": of(decay),
    "a mixture of experts": of(mixture),
    "a decomposition in float32": of(quantised),
    "an additive mask from integers": of(additive_mask, torch.ones(4, dtype=torch.long)),
    "pixel norm": of(pixel_norm),
    "anchors": of(anchors),
    "slopes of relative positions": of(slopes),
    "a square of what the largest divides": of(by_the_largest),
    "VICReg": of(vicreg),
    "an invertible convolution": of(glow),
    "a supervised contrastive loss": of(contrastive),
    "distances in float32": of(distances_in_float32),
    "a softmax over a graph": of(graph_softmax),
    "a squashed Gaussian": of(squashed),
    "a linear layer of 8 bits": of(bits),
    "weights divided by their mean": of(renormalised),
    "an average over many rows": of(averaged),
    "encodings of coordinates": of(encoded),
    "a rotary table in float32": of(rotary_by_exp),
    "margins in float32": of(margins_in_float32),
    "an LSTM": lambda: (nn.LSTM(16, 16, batch_first=True), (torch.randn(2, 5, 16),)),
    "a group norm and an up-convolution": lambda: (
        nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.SiLU(),
                      nn.ConvTranspose2d(8, 3, 2, 2), nn.Tanh()), (image(),)
    ),
}  # fmt: skip
