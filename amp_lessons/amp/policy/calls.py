"""How to call each operation: names and calls, and not a word on dtypes.

`t(2, 3)` is a floating-point tensor. An op that the installed torch doesn't have, because it is
newer or because it was removed, isn't in the table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


class Inputs:
    """Makes the tensors of a call, and counts those of a floating-point dtype.

    The first gets the first dtype, all others the second. What they hold is valid for every op
    of the table: 0.5 is in the domain of acos, log and erfinv alike.
    """

    def __init__(self, device: str, first: torch.dtype, others: torch.dtype) -> None:
        self.device = device
        self.dtypes = (first, others)
        self.made = 0

    def __call__(self, *shape: int) -> Tensor:
        """A floating-point tensor."""
        return torch.full(shape, 0.5, dtype=self._next(), device=self.device)

    def eye(self, n: int) -> Tensor:
        """The identity, for what needs a matrix that can be inverted."""
        return torch.eye(n, dtype=self._next(), device=self.device)

    def ints(self, value: int, *shape: int) -> Tensor:
        """int64: targets and indices."""
        return torch.full(shape, value, dtype=torch.int64, device=self.device)

    def _next(self) -> torch.dtype:
        self.made += 1
        return self.dtypes[self.made > 1]


_A: Any = torch.ops.aten
_T: Any = torch  # whose stubs know neither all of its functions nor all of their arguments
_NN: Any = torch._C._nn
Call = Callable[[Inputs], Any]


def _has(home: Any, name: str) -> bool:
    """Whether this torch has a function, and it is not the stub of one that was removed.

    ``torch.cholesky`` and its like are gone from ATen, and a function in ``torch._linalg_utils``
    says so when somebody calls it.
    """
    function = getattr(home, name, None)
    return function is not None and getattr(function, "__module__", "") != "torch._linalg_utils"


def _each(home: Any, names: str, *shapes: tuple[int, ...], prefix: str = "") -> dict[str, Call]:
    """Ops of one home that all take tensors of these shapes, and nothing else."""

    def caller(function: Callable[..., Any]) -> Call:
        return lambda t: function(*(t(*shape) for shape in shapes))

    there = (name for name in names.split() if _has(home, name))
    return {prefix + name: caller(getattr(home, name)) for name in there}


def _inverting(home: Any, names: str, prefix: str = "") -> dict[str, Call]:
    """Ops of one home that take a matrix which can be inverted."""

    def caller(function: Callable[..., Any]) -> Call:
        return lambda t: function(t.eye(3))

    there = (name for name in names.split() if _has(home, name))
    return {prefix + name: caller(getattr(home, name)) for name in there}


def _along(names: str) -> dict[str, Call]:
    """Functions of torch that take a matrix and a dimension."""

    def caller(function: Callable[..., Any]) -> Call:
        return lambda t: function(t(4, 4), 1)

    return {name: caller(getattr(torch, name)) for name in names.split()}


def _cell(f: Callable[..., Any], chunks: int, states: int = 1) -> Call:
    """A recurrent cell: input, hidden states, two weights and two biases."""

    def call(t: Inputs) -> Any:
        x, *h = (t(2, 3) for _ in range(1 + states))
        weights = [t(chunks * 3, 3), t(chunks * 3, 3), t(chunks * 3), t(chunks * 3)]
        return f(x, tuple(h) if states > 1 else h[0], *weights)

    return call


def _rnn(f: Callable[..., Any], chunks: int, states: int = 1) -> Call:
    """A recurrent layer of one direction, as `torch.nn.LSTM` and its kin call it."""

    def call(t: Inputs) -> Any:
        x, *h = t(2, 5, 3), *(t(1, 2, 3) for _ in range(states))
        weights = [t(chunks * 3, 3), t(chunks * 3, 3), t(chunks * 3), t(chunks * 3)]
        hidden = tuple(h) if states > 1 else h[0]
        return f(x, hidden, weights, True, 1, 0.0, False, False, True)

    return call


def _attention(t: Inputs) -> Any:
    """`torch.nn.MultiheadAttention`'s function: embedding of 4, two heads."""
    query, key, value = t(5, 2, 4), t(5, 2, 4), t(5, 2, 4)
    weights = (t(12, 4), t(12), None, None, False, 0.0, t(4, 4), t(4))
    return F.multi_head_attention_forward(
        query, key, value, 4, 2, *weights, training=False, need_weights=False
    )


