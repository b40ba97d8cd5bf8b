"""What `explain_autocast` and `training_memory` say, beside what a real run on this CPU does.

Each case is a kind of model for which the two once differed, or which once could not be followed.
"""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
from collections import Counter

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from amp_lessons.amp.explain import TraceError, explain_autocast
from amp_lessons.amp.fake_tensors.converter import TensorConverter
from amp_lessons.amp.fake_tensors.errors import BAD_INPUT, CANNOT_FOLLOW, MODEL_RAISES
from amp_lessons.amp.memory.training import training_memory

BF16, FP16 = torch.bfloat16, torch.float16
NO_WORK = (
    "detach", "alias", "clone", "contiguous", "lift_fresh", "empty", "empty_like", "new_empty",
    "_unsafe_view", "_to_copy", "empty_strided",
)  # fmt: skip
QUIET = {f"aten::{name}" for name in NO_WORK}


class Of(nn.Module):
    """A function of the module and its inputs, with two layers to use."""

    def __init__(self, function):
        super().__init__()
        self.linear, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.function = function

    def forward(self, *inputs):
        return self.function(self, *inputs)


class Watch(TorchDispatchMode):
    """The ops on floating or complex tensors, with dtypes, and the casts, of a real run."""

    def __init__(self):
        super().__init__()
        self.ops, self.casts = [], 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        given = [t for t in tree_leaves((args, kwargs)) if is_number(t)]
        dtypes = tuple(str(t.dtype).removeprefix("torch.") for t in given)
        result = func(*args, **(kwargs or {}))
        name, made = func._schema.name, [t for t in tree_leaves(result) if is_number(t)]
        if name == "aten::_to_copy" and given and made:
            self.casts += made[0].is_floating_point() and given[0].dtype != made[0].dtype
        elif name not in QUIET and not func.is_view and (given or made):
            self.ops.append((name, dtypes))
        return result


def is_number(value):
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def really(model, *inputs, dtype=BF16, **kwargs):
    """Ops, casts and saved bytes of a real run under autocast on this CPU."""
    own = {t.untyped_storage().data_ptr() for t in (*model.parameters(), *model.buffers())}
    kept = {}

    def pack(tensor):
        if tensor.untyped_storage().data_ptr() not in own:
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage()
        return tensor

    hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
    with torch.autocast("cpu", dtype), hooks, Watch() as seen:
        model(*inputs, **kwargs)
    return seen.ops, seen.casts, sum(storage.nbytes() for storage in kept.values())


def told(explained):
    """The same of an explanation."""
    rows = [row for row in explained.rows if row.op != "aten::_to_copy"]
    inside = [[i.used_as for i in row.inputs] for row in rows]
    own = len(explained.rows) - len(rows)
    ops = [(row.op, tuple(dtypes)) for row, dtypes in zip(rows, inside, strict=True)]
    return ops, explained.totals.casts_forward + own, explained.totals.saved_amp


def agree(model, *inputs, dtype=BF16, **options):
    """Assert that the explanation is what a real run does, and give it back."""
    explained = explain_autocast(model, *inputs, device="cpu", dtype=dtype, **options)
    assert told(explained) == really(model, *inputs, dtype=dtype)
    return explained


# ---- one tensor is one tensor -------------------------------------------------------------------


def attention():
    return nn.MultiheadAttention(8, 2, batch_first=True)


def test_a_tensor_that_is_passed_twice_is_cast_once():
    x = torch.randn(2, 5, 8)
    explained = agree(attention(), x, x, x, values="fake")
    products = [row for row in explained.rows if row.op in ("aten::mm", "aten::addmm")]
    assert len(products) == 2
    y = x.clone()
    assert len(agree(attention(), x, y, y, values="fake").rows) > len(explained.rows)


def test_a_tensor_that_is_also_a_keyword_is_the_same():
    x = torch.randn(2, 5, 8)
    model = attention()
    named = explain_autocast(model, x, kwargs={"key": x, "value": x}, device="cpu", dtype=BF16)
    assert told(named) == told(explain_autocast(model, x, x, x, device="cpu", dtype=BF16))


