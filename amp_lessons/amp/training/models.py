"""Small models to look at: one for each kind of network that mixed precision meets.

Each factory gives ``(model, inputs)`` and allocates what torch allocates: build one under
``torch.device("meta")`` or in a `FakeTensorMode` and it costs nothing. They are made for
`amp_lessons.amp.explain`, and for lessons that need a model which a reader knows.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Example = tuple[nn.Module, tuple[Tensor, ...]]


def mlp(width: int = 128, batch: int = 32) -> Example:
    """Two hidden layers for the digits: input (batch, 64), output (batch, 10)."""
    layers = [nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 10)), (torch.randn(batch, 64),)


def linear_stack(width: int = 4096, layers: int = 3, batch: int = 4096) -> Example:
    """Square linear layers with ReLU between them: input and output (batch, width).

    With the defaults, the network of PyTorch's AMP recipe.
    """
    parts = [part for _ in range(layers - 1) for part in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*parts, nn.Linear(width, width)), (torch.randn(batch, width),)


class ConvNet(nn.Module):
    """Two convolutions with batch norm, a global mean, a classifier."""

    def __init__(self, channels: int = 16) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, padding=1, bias=False)
        self.stem_norm = nn.BatchNorm2d(channels)
        self.block = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.block_norm = nn.BatchNorm2d(channels)
        self.head = nn.Linear(channels, 10)

    def forward(self, images: Tensor) -> Tensor:
        x = F.relu(self.stem_norm(self.stem(images)))
        x = F.relu(x + self.block_norm(self.block(x)))
        return self.head(x.mean(dim=(2, 3)))


def cnn(batch: int = 4) -> Example:
    """A small residual CNN with batch norm: images (batch, 3, 16, 16), output (batch, 10)."""
    return ConvNet(), (torch.randn(batch, 3, 16, 16),)


class Tagger(nn.Module):
    """Embedding, a two-layer LSTM, and a label for each token."""

    def __init__(self, words: int = 100, width: int = 32, labels: int = 5) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, labels)

    def forward(self, tokens: Tensor) -> Tensor:
        hidden, _ = self.lstm(self.embedding(tokens))
        return F.log_softmax(self.head(hidden), dim=-1)


def lstm(batch: int = 4, length: int = 6) -> Example:
    """An LSTM tagger: token ids (batch, length), output (batch, length, 5)."""
    return Tagger(), (torch.zeros(batch, length, dtype=torch.long),)


def transformer_encoder(batch: int = 2, length: int = 16) -> Example:
    """Torch's own encoder, two layers of width 64: input and output (batch, length, 64)."""
    layer = nn.TransformerEncoderLayer(64, nhead=4, dim_feedforward=128, batch_first=True)
    encoder = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
    return encoder, (torch.randn(batch, length, 64),)


class Swish(torch.autograd.Function):
    """x * sigmoid(x) with a backward of its own, and (on purpose) without `custom_fwd`."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return grad * (s + x * s * (1 - s))


class SwishNet(nn.Module):
    """A network whose activation is an autograd.Function."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.first = nn.Linear(64, width)
        self.second = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(Swish.apply(self.first(x)))


def custom_function(batch: int = 32) -> Example:
    """A model with a custom autograd.Function: input (batch, 64), output (batch, 10)."""
    return SwishNet(), (torch.randn(batch, 64),)


class Block(nn.Module):
    """A GPT-2 block: attention and MLP, each after a layer norm, each added to the stream."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        split = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = split.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    """GPT-2's architecture: the head shares the token embedding's weight."""

    def __init__(self, vocabulary: int, context: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids: Tensor) -> Tensor:
        places = torch.arange(ids.shape[1], device=ids.device)
        x = self.tokens(ids) + self.positions(places)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def gpt2(batch: int = 1, length: int = 1024) -> Example:
    """GPT-2's smallest: 12 layers, width 768, 124,439,808 parameters; ids (batch, length)."""
    return GPT(50257, 1024, 768, 12, 12), (torch.zeros(batch, length, dtype=torch.long),)