def _ctc(t: Inputs) -> Any:
    lengths = t.ints(6, 2), t.ints(3, 2)
    return F.ctc_loss(t(6, 2, 5), t.ints(1, 2, 3), *lengths)


_LINEAR_ALGEBRA: dict[str, Call] = {
    "linear": lambda t: F.linear(t(2, 4), t(3, 4), t(3)),
    "matmul": lambda t: torch.matmul(t(2, 3), t(3, 4)),
    "__matmul__": lambda t: t(2, 3) @ t(3, 4),
    "mm": lambda t: torch.mm(t(2, 3), t(3, 4)),
    "mv": lambda t: torch.mv(t(2, 3), t(3)),
    "bmm": lambda t: torch.bmm(t(2, 3, 4), t(2, 4, 3)),
    "addmm": lambda t: torch.addmm(t(2, 4), t(2, 3), t(3, 4)),
    "_addmm_activation": lambda t: torch._addmm_activation(t(4), t(2, 3), t(3, 4)),
    "addmv": lambda t: torch.addmv(t(2), t(2, 3), t(3)),
    "addr": lambda t: torch.addr(t(2, 3), t(2), t(3)),
    "addbmm": lambda t: torch.addbmm(t(3, 3), t(2, 3, 4), t(2, 4, 3)),
    "baddbmm": lambda t: torch.baddbmm(t(2, 3, 3), t(2, 3, 4), t(2, 4, 3)),
    "einsum": lambda t: torch.einsum("ij,jk->ik", t(2, 3), t(3, 4)),
    "chain_matmul": lambda t: torch.chain_matmul(t(2, 3), t(3, 4), t(4, 2)),
    "multi_dot": lambda t: torch.linalg.multi_dot([t(2, 3), t(3, 4), t(4, 2)]),
    "linalg_vecdot": lambda t: torch.linalg.vecdot(t(2, 3), t(2, 3)),
    "dot": lambda t: torch.dot(t(4), t(4)),
    "vdot": lambda t: torch.vdot(t(4), t(4)),
    "tensordot": lambda t: torch.tensordot(t(2, 3), t(3, 2), dims=1),
    "inner": lambda t: torch.inner(t(2, 3), t(4, 3)),
    "outer": lambda t: torch.outer(t(3), t(4)),
    "kron": lambda t: torch.kron(t(2, 2), t(2, 2)),
    "cross": lambda t: torch.cross(t(2, 3), t(2, 3), dim=1),
    "bilinear": lambda t: F.bilinear(t(2, 3), t(2, 4), t(5, 3, 4), t(5)),
    "matrix_power": lambda t: torch.linalg.matrix_power(t.eye(3), 2),
    **_inverting(torch, "cholesky cholesky_inverse inverse pinverse trace qr svd geqrf"),
    **_inverting(torch, "_lu_with_info"),
    "cholesky_solve": lambda t: torch.cholesky_solve(t(3, 2), t.eye(3)),
    "lu_solve": lambda t: torch.lu_solve(t(3, 2), t.eye(3), t.ints(1, 3).int()),
    "triangular_solve": lambda t: torch.triangular_solve(t(3, 2), t.eye(3)),
    "orgqr": lambda t: torch.orgqr(t.eye(3), t(3)),
    "ormqr": lambda t: torch.ormqr(t.eye(3), t(3), t(3, 2)),
    **_inverting(torch.linalg, "cholesky cholesky_ex cond eig eigh eigvals eigvalsh", "linalg_"),
    **_inverting(torch.linalg, "inv inv_ex matrix_rank qr svd svdvals det slogdet", "linalg_"),
    **_inverting(torch.linalg, "matrix_sqrth", "linalg_"),  # since 2.14
    "linalg_householder_product": lambda t: torch.linalg.householder_product(t.eye(3), t(3)),
    "linalg_lstsq": lambda t: torch.linalg.lstsq(t.eye(3), t(3, 2)),
    "linalg_solve": lambda t: torch.linalg.solve(t.eye(3), t(3, 2)),
    "linalg_tensorinv": lambda t: torch.linalg.tensorinv(t.eye(3), ind=1),
    "linalg_tensorsolve": lambda t: torch.linalg.tensorsolve(t.eye(3), t(3)),
}