def test_views_of_one_storage_stay_views_of_it():
    x = torch.randn(4, 8)
    model = Of(lambda m, a, b: m.linear(a).sum() + m.second(b).exp().sum())
    agree(model, x, x[1:], values="fake")
    view = x[1:]
    both = TensorConverter((x, view), torch._subclasses.FakeTensorMode())
    assert both(x, "cpu").untyped_storage()._cdata == both(view, "cpu").untyped_storage()._cdata
    assert both(view, "cpu").storage_offset() == 8


def test_a_real_copy_of_views_is_views():
    x = torch.arange(6.0)
    view, copies = x[2:], None
    copies = TensorConverter((x, view))
    copies(view, "cpu").zero_()
    assert copies(x, "cpu").tolist() == [0, 1, 0, 0, 0, 0]
    assert x.tolist() == [0, 1, 2, 3, 4, 5]


# ---- the CPU's kernels --------------------------------------------------------------------------

NORMS = {
    "layer": (nn.LayerNorm(8), (4, 8)),
    "layer without parameters": (nn.LayerNorm(8, elementwise_affine=False), (4, 8)),
    "group": (nn.GroupNorm(2, 8), (4, 8, 3)),
    "batch": (nn.BatchNorm1d(8), (4, 8)),
    "batch without parameters": (nn.BatchNorm1d(8, affine=False), (4, 8)),
    "batch without statistics": (nn.BatchNorm1d(8, track_running_stats=False), (4, 8)),
    "instance": (nn.InstanceNorm1d(8, affine=True), (4, 8, 3)),
}


@pytest.mark.parametrize("dtype", [BF16, FP16], ids=str)
@pytest.mark.parametrize("name", NORMS)
def test_statistics_of_norms(name, dtype):
    norm, shape = NORMS[name]
    agree(norm, torch.randn(shape, dtype=dtype), dtype=dtype, values="fake")


STRIDES = {
    "batch norm over features": lambda: (
        lambda m, x: m.linear(F.batch_norm(x.transpose(1, 2), None, None, training=True).mT)
    ),
    "channels last": lambda: (
        lambda m, x: m.linear(
            F.batch_norm(
                x[None].permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last),
                None,
                None,
                training=True,
            ).permute(0, 2, 3, 1)
        )
    ),
    "transposed": lambda: lambda m, x: m.linear(x.transpose(0, 1)),
    "rolled": lambda: (
        lambda m, x: m.linear(x[None].permute(0, 3, 1, 2).roll(1, 2).permute(0, 2, 3, 1))
    ),
}


@pytest.mark.parametrize("name", STRIDES)
def test_strides_decide_between_addmm_and_a_product_with_a_sum(name):
    agree(Of(STRIDES[name]()), torch.randn(3, 5, 8), values="fake")


def test_ops_on_complex_numbers_alone_are_rows():
    def function(model, x):
        z = torch.fft.fft(model.linear(x).float())
        return torch.view_as_real(z * z.conj() + z).sum()

    explained = agree(Of(function), torch.randn(4, 8), values="fake")
    inside = [row.dtypes_in for row in explained.rows if row.op == "aten::mul"]
    assert inside == [("complex64", "complex64")]


@pytest.mark.parametrize("steps", [1, 7, 64, 65, 100])
def test_the_workspace_of_an_rnn_is_counted(steps):
    model = nn.LSTM(8, 16)
    x = torch.randn(steps, 3, 8)
    explained = explain_autocast(model, x, device="cpu", dtype=BF16, values="fake")
    _, _, saved = really(model, x)
    assert abs(explained.totals.saved_amp - saved) <= (0 if steps <= 64 else 5 * 4096)
    assert not any("not counted" in note for note in explained.notes)
    # In float32 too: what autograd keeps beside the sequence and the two states.
    assert training_memory(model, x).activations > 16 * steps * 3 * 16


def test_ctc_loss_on_fake_tensors():
    class Speech(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 5)

        def forward(self, x, targets, lengths, target_lengths):
            scores = self.linear(x).float().log_softmax(-1)
            return F.ctc_loss(scores, targets, lengths, target_lengths)

    x, targets = torch.randn(12, 2, 8), torch.randint(1, 5, (2, 6))
    lengths = torch.tensor([12, 10]), torch.tensor([4, 5])
    assert agree(Speech(), x, targets, *lengths, values="fake").values == "fake"
    lists = explain_autocast(Speech(), x, targets, [12, 10], [4, 5], device="cpu", dtype=BF16)
    assert "aten::_ctc_loss" in [row.op for row in lists.rows]
    assert lists.values == "fake"
    for device in ("cpu", "cuda"):
        explained = explain_autocast(Speech(), x, targets, *lengths, device=device)
        assert explained.rows[-1].dtype_out == "float32"


def grouped(dtype):
    def function(model, x):
        weights = torch.ones(2, 8, 16, device=x.device, dtype=dtype)
        ends = torch.tensor([3, 8], dtype=torch.int32, device=x.device)
        return torch._grouped_mm(model.linear(x).to(dtype), weights, offs=ends)

    return Of(function)


@pytest.mark.parametrize("dtype", [torch.float32, FP16, BF16], ids=str)
def test_a_grouped_product_takes_every_floating_dtype(dtype):
    agree(grouped(dtype), torch.randn(8, 8), values="fake")
    rows = explain_autocast(grouped(dtype), torch.randn(8, 8), values="fake").rows
    name = str(dtype).removeprefix("torch.")
    assert (rows[-1].op, rows[-1].dtype_out) == ("aten::_grouped_mm", name)


# ---- values that are known ----------------------------------------------------------------------