_LAYERS: dict[str, Call] = {
    "conv1d": lambda t: F.conv1d(t(2, 3, 8), t(4, 3, 3), t(4)),
    "conv2d": lambda t: F.conv2d(t(2, 3, 8, 8), t(4, 3, 3, 3), t(4)),
    "conv3d": lambda t: F.conv3d(t(1, 2, 4, 4, 4), t(3, 2, 3, 3, 3), t(3)),
    "conv_tbc": lambda t: torch.conv_tbc(t(8, 2, 3), t(3, 3, 4), t(4)),
    "conv_transpose1d": lambda t: F.conv_transpose1d(t(2, 3, 8), t(3, 4, 3), t(4)),
    "conv_transpose2d": lambda t: F.conv_transpose2d(t(2, 3, 8, 8), t(3, 4, 3, 3), t(4)),
    "conv_transpose3d": lambda t: F.conv_transpose3d(t(1, 2, 4, 4, 4), t(2, 3, 3, 3, 3), t(3)),
    "convolution": lambda t: _T.convolution(
        *(t(2, 3, 8, 8), t(4, 3, 3, 3), t(4)), *([1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    ),
    "_convolution": lambda t: _T._convolution(
        *(t(2, 3, 8, 8), t(4, 3, 3, 3), t(4)),
        *([1, 1], [0, 0], [1, 1], False, [0, 0], 1, False, True, True),
    ),
    "cudnn_convolution": lambda t: _T.cudnn_convolution(
        *(t(2, 3, 8, 8), t(4, 3, 3, 3)), *([0, 0], [1, 1], [1, 1], 1, False, True, True)
    ),
    "cudnn_convolution_transpose": lambda t: _T.cudnn_convolution_transpose(
        *(t(2, 3, 8, 8), t(3, 4, 3, 3)), *([0, 0], [0, 0], [1, 1], [1, 1], 1, False, True, True)
    ),
    "LSTMCell": _cell(torch.lstm_cell, 4, states=2),
    "GRUCell": _cell(torch.gru_cell, 3),
    "RNNCell": _cell(torch.rnn_tanh_cell, 1),
    "rnn_relu_cell": _cell(torch.rnn_relu_cell, 1),
    "_thnn_fused_lstm_cell": lambda t: _A._thnn_fused_lstm_cell(
        t(2, 12), t(2, 12), t(2, 3), t(12), t(12)
    ),
    "_thnn_fused_gru_cell": lambda t: _A._thnn_fused_gru_cell(
        t(2, 9), t(2, 9), t(2, 3), t(9), t(9)
    ),
    "lstm": _rnn(torch.lstm, 4, states=2),
    "gru": _rnn(torch.gru, 3),
    "rnn_tanh": _rnn(torch.rnn_tanh, 1),
    "mkldnn_rnn_layer": lambda t: _T.mkldnn_rnn_layer(
        *(t(5, 2, 3), t(12, 3), t(12, 3), t(12), t(12), t(2, 3), t(2, 3)),
        *(False, [], 2, 3, 1, True, False, False, False),
    ),
    "scaled_dot_product_attention": lambda t: F.scaled_dot_product_attention(
        t(1, 2, 4, 8), t(1, 2, 4, 8), t(1, 2, 4, 8)
    ),
    "_scaled_dot_product_flash_attention": lambda t: _A._scaled_dot_product_flash_attention(
        t(1, 2, 4, 8), t(1, 2, 4, 8), t(1, 2, 4, 8)
    ),
    "_native_multi_head_attention": lambda t: torch._native_multi_head_attention(
        *(t(2, 3, 4), t(2, 3, 4), t(2, 3, 4), 4, 2, t(12, 4), t(12), t(4, 4), t(4))
    ),
    "multi_head_attention": _attention,
    "embedding": lambda t: F.embedding(t.ints(1, 2, 3), t(5, 4)),
    "embedding_bag": lambda t: F.embedding_bag(t.ints(1, 2, 3), t(5, 4)),
    "prelu": lambda t: F.prelu(t(2, 3), t(3)),
    "layer_norm": lambda t: F.layer_norm(t(2, 4), (4,), t(4), t(4)),
    "native_layer_norm": lambda t: torch.native_layer_norm(t(2, 4), (4,), t(4), t(4), 1e-5),
    "rms_norm": lambda t: F.rms_norm(t(2, 4), (4,), t(4)),
    "group_norm": lambda t: F.group_norm(t(2, 4, 3), 2, t(4), t(4)),
    "batch_norm": lambda t: F.batch_norm(t(4, 3), None, None, t(3), t(3), training=True),
    "instance_norm": lambda t: F.instance_norm(t(2, 3, 5)),
    "local_response_norm": lambda t: F.local_response_norm(t(2, 4, 5), 2),
    "normalize": lambda t: F.normalize(t(2, 4)),
    "dropout": lambda t: F.dropout(t(4, 4)),
}

_POINTWISE: dict[str, Call] = {
    **_each(torch, "acos asin atan cosh sinh tan sin cos erf erfinv exp exp2 expm1 log", (4, 4)),
    **_each(torch, "log10 log1p log2 reciprocal rsqrt sqrt square abs neg sigmoid tanh", (4, 4)),
    **_each(torch, "logit clone", (4, 4)),
    **_each(F, "relu gelu silu mish elu selu leaky_relu relu6 hardswish hardsigmoid", (4, 4)),
    **_each(F, "hardtanh softplus softsign logsigmoid tanhshrink glu", (4, 4)),
    **_each(torch, "add sub mul div maximum minimum fmod hypot atan2", (4, 4), (4, 4)),
    **_each(torch, "eq ne ge gt le lt", (4, 4), (4, 4)),
    "pow": lambda t: torch.pow(t(4), 2.5),
    "__pow__": lambda t: t(4) ** 2.5,
    "__rpow__": lambda t: 2.5 ** t(4),
    "__rdiv__": lambda t: t(4).__rdiv__(2.0),
    "__rtruediv__": lambda t: 2.0 / t(4),
    "clamp": lambda t: torch.clamp(t(4), 0.0, 1.0),
    "where": lambda t: torch.where(t.ints(1, 4).bool(), t(4), t(4)),
    "masked_fill": lambda t: t(4).masked_fill(t.ints(1, 4).bool(), 0.0),
    "lerp": lambda t: torch.lerp(t(4), t(4), 0.5),
    "addcdiv": lambda t: torch.addcdiv(t(4), t(4), t(4)),
    "addcmul": lambda t: torch.addcmul(t(4), t(4), t(4)),
    "polar": lambda t: torch.polar(t(4), t(4)),
    "view_as_complex": lambda t: torch.view_as_complex(t(4, 2)),
    "fake_quantize_per_tensor_affine": lambda t: torch.fake_quantize_per_tensor_affine(
        t(4), 0.1, 0, 0, 255
    ),
}

_REDUCTIONS: dict[str, Call] = {
    **_each(torch, "sum prod mean median amax amin max min norm var std argmax nansum", (4, 4)),
    **_each(torch, "count_nonzero diff", (4, 4)),
    **_along("cumsum cumprod logsumexp logcumsumexp cummax sort argsort"),
    "topk": lambda t: torch.topk(t(4), 2),
    "quantile": lambda t: torch.quantile(t(4), 0.5),
    "nanquantile": lambda t: torch.nanquantile(t(4), 0.5),
    "frobenius_norm": lambda t: torch.frobenius_norm(t(4, 4), [0, 1]),
    "nuclear_norm": lambda t: torch.nuclear_norm(t(4, 4)),
    "linalg_vector_norm": lambda t: torch.linalg.vector_norm(t(4)),
    "linalg_matrix_norm": lambda t: torch.linalg.matrix_norm(t(4, 4)),
    "renorm": lambda t: torch.renorm(t(4, 4), 2, 0, 1.0),
    "dist": lambda t: torch.dist(t(4), t(4)),
    "cdist": lambda t: torch.cdist(t(3, 4), t(3, 4)),
    "pdist": lambda t: F.pdist(t(3, 4)),
    "cosine_similarity": lambda t: F.cosine_similarity(t(3, 4), t(3, 4)),
    "softmax": lambda t: F.softmax(t(4, 4), dim=1),
    "log_softmax": lambda t: F.log_softmax(t(4, 4), dim=1),
    "softmin": lambda t: F.softmin(t(4, 4), dim=1),
}

_LOSSES: dict[str, Call] = {
    **_each(F, "mse_loss l1_loss smooth_l1_loss huber_loss kl_div", (4, 4), (4, 4)),
    **_each(F, "poisson_nll_loss binary_cross_entropy", (4, 4), (4, 4)),
    **_each(F, "binary_cross_entropy_with_logits", (4, 4), (4, 4)),
    "soft_margin_loss": lambda t: F.soft_margin_loss(t(4), t.ints(1, 4)),
    "hinge_embedding_loss": lambda t: F.hinge_embedding_loss(t(4), t.ints(1, 4)),
    "margin_ranking_loss": lambda t: F.margin_ranking_loss(t(4), t(4), t(4)),
    "triplet_margin_loss": lambda t: F.triplet_margin_loss(t(3, 4), t(3, 4), t(3, 4)),
    "cosine_embedding_loss": lambda t: F.cosine_embedding_loss(t(3, 4), t(3, 4), t.ints(1, 3)),
    "multi_margin_loss": lambda t: F.multi_margin_loss(t(3, 4), t.ints(1, 3)),
    "multilabel_margin_loss": lambda t: F.multilabel_margin_loss(t(3, 4), t.ints(1, 3, 4)),
    "multilabel_margin_loss_forward": lambda t: _A.multilabel_margin_loss_forward(
        t(3, 4), t.ints(1, 3, 4), 1
    ),
    "multilabel_soft_margin_loss": lambda t: F.multilabel_soft_margin_loss(t(3, 4), t(3, 4)),
    "gaussian_nll_loss": lambda t: F.gaussian_nll_loss(t(4), t(4), t(4)),
    "nll_loss": lambda t: F.nll_loss(t(3, 4), t.ints(1, 3)),
    "nll_loss2d": lambda t: _NN.nll_loss2d(t(2, 3, 4, 4), t.ints(1, 2, 4, 4)),
    "cross_entropy": lambda t: F.cross_entropy(t(3, 4), t.ints(1, 3)),
    "ctc_loss": _ctc,
}

_SHAPES: dict[str, Call] = {
    "cat": lambda t: torch.cat([t(4), t(4)]),
    "stack": lambda t: torch.stack([t(4), t(4)]),
    "flatten": lambda t: torch.flatten(t(2, 3)),
    "transpose": lambda t: torch.transpose(t(2, 3), 0, 1),
    "gather": lambda t: torch.gather(t(2, 3), 1, t.ints(0, 2, 3)),
    "index_select": lambda t: torch.index_select(t(3, 4), 0, t.ints(1, 2)),
    "index_put": lambda t: torch.index_put(t(4), (t.ints(1, 2),), t(2)),
    "index_copy": lambda t: torch.index_copy(t(4), 0, t.ints(1, 1), t(1)),
    "index_add": lambda t: torch.index_add(t(4), 0, t.ints(1, 1), t(1)),
    "scatter": lambda t: torch.scatter(t(2, 3), 1, t.ints(0, 2, 3), t(2, 3)),
    "scatter_add": lambda t: torch.scatter_add(t(2, 3), 1, t.ints(0, 2, 3), t(2, 3)),
    "pad": lambda t: F.pad(t(2, 3), (1, 1)),
    "reflection_pad1d": lambda t: F.pad(t(1, 2, 4), (1, 1), mode="reflect"),
    "reflection_pad2d": lambda t: F.pad(t(1, 2, 4, 4), (1, 1, 1, 1), mode="reflect"),
    "replication_pad1d": lambda t: F.pad(t(1, 2, 4), (1, 1), mode="replicate"),
    "replication_pad2d": lambda t: F.pad(t(1, 2, 4, 4), (1, 1, 1, 1), mode="replicate"),
    "replication_pad3d": lambda t: F.pad(t(1, 2, 4, 4, 4), (1,) * 6, mode="replicate"),
    "max_pool1d": lambda t: F.max_pool1d(t(1, 2, 4), 2),
    "max_pool2d": lambda t: F.max_pool2d(t(1, 2, 4, 4), 2),
    "max_pool3d": lambda t: F.max_pool3d(t(1, 2, 4, 4, 4), 2),
    "avg_pool1d": lambda t: F.avg_pool1d(t(1, 2, 4), 2),
    "avg_pool2d": lambda t: F.avg_pool2d(t(1, 2, 4, 4), 2),
    "avg_pool3d": lambda t: F.avg_pool3d(t(1, 2, 4, 4, 4), 2),
    "adaptive_avg_pool2d": lambda t: F.adaptive_avg_pool2d(t(1, 2, 4, 4), 1),
    "adaptive_avg_pool3d": lambda t: F.adaptive_avg_pool3d(t(1, 2, 4, 4, 4), 2),
    "adaptive_max_pool3d": lambda t: F.adaptive_max_pool3d(t(1, 2, 4, 4, 4), 2),
    "fractional_max_pool2d": lambda t: F.fractional_max_pool2d(
        t(1, 2, 6, 6), 2, output_size=3, _random_samples=t(1, 2, 2)
    ),
    "fractional_max_pool3d": lambda t: F.fractional_max_pool3d(
        t(1, 2, 6, 6, 6), 2, output_size=3, _random_samples=t(1, 2, 3)
    ),
    "max_unpool2d": lambda t: F.max_unpool2d(t(1, 1, 2, 2), t.ints(0, 1, 1, 2, 2), [2, 2]),
    "max_unpool3d": lambda t: F.max_unpool3d(t(1, 1, 2, 2, 2), t.ints(0, 1, 1, 2, 2, 2), [2, 2, 2]),
    "interpolate": lambda t: F.interpolate(t(1, 2, 4, 4), scale_factor=2.0),
    "upsample_nearest1d": lambda t: _NN.upsample_nearest1d(t(1, 2, 4), [8]),
    "upsample_nearest2d": lambda t: _NN.upsample_nearest2d(t(1, 2, 4, 4), [8, 8]),
    "upsample_nearest3d": lambda t: _NN.upsample_nearest3d(t(1, 2, 4, 4, 4), [8, 8, 8]),
    "_upsample_nearest_exact1d": lambda t: _NN._upsample_nearest_exact1d(t(1, 2, 4), [8]),
    "_upsample_nearest_exact2d": lambda t: _NN._upsample_nearest_exact2d(t(1, 2, 4, 4), [8, 8]),
    "_upsample_nearest_exact3d": lambda t: _NN._upsample_nearest_exact3d(
        t(1, 2, 4, 4, 4), [8, 8, 8]
    ),
    "upsample_linear1d": lambda t: _NN.upsample_linear1d(t(1, 2, 4), [8], False),
    "upsample_bilinear2d": lambda t: _NN.upsample_bilinear2d(t(1, 2, 4, 4), [8, 8], False),
    "_upsample_bilinear2d_aa": lambda t: _NN._upsample_bilinear2d_aa(t(1, 2, 4, 4), [8, 8], False),
    "upsample_trilinear3d": lambda t: _NN.upsample_trilinear3d(t(1, 2, 4, 4, 4), [8, 8, 8], False),
    "upsample_bicubic2d": lambda t: _NN.upsample_bicubic2d(t(1, 2, 4, 4), [8, 8], False),
    "_upsample_bicubic2d_aa": lambda t: _NN._upsample_bicubic2d_aa(t(1, 2, 4, 4), [8, 8], False),
    "grid_sample": lambda t: F.grid_sample(t(1, 2, 4, 4), t(1, 3, 3, 2), align_corners=False),
    "grid_sampler_2d": lambda t: torch.grid_sampler_2d(t(1, 2, 4, 4), t(1, 3, 3, 2), 0, 0, False),
    "_grid_sampler_2d_cpu_fallback": lambda t: torch._grid_sampler_2d_cpu_fallback(
        t(1, 2, 4, 4), t(1, 3, 3, 2), 0, 0, False
    ),
    "grid_sampler_3d": lambda t: torch.grid_sampler_3d(
        t(1, 2, 4, 4, 4), t(1, 3, 3, 3, 3), 0, 0, False
    ),
    "stft": lambda t: torch.stft(t(32), 8, return_complex=True, onesided=True),
    **_each(torch.fft, "fft ifft fft2 ifft2 fftn ifftn rfft irfft rfft2", (4, 4), prefix="fft_"),
    **_each(torch.fft, "irfft2 rfftn irfftn hfft ihfft", (4, 4), prefix="fft_"),
}

# What autocast never touches: the same ops in place, with out=, with an explicit dtype=.
_VARIANTS: dict[str, Call] = {
    "addmm_": lambda t: t(2, 4).addmm_(t(2, 3), t(3, 4)),
    "baddbmm_": lambda t: t(2, 3, 3).baddbmm_(t(2, 3, 4), t(2, 4, 3)),
    "exp_": lambda t: t(4).exp_(),
    "pow_": lambda t: t(4).pow_(2.0),
    "add_": lambda t: t(4).add_(t(4)),
    "index_put_": lambda t: t(4).index_put_((t.ints(1, 2),), t(2)),
    "scatter_add_": lambda t: t(2, 3).scatter_add_(1, t.ints(0, 2, 3), t(2, 3)),
    "mm(out=)": lambda t: torch.mm(t(2, 3), t(3, 4), out=t(2, 4)),
    "addmm(out=)": lambda t: torch.addmm(t(2, 4), t(2, 3), t(3, 4), out=t(2, 4)),
    "exp(out=)": lambda t: torch.exp(t(4), out=t(4)),
    "softmax(dtype=)": lambda t: F.softmax(t(4, 4), dim=1, dtype=torch.float64),
    "log_softmax(dtype=)": lambda t: F.log_softmax(t(4, 4), dim=1, dtype=torch.float64),
    "sum(dtype=)": lambda t: torch.sum(t(4, 4), dtype=torch.float64),
    "cumsum(dtype=)": lambda t: torch.cumsum(t(4, 4), 1, dtype=torch.float64),
}

CALLS: dict[str, Call] = {
    **_LINEAR_ALGEBRA,
    **_LAYERS,
    **_POINTWISE,
    **_REDUCTIONS,
    **_LOSSES,
    **_SHAPES,
    **_VARIANTS,
}

OPS: tuple[str, ...] = tuple(CALLS)
"""The names of the ops that can be asked, in the order of the table."""

VARIANTS: tuple[str, ...] = tuple(_VARIANTS)
"""Those that are an op in place, with ``out=`` or with an explicit ``dtype=``."""

# The operator behind a name, where it is called otherwise.
OPERATORS = {
    "__matmul__": "matmul",
    "__pow__": "pow",
    "__rpow__": "pow",
    "multi_dot": "linalg_multi_dot",
    "LSTMCell": "lstm_cell",
    "GRUCell": "gru_cell",
    "RNNCell": "rnn_tanh_cell",
    "cross_entropy": "cross_entropy_loss",
    "grid_sample": "grid_sampler",
}


def operator_of(name: str) -> str:
    """The ATen operator that an op of the table calls."""
    return OPERATORS.get(name, name)