class Padded(nn.Module):
    """Looks at its mask, as Hugging Face's models do, and leaves it out where it hides nothing."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(50, 8), nn.Linear(8, 50)

    def forward(self, ids, mask):
        x = self.embedding(ids)
        if not mask.all():
            x = x.masked_fill(~mask[..., None], 0)
        length = int(mask.sum(-1).max())
        return self.head(x[:, :length])


@pytest.mark.parametrize("hidden", [0, 2])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_integers_and_masks_decide_as_in_a_run(hidden, device):
    ids, mask = torch.randint(0, 50, (2, 6)), torch.ones(2, 6, dtype=torch.bool)
    mask[:, 6 - hidden :] = False
    if device == "cpu":
        agree(Padded(), ids, mask, values="fake")
    explained = explain_autocast(Padded(), ids, mask, device=device, values="fake")
    assert explained.values == "fake"
    assert any(row.op == "aten::masked_fill" for row in explained.rows) is bool(hidden)
    assert explained.rows[-1].shape_out[0] == 2 * (6 - hidden)


def graph(model, x, edges):
    """A layer of a graph network: messages along edges, summed where they arrive."""
    kept = edges[:, edges[0] != edges[1]]
    size = int(kept.max()) + 1
    sums = torch.zeros(size, 8, dtype=x.dtype, device=x.device)
    return model.linear(sums.index_add(0, kept[1], x[kept[0]])) + kept.unique().numel()


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_list_of_edges_is_followed(device):
    edges = torch.tensor([[0, 1, 2, 2, 4], [1, 1, 0, 3, 2]])
    if device == "cpu":
        agree(Of(graph), torch.randn(6, 8), edges, values="fake")
    explained = explain_autocast(Of(graph), torch.randn(6, 8), edges, device=device)
    assert explained.values == "fake"
    assert (explained.rows[-1].op, explained.rows[-1].shape_out) == ("aten::add", (5, 8))


def test_what_is_overwritten_with_something_unknown_is_not_known():
    def function(model, x, ids):
        ids = ids.clone()
        ids[0] = model.linear(x).argmax()
        return model.second(x) if ids.sum() > 3 else x

    ids = torch.zeros(3, dtype=torch.long)
    with pytest.raises(TraceError) as caught:
        explain_autocast(Of(function), torch.randn(2, 8), ids, values="fake")
    assert caught.value.kind == CANNOT_FOLLOW


def test_a_layer_that_is_seldom_dropped_runs():
    def function(model, x):
        x = model.linear(x)
        return x if torch.rand([]) < 0.1 else model.second(x)

    for seed in range(8):
        torch.manual_seed(seed)
        rows = explain_autocast(Of(function), torch.randn(2, 8), values="fake").rows
        assert [row.op for row in rows if row.call == "linear"] == ["aten::addmm"] * 2


def test_an_index_past_the_end_of_an_embedding():
    for ids, words in (([0, 50], "index 50"), ([-1, 3], "index -1")):
        for device in ("cpu", "cuda"):
            with pytest.raises(TraceError, match=f"{words} is out of range .* 50 rows") as caught:
                explain_autocast(nn.Embedding(50, 8), torch.tensor(ids), device=device)
            assert caught.value.kind == MODEL_RAISES
        with pytest.raises(IndexError):
            nn.Embedding(50, 8)(torch.tensor(ids))


def test_numbers_in_a_new_tensor():
    def function(model, x, sizes):
        return model.linear(x) + torch.tensor([sizes[0], sizes[1] + 1], device=x.device).sum()

    for device in ("cpu", "cuda"):
        explained = explain_autocast(
            Of(function), torch.randn(2, 8), torch.tensor([3, 4]), device=device, values="fake"
        )
        assert explained.rows[-1].op == "aten::add"


# ---- real values --------------------------------------------------------------------------------


class Experts(nn.Module):
    """A mixture that loops over its experts, and leaves out those that no token chose."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(8, 3)
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

    def forward(self, x):
        chosen = self.router(x).argmax(-1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows = (chosen == number).nonzero()[:, 0]
            if rows.numel():
                out = out.index_copy(0, rows, expert(x[rows]).to(out.dtype))
        return out


def test_a_mixture_of_experts_is_followed_with_real_values():
    torch.manual_seed(0)
    model, x = Experts(), torch.randn(7, 8)
    explained = agree(model, x)
    assert explained.values == "real"
    assert "real values on the CPU" in explained.notes[0]
    calls = {module.path: module.calls for module in explained.modules}
    counts = Counter(model.router(x).argmax(-1).tolist())
    assert [calls[f"experts.{n}"] for n in range(3)] == [int(n in counts) for n in range(3)]


def test_on_cuda_values_come_from_the_cpu_and_rules_from_cuda():
    torch.manual_seed(0)
    model, x = Experts(), torch.randn(7, 8)
    explained = explain_autocast(model, x)
    assert (explained.device, explained.values) == ("cuda", "real")
    assert "the rules are CUDA's" in explained.notes[0]
    tokens = [row.shapes_in[1][0] for row in explained.rows if row.op == "aten::addmm"]
    assert sorted(tokens[1:]) == sorted(Counter(model.router(x).argmax(-1).tolist()).values())


def test_without_values_the_message_says_what_would_help():
    with torch.device("meta"):
        model = nn.Sequential(Of(lambda m, x: x if m.linear(x).sum() > 0 else -x))
    for inputs in (torch.randn(2, 8, device="meta"), torch.randn(2, 8)):
        with pytest.raises(TraceError, match="give the model and its inputs real values") as caught:
            explain_autocast(model, inputs)
        assert caught.value.kind == CANNOT_FOLLOW
        assert "the trace cannot follow this model" in str(caught.value)
        with pytest.raises(TraceError, match="needs values") as caught:
            explain_autocast(model, inputs, values="real")
        assert caught.value.kind == BAD_INPUT


def test_sizes_that_no_one_knows_are_left_open():
    model = Of(lambda m, x: m.second(m.linear(x)[x[:, 0] > 0]).sum())
    for device in ("cpu", "cuda"):
        explained = explain_autocast(
            model, torch.randn(4, 8, device="meta"), device=device, values="fake"
        )
        assert [row.op for row in explained.rows if row.call == "linear"] == ["aten::addmm"] * 2
        assert "sizes that depend on values" in explained.notes[0]
        assert explained.totals.saved_amp > 0


def test_a_sparse_matrix_is_followed_on_the_cpu():
    model = Of(lambda m, a, x: torch.sparse.mm(a, m.linear(x).float()))
    sparse = torch.eye(4).to_sparse()
    for device in ("cpu", "cuda"):
        explained = explain_autocast(model, sparse, torch.randn(4, 8), device=device)
        assert (explained.device, explained.values) == ("cpu", "real")
        assert any("sparse" in row.op or row.op == "aten::mm" for row in explained.rows)
    assert any("CUDA's could not be followed" in note for note in explained.notes)
    with pytest.raises(TraceError, match="sparse") as caught:
        explain_autocast(model, sparse, torch.randn(4, 8), values="fake")
    assert caught.value.kind == CANNOT_FOLLOW


class Tagger(nn.Module):
    """A recurrent network over texts of different lengths, as tutorials write it."""

    def __init__(self, kind, in_order):
        super().__init__()
        self.embed, self.head = nn.Embedding(10, 8), nn.Linear(12, 3)
        self.layers, self.in_order = kind(8, 12, batch_first=True), in_order

    def forward(self, ids, lengths):
        pack, unpack = nn.utils.rnn.pack_padded_sequence, nn.utils.rnn.pad_packed_sequence
        packed = pack(
            self.embed(ids), lengths.cpu(), batch_first=True, enforce_sorted=self.in_order
        )
        return self.head(unpack(self.layers(packed)[0], batch_first=True, total_length=7)[0])


@pytest.mark.parametrize(("kind", "in_order"), [(nn.LSTM, False), (nn.GRU, True)])
def test_packed_sequences_are_followed_on_fake_tensors(kind, in_order):
    model, ids = Tagger(kind, in_order), torch.randint(10, (3, 6))
    lengths = torch.tensor([6, 4, 4] if in_order else [2, 6, 3])
    explained = agree(model, ids, lengths, values="fake")
    with torch.autocast("cpu", BF16):
        output = model(ids, lengths)
    with Watch() as backward:
        output.backward(torch.ones_like(output))
    assert explained.totals.casts_backward == backward.casts
    on_cuda = explain_autocast(model, ids, lengths, values="fake")
    assert on_cuda.rows[-1].shape_out[-1] == 3
    packed = nn.utils.rnn.pack_sequence([torch.randn(5, 8), torch.randn(3, 8)])
    agree(model.layers, packed, values="fake")
    assert explain_autocast(model.layers, packed).device == "cuda"


MASK = torch.tensor([[True, False, True, True], [False, False, True, False]])
FOLLOWED = {
    "elements at a known mask": lambda m, x: F.softmax(m.linear(x)[MASK.to(x.device)], -1),
    "selected by a known mask": lambda m, x: x.masked_select(MASK.to(x.device)[..., None]).exp(),
    "bags of words": lambda m, x: F.embedding_bag(
        torch.tensor([1, 2, 3]), m.linear.weight, torch.tensor([0, 1, 3]), mode="sum",
        per_sample_weights=x[0, 0, :3], include_last_offset=True,
    ),
    "bags' means": lambda m, x: F.embedding_bag(torch.tensor([[1, 2]]), m.linear.weight),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLLOWED)
def test_shapes_that_known_values_decide(name):
    agree(Of(FOLLOWED[name]), torch.randn(2, 4, 8), values="fake")


@pytest.mark.parametrize("padded", [False, True])
def test_the_fast_path_of_an_encoder_is_one_op_on_the_cpu(padded):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model, x = nn.TransformerEncoder(layer, 2).eval(), torch.randn(2, 4, 8)
    mask = torch.tensor([[False] * 4, [False] * 2 + [True] * 2]) if padded else None
    with torch.no_grad():
        explained = agree(model, x, None, mask)
        assert explained.totals.casts_forward == 0
        assert explained.values == ("real" if padded else "fake")
        on_cuda = explain_autocast(model, x)  # there autocast forbids it
    assert on_cuda.totals.casts_forward > 0


def test_values_beside_cuda_tensors_go_on_after_a_softmax():
    def function(model, x):
        chosen = model.linear(x).softmax(-1).argmax(-1)
        scale = float(model.linear(x).detach().cpu().numpy().max())
        return torch.cat([model.second(x[chosen == n]) for n in range(8)]) * scale

    explained = explain_autocast(Of(function), torch.randn(5, 8))
    assert (explained.device, explained.values) == ("cuda", "real")
    rows = [row.shapes_in[1][0] for row in explained.rows if row.call == "linear"]
    assert sum(rows[2:]) == 5


def test_a_branch_of_torch_cond_is_a_branch():
    model = Of(lambda m, x: torch.cond(x.sum() > 0, m.linear, m.second, (x,)))
    explained = explain_autocast(model, torch.ones(2, 8), device="cpu", dtype=BF16)
    assert [row.op for row in explained.rows if row.call == "linear"] == ["aten::addmm"]


class Restless(nn.Module):
    """Changes its inputs, its buffers, its parameters and the random numbers."""

    def __init__(self):
        super().__init__()
        self.norm, self.linear = nn.BatchNorm1d(8), nn.Linear(8, 8)
        self.seen = []

    def forward(self, x, ids):
        x.mul_(2)
        ids.zero_()
        self.seen.append(x)
        with torch.no_grad():
            self.linear.weight.add_(1)
        x = F.dropout(self.norm(self.linear(x)))
        return x if x.sum() > 0 else -x


@pytest.mark.parametrize("values", ["auto", "real"])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_run_with_real_values_changes_nothing(device, values):
    model, x, ids = Restless(), torch.randn(4, 8), torch.arange(3)
    model.linear(x).sum().backward()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    gradient, x_before, state = model.linear.weight.grad.clone(), x.clone(), torch.get_rng_state()
    assert explain_autocast(model, x, ids, device=device, values=values).values == "real"
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    assert torch.equal(model.linear.weight.grad, gradient)
    assert torch.equal(x, x_before)
    assert (ids.tolist(), model.seen) == ([0, 1, 2], [])
    assert torch.equal(torch.get_rng_state(), state)


@functools.lru_cache(maxsize=8)
def positions(size: int, device: str) -> torch.Tensor:
    return torch.arange(size, device=device) / size


@pytest.mark.parametrize("values", ["fake", "auto"])
def test_no_fake_tensor_stays_in_a_models_cache(values):
    model = Of(lambda m, x: m.linear(x) + positions(8, str(x.device)))
    positions.cache_clear()
    ops = [len(explain_autocast(model, torch.randn(2, 8), values=values).rows) for _ in range(2)]
    explain_autocast(model, torch.randn(2, 8), device="cpu", values=values)
    assert ops[0] == ops[1]
    assert type(positions(8, "cpu")) is torch.Tensor
    assert type(model(torch.randn(2, 8))) is torch.Tensor


KEPT: dict[int, torch.Tensor] = {}


class Positions(nn.Module):
    @staticmethod
    @functools.lru_cache(maxsize=8)
    def cached(size: int) -> torch.Tensor:
        return torch.arange(size) / size

    def forward(self, x):
        if 8 not in KEPT:
            KEPT[8] = torch.ones(8)
        return x * KEPT[8] + self.cached(8)


def test_nor_in_a_static_methods_cache_or_in_a_dict():
    KEPT[4] = torch.ones(4)
    explain_autocast(Positions(), torch.randn(2, 8), device="cpu", values="fake")
    assert list(KEPT) == [4]
    assert type(Positions()(torch.randn(2, 8))) is torch.Tensor


LATEST, ALL = None, []


class Keeper:
    """What hooks write into, as notebooks have it."""

    shared = None

    def __init__(self):
        self.last, self.all = None, []

    def hook(self, module, inputs, output):
        self.last = output
        self.all.append(output)


def test_nor_anywhere_else_that_code_keeps_it():
    keeper, seen, kept = Keeper(), {}, None

    def marks(size):
        if not hasattr(marks, "made"):
            marks.made = torch.ones(size)
        return marks.made

    def function(model, x, cache={}):  # noqa: B006
        global LATEST
        nonlocal kept
        LATEST, kept = x, x * 2
        ALL.append(x)
        Keeper.shared = x
        cache["x"] = x
        return model.linear(x) * marks(8)

    model = Of(function)
    model.linear.register_forward_hook(keeper.hook)
    model.linear.register_forward_hook(lambda m, i, o: seen.update(o=o))
    explain_autocast(model, torch.ones(2, 8), device="cpu", values="fake")
    assert (LATEST, ALL, Keeper.shared, keeper.last, keeper.all) == (None, [], None, None, [])
    assert (seen, kept, function.__defaults__, vars(marks)) == ({}, None, ({},), {})


def test_a_module_that_changes_its_dtype_inside_the_forward():
    def function(model, x):
        return model.second.to(torch.float32)(model.linear.to(BF16)(x))

    explained = explain_autocast(Of(function), torch.randn(2, 8), dtype=BF16, values="fake")
    assert [row.op for row in explained.rows if row.call == "linear"] == ["aten::addmm"] * 2


# ---- outcomes, told apart -----------------------------------------------------------------------


def opens_a_file(model, x):
    return torch.load("/no/such/file.pt")


OUTCOMES = {
    "a branch on a value": (lambda m, x: x if x.sum() > 0 else -x, CANNOT_FOLLOW, "cannot follow"),
    "shapes that don't fit": (lambda m, x: m.linear(x[:, :3]), MODEL_RAISES, "the model raises"),
    "an array of a GPU's tensor": (
        lambda m, x: x.numpy() if x.device.type == "cuda" else {}["key"], MODEL_RAISES,
        "the model raises",
    ),
    "the end of the program": (lambda m, x: sys.exit(3), MODEL_RAISES, "let it return instead"),
    "its own error": (lambda m, x: {}["key"], MODEL_RAISES, "the model raises"),
    "a missing file": (opens_a_file, MODEL_RAISES, "No such file"),
    "values in NumPy": (lambda m, x: x + float(m.linear(x).detach().cpu().numpy().sum()),
                        CANNOT_FOLLOW, "cannot follow"),
}  # fmt: skip


@pytest.mark.parametrize("name", OUTCOMES)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_limit_of_the_trace_is_told_from_a_model_that_raises(name, device):
    function, kind, words = OUTCOMES[name]
    with pytest.raises(TraceError, match=words) as caught:
        explain_autocast(Of(function), torch.randn(2, 8), device=device, values="fake")
    assert caught.value.kind == kind
    assert "\n" not in str(caught.value)
    if kind == MODEL_RAISES:
        with pytest.raises((Exception, SystemExit)), torch.autocast("cpu", BF16):
            Of(function)(torch.randn(2, 8))
        with pytest.raises(TraceError) as caught:
            explain_autocast(Of(function), torch.randn(2, 8), device=device)
        assert caught.value.kind == kind
    else:
        assert explain_autocast(Of(function), torch.randn(2, 8), device=device).values == "real"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"values": "true"}, "choose auto, fake, real"),
        ({"loss": 3}, "loss must be called as"),
        ({"device": "tpu"}, "choose cuda or cpu"),
    ],
)
def test_options_that_are_not_known(options, words):
    with pytest.raises(TraceError, match=words) as caught:
        explain_autocast(nn.Linear(8, 8), torch.randn(2, 8), **options)
    assert caught.value.kind == BAD_INPUT


# ---- loss, mode and gradients -------------------------------------------------------------------


def test_the_loss_is_part_of_the_step():
    model, x = nn.Linear(8, 8), torch.randn(4, 8)
    target = torch.tensor([1, 2, 3, 0])
    explained = explain_autocast(
        model, x, device="cpu", dtype=BF16, loss=F.cross_entropy, target=target, values="fake"
    )
    together = Of(lambda m, x, target: F.cross_entropy(m.linear(x), target))
    ops, casts, saved = really(together, x, target)
    assert told(explained) == (ops, casts, saved)
    # A target that is the input itself, as an autoencoder has it, is one tensor.
    same = explain_autocast(model, x, device="cpu", dtype=BF16, loss=F.mse_loss, target=x)
    assert same.totals.saved_amp == really(Of(lambda m, x: F.mse_loss(m.linear(x), x)), x)[2]


def test_a_loss_that_is_a_module_moves_with_the_model():
    loss = nn.CrossEntropyLoss(torch.ones(8), label_smoothing=0.1)
    model, x, target = nn.Linear(8, 8), torch.randn(4, 8), torch.tensor([1, 2, 3, 0])
    explained = explain_autocast(model, x, device="cpu", dtype=BF16, loss=loss, target=target)
    assert told(explained) == really(Of(lambda m, x: loss(model(x), target)), x)
    assert explain_autocast(model, x, loss=loss, target=target).device == "cuda"
    assert training_memory(model, x, loss=loss, target=target, device="cuda").total > 0
    assert loss.weight.tolist() == [1] * 8
    with pytest.raises(TraceError, match="the loss gives NoneType, not a tensor"):
        explain_autocast(model, x, loss=lambda out, y: None)


def test_an_error_of_the_loss_is_told_as_such():
    with pytest.raises(TraceError, match="the loss raises: stopped in the loss") as caught:
        explain_autocast(
            nn.Linear(8, 8), torch.randn(4, 8), loss=lambda out, y: out @ y, target=torch.ones(3)
        )
    assert caught.value.kind == MODEL_RAISES


@pytest.mark.parametrize("values", ["fake", "real"])
def test_training_or_evaluation_and_gradients_can_be_chosen(values):
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)).eval()
    x = torch.randn(4, 8)

    def ops(**options):
        return explain_autocast(model, x, device="cpu", dtype=BF16, values=values, **options)

    assert [row.op for row in ops().rows] == ["aten::addmm"]
    assert ops().totals.casts_forward == 3
    assert len(ops(train=True).rows) > 1
    assert not model.training
    assert ops().totals.saved_amp > 0
    assert ops(grad=False).totals.saved_amp == 0
    assert ops(grad=False).totals.casts_backward == 0
    assert torch.is_grad_enabled()


# ---- Ctrl-C -------------------------------------------------------------------------------------

ENDLESS = """
import time
import torch
from torch import nn
from amp_lessons.amp.explain import explain_autocast
class Endless(nn.Module):
    def forward(self, x):
        print("begun", flush=True)
        while True:
            x = x + 1
            time.sleep(0.01)
explain_autocast(Endless(), torch.ones(2))
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process")
@pytest.mark.slow
def test_ctrl_c_ends_it():
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout.readline() == "begun\n"
        run.send_signal(signal.SIGINT)
        _, words = run.communicate()
    assert words.strip().endswith("KeyboardInterrupt")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process")
def test_ctrl_c_waits_for_the_end_of_what_cpp_called(monkeypatch):
    """An exception there ended the whole process now and then, or was lost."""
    before, ended = signal.getsignal(signal.SIGINT), []

    def pressed(func, args, kwargs):
        os.kill(os.getpid(), signal.SIGINT)
        result = func(*args, **kwargs)
        ended.append(func)
        return result

    monkeypatch.setattr("amp_lessons.amp.explain.recorder.run_op", pressed)
    with pytest.raises(KeyboardInterrupt):
        explain_autocast(nn.Sequential(nn.ReLU(), nn.Sigmoid()), torch.ones(2), device="cpu")
    assert [func._schema.name for func in ended] == ["aten::relu"]
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(
    ("left", "right", "offsets"),
    [((24, 8), (3, 8, 16), 3), ((8, 24), (24, 16), 3), ((3, 24, 8), (3, 8, 16), 0)],
    ids=["an expert's rows", "a gradient of weights", "a batch"],
)
def test_a_grouped_product_counts_its_operations(left, right, offsets):
    class Experts(nn.Module):
        def forward(self, rows, weights, ends=None):
            return torch._grouped_mm(rows, weights, ends)

    ends = [torch.tensor([8, 16, 24], dtype=torch.int32)] if offsets else []
    tensors = [torch.randn(left), torch.randn(right), *ends]
    told = explain_autocast(Experts(), *tensors, device="cuda")
    by_hand = {"24x8": 2 * 24 * 8 * 16, "8x24": 2 * 8 * 24 * 16, "3x24x8": 2 * 3 * 24 * 8 * 16}
    assert told.totals.flops == by_hand["x".join(map(str, left))]
    assert told.totals.share_16bit == 0  # autocast's lists don't name it: the experts run in FP32


def test_without_gradients_nothing_is_cast_in_backward():
    told = explain_autocast(nn.Linear(8, 8), torch.randn(4, 8), device="cuda", grad=False)
    assert told.totals.casts_backward == 0
    assert "backward: no gradients" in str(told)
