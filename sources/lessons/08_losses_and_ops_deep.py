# %% [markdown]
# # Lesson 08, deeper: Losses and ops at their edges
#
# This notebook is optional. It has more formulas that break in 16 bits: Adam in pure FP16, the length of
# a long vector, sums, attention scores, and running averages. Then it looks at what `custom_fwd` and
# `custom_bwd` do, case by case, and puts an op of your own on one of autocast's lists.
# Everything runs on a CPU, even where the text speaks of CUDA.
#
# **Time** [[minutes]] minutes. **Needs** [[lesson losses_and_ops]].

# %%
import warnings

import torch
from torch import nn
from torch.amp import custom_bwd, custom_fwd
from torch.nn import functional as F

from amp_lessons import predict
from amp_lessons.lessons.experiments import both_halves, raised

single, half, bfloat = torch.float32, torch.float16, torch.bfloat16

# %% [markdown]
# ## Adam in pure FP16
#
# Somebody called `model.half()`, so the weights, their gradients and Adam's two averages are FP16. Adam
# divides the average gradient by the root of the average square, plus an eps of 1e-8. In its first step,
# each weight with a gradient should move by the learning rate, here 0.01. Three weights of 1.0 get the
# gradients 1e-5, 0 and 0.01.

# %% tags=["question"]
predict("losses_and_ops.adam_in_pure_fp16")

# %%
for dtype in (single, half, bfloat):
    for fused in (False, True):
        weights = torch.ones(3, dtype=dtype, requires_grad=True)
        weights.grad = torch.tensor([1e-5, 0.0, 1e-2], dtype=dtype)
        torch.optim.Adam([weights], lr=0.01, fused=fused).step()
        shown = ", ".join(f"{weight:.3f}" for weight in weights.tolist())
        print(f"{dtype!s:14} {'fused' if fused else 'plain'}  {shown}")

# %% [markdown]
# BF16 has the range for 1e-8, but its numbers below 1 are 0.004 apart, so 0.99 becomes 0.988. With
# autocast, the parameters and Adam's averages are FP32, and none of this happens.
#
# ## An eps for a logarithm
#
# If a loss needs `log(p + eps)`, the eps must survive, and so must the gradient at p = 0. It is 1/eps,
# times the loss scale. Here are four candidates in FP16. The last is the smallest
# [[term normal number]] of the dtype.

# %%
for eps in (1e-8, 1e-7, 1e-5, torch.finfo(half).smallest_normal):
    p = torch.tensor(0.0, dtype=half, requires_grad=True)
    loss = (p + eps).log()
    gradients = []
    for scale in (1, 4):
        p.grad = None
        (loss.float() * scale).backward(retain_graph=True)
        gradients.append(f"{p.grad.item():,.0f}")
    print(
        f"eps {eps:7.2g}: log {loss.item():5.1f}, gradient {gradients[0]}, times 4 {gradients[1]}"
    )

# %% [markdown]
# Only the last one survives twice, and even that leaves no room for a loss scale of 4. Don't use the
# smallest normal number in FP32 or BF16 either. It is 1e-38 there, and its reciprocal times a loss scale
# of 65,536 is inf. A loss that takes logits needs no eps.
#
# On the other side, `p.clamp(max=1 - 1e-7)` does nothing in 16 bits: 1 − 1e-7 *is* 1 there.

# %%
for dtype in (single, half, bfloat):
    p = torch.tensor(1.0, dtype=dtype).clamp(max=1 - 1e-7)
    print(f"{dtype!s:14} 1 - p = {(1 - p).item():.2g}")

# %% [markdown]
# ## The length of a long vector
#
# `F.cosine_similarity` divides two vectors by their lengths. For a vector and itself, the result should
# be 1. Our vector has the number 40,000 four times, so its length is 80,000. It is FP16, on a CPU, and
# without autocast.

# %% tags=["question"]
predict("losses_and_ops.similar_to_itself")

# %%
for dtype in (single, half, bfloat):
    long = torch.full((1, 4), 40_000.0, dtype=dtype)
    zeros = torch.zeros(1, 4, dtype=dtype, requires_grad=True)
    unit = F.normalize(zeros)
    unit.sum().backward()
    similarity, gradient = F.cosine_similarity(long, long).item(), zeros.grad[0, 0]
    print(f"{dtype!s:14} similarity {similarity:.3g}; for zeros: F.normalize", end=" ")
    print(f"{unit[0, 0].item():.2g}, gradient", end=" ")
    print(f"{gradient.item():.2g}" if gradient.isfinite() else "not finite")

# %% [markdown]
# `F.normalize` has an eps of 1e-12, which is 0 in FP16: a vector of zeros gives 0/0. (Its gradient is NaN in
# PyTorch 2.13, and inf in 2.15.) In FP32 and BF16 the gradient at zero is 1e12. So cast to FP32 first, and
# choose an eps whose reciprocal may be a gradient.
# CUDA's autocast runs `norm` and `cosine_similarity` in FP32; a CPU's doesn't. (On a CPU, both
# `F.normalize` and `nn.LocalResponseNorm` also overflow in FP16.)
#
# ## Sums on the way
#
# Label smoothing adds the mean of −log p over all classes. In FP16, a sum of 10,000 terms of 15 overflows
# before it is divided. `cross_entropy` also sums. In a model that was cast with `.half()` this overflows;
# under a CPU's autocast the loss is FP32. `logsumexp` forms a sum, too. And FP32 alone can't save a
# variance that is computed as the mean of the squares minus the square of the mean.

# %%
logits = torch.zeros(1, 10_000, dtype=half)
logits[0, 0] = 15.0
label = torch.tensor([0])
terms = -F.log_softmax(logits, -1)
print(f"mean of -log p: sum / 10,000 gives {terms.sum().item() / 10_000}, mean {terms.mean():.1f}")
print(f"cross_entropy in FP16: {F.cross_entropy(logits, label, label_smoothing=0.1):.2f}")
with torch.autocast("cpu", dtype=half):
    print(f"under autocast: {F.cross_entropy(logits, label, label_smoothing=0.1):.2f}")
print(f"logsumexp of 70,000 zeros, which is 11.2: {torch.zeros(70_000).half().logsumexp(0)}")
x = torch.tensor([9999.0, 10001.0])  # FP32, with a variance of 1
print(f"mean of squares minus squared mean: {x.square().mean() - x.mean() ** 2:.0f}", end=", ")
print(f"mean subtracted first: {(x - x.mean()).square().mean():.0f}")

# %% [markdown]
# ## Batch norm, twice more
#
# If a channel is constant in training, its running variance goes to 0. Then batch norm divides by
# √1e-5, so it multiplies by 316, and 300 becomes too large for FP16. The second case is `norm.half()`:
# now the running statistics are FP16 too, and the variance of ±600 doesn't fit.

# %%
norm = nn.BatchNorm1d(1).eval()
norm.running_var.zero_()
for dtype in (single, half):
    outputs = norm(torch.tensor([[200.0], [300.0]], dtype=dtype))[:, 0]
    print(f"{dtype!s:14} 200 and 300 become", [round(v, -2) for v in outputs.tolist()])

norm = nn.BatchNorm1d(1).half()
norm(torch.tensor([[-600.0], [600.0]], dtype=half))
print("after .half(): running variance", norm.running_var.item())

# %% [markdown]
# ## Attention scores
#
# Queries and keys of 64 numbers, each of them 40, have a product of 102,400. Divided by √64 = 8 it would
# fit into FP16, but it overflows before the division. So divide the query first, or use
# `scaled_dot_product_attention`, which does all of this inside. (For a row in which a mask of booleans
# leaves nothing, it gives zeros on a CPU.)
#
# Some models keep their scores small by design. **QK-norm** puts queries and keys through a norm. Its
# [paper](https://arxiv.org/abs/2010.04245) divides them by their lengths, and multiplies the score by a
# learned number. Qwen3 and Gemma 3 take RMS norms instead. Below, these have no weights, so no score can
# exceed 8. **Soft-capping** computes `cap * tanh(score / cap)`. Gemma 2 does this with 50 for its scores
# and 30 for its logits ([paper](https://arxiv.org/abs/2408.00118)).

# %%
query, key = torch.full((2, 64), 40.0, dtype=half)
print("divide the score:", ((query @ key) / 8).item())
print("divide the query:", ((query / 8) @ key).item())
normed = F.rms_norm(query, (64,)), F.rms_norm(key, (64,))
print("QK-norm:         ", ((normed[0] / 8) @ normed[1]).item())
score = torch.tensor([20.0, 200.0, 2000.0], requires_grad=True)
capped = 50 * torch.tanh(score / 50)
capped.sum().backward()
print("soft-capping of", score.tolist(), "gives", [round(v, 1) for v in capped.tolist()])
print("with gradients ", [round(g, 3) for g in score.grad.tolist()])

# %% [markdown]
# A capped score of 2,000 gets no gradient. So soft-capping protects the numbers that follow, and doesn't
# pull back the ones that are too large already.
#
# ## Logits that drift
#
# Softmax and `cross_entropy` don't change when you add the same number to all logits. So nothing in this
# loss keeps the logits from drifting away from zero. What does that mean in BF16? We add 1,000 to three
# logits, and store them in BF16.

# %% tags=["question"]
predict("losses_and_ops.shifted_logits")

# %%
logits = torch.tensor([2.25, 1.25, 0.0])
for shift in (0, 10, 100, 1000):
    stored = (logits + shift).bfloat16()
    probabilities = torch.softmax(stored.float(), -1)
    print(f"shift {shift:4}: stored {stored.tolist()}", end=", ")
    print("probabilities", [round(p, 2) for p in probabilities.tolist()])

# %% [markdown]
# The **z-loss** adds 1e-4 times the square of `logsumexp(logits)` to the loss. That pulls `logsumexp` back
# towards zero, and the logits with it. PaLM was trained with it, and its authors found training more
# stable ([paper](https://arxiv.org/abs/2204.02311)). Compute it in FP32.
#
# ## A router that changes its mind
#
# In a mixture of experts, a small linear layer, the *router*, sends each token to the experts with the
# largest logits. If two logits are close, rounding decides. The cell computes the logits of 4,096 tokens
# for 64 experts in three ways, and counts the tokens that get another pair of experts than in FP32.

# %%
draw = torch.Generator().manual_seed(0)
tokens, router = torch.randn(4096, 256, generator=draw), nn.Linear(256, 64, bias=False)
nn.init.normal_(router.weight, std=1 / 16, generator=draw)


def experts(logits):
    return logits.topk(2).indices.sort().values


def in_float32(tokens):
    with torch.autocast("cpu", enabled=False):
        return router(tokens.float())


in_fp32 = experts(router(tokens))
with torch.autocast("cpu", dtype=bfloat):
    ways = {
        "autocast": router(tokens),
        "x.float()": router(tokens.float()),
        "off": in_float32(tokens),
    }
for name, logits in ways.items():
    moved = (experts(logits) != in_fp32).any(1).float().mean()
    print(f"{name:9} {logits.dtype!s:14} {moved:.0%} of the tokens go elsewhere")

# %% [markdown]
# `x.float()` changes nothing, because autocast casts it back for the linear layer. An inner region with
# `enabled=False` keeps the router in FP32. [Switch Transformer](https://arxiv.org/abs/2101.03961) computes
# its router in FP32 too (section 2.4). Two engines round differently as well. In reinforcement learning
# that sends tokens to other experts in training than in serving, and can break the training ([Ma et
# al.](https://arxiv.org/abs/2510.11370)).
#
# ## A running average that stands still
#
# A buffer of your own decides for everything that is added to it, because ops in place keep its dtype.
# This average of ones should be at 0.99 after 5,000 steps.

# %%
for dtype in (single, half, bfloat):
    average, one = torch.zeros((), dtype=dtype), torch.ones((), dtype=dtype)
    for _ in range(5000):
        average.mul_(0.999).add_(one, alpha=0.001)
    print(f"{dtype!s:14} {average.item():.2f}")

# %% [markdown]
# Under autocast, `zeros_like(h)` makes a 16-bit buffer if `h` is 16-bit. Name the dtype:
# `zeros_like(h, dtype=torch.float32)`.
#
# ## What the two halves of a Function see
#
# `both_halves` calls an `autograd.Function` with an FP16 input. It reports the state of autocast in both
# halves, and the dtype of the input in `forward`. The forward pass runs in a region of FP16, unless a line
# says otherwise.

# %%
fwd, bwd = custom_fwd(device_type="cpu"), custom_bwd(device_type="cpu")
wide = custom_fwd(device_type="cpu", cast_inputs=single)
other = custom_fwd(device_type="cuda", cast_inputs=single)
print("no decorator       ", both_halves())
print("  backward in BF16 ", both_halves(backward_in=bfloat))
print("both               ", both_halves(fwd=fwd, bwd=bwd))
print("  backward in BF16 ", both_halves(fwd=fwd, bwd=bwd, backward_in=bfloat))
print("  no region        ", both_halves(fwd=fwd, bwd=bwd, forward_in=None))
print("custom_bwd alone   ", both_halves(bwd=bwd))
print("cast_inputs        ", both_halves(fwd=wide, bwd=bwd))
print("  no region        ", both_halves(fwd=wide, bwd=bwd, forward_in=None))
print("  of CUDA, on a CPU", both_halves(fwd=other, bwd=bwd))

# %% [markdown]
# `custom_fwd` notes a state, and `custom_bwd` restores it. Only `cast_inputs` casts, and it also switches
# autocast off in both halves. Outside a region it does nothing. For another type of device than that of
# your tensors, it does nothing to them either. Write the type without an index: with "cuda:0" it casts
# nothing, and nothing tells you.
#
# ## Two ways to get the decorators wrong
#
# In the newer style, `forward` has no `ctx`, and a `setup_context` saves what the backward pass needs.
# `custom_fwd` takes its first argument for `ctx`. Here that is `x`.


# %%
class Newer(torch.autograd.Function):
    @staticmethod
    @custom_fwd(device_type="cpu")
    def forward(x, weight):
        return x @ weight

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    @custom_bwd(device_type="cpu")
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        return gradient @ weight.T, x.T @ gradient


# %%
x, weight = torch.ones(2, 3, requires_grad=True), torch.ones(3, 4, requires_grad=True)
with torch.autocast("cpu", dtype=half):
    y = Newer.apply(x, weight)
print("setup_context:", raised(lambda: y.sum().backward()))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    torch.cuda.amp.custom_fwd(Newer.forward)
print("torch.cuda.amp.custom_fwd:", caught[0].category.__name__)

# %% [markdown]
# So the note ends up on your tensor
# ([issue 132388](https://github.com/pytorch/pytorch/issues/132388)). In that style, note the state in
# `setup_context` yourself, and open a region with it in `backward`.
#
# The old name `torch.cuda.amp.custom_fwd` works and warns. It means `device_type="cuda"`.
#
# `torch.autograd.gradcheck` accepts a Function without decorators, in a region too. It wants float64, and
# autocast leaves float64 alone. So test a Function twice: once with `gradcheck`, and once with its forward pass in a region and
# its backward pass outside, where you check dtypes and values.
#
# ## A rule for your own op
#
# `torch.library.custom_op` registers an op. Ours sums the squares of FP16 numbers. `register_autocast`
# puts it into autocast's lists, for one type of device and with the dtype that you name.


# %%
@torch.library.custom_op("amp_lessons::sum_of_squares", mutates_args=())
def sum_of_squares(x: torch.Tensor) -> torch.Tensor:
    return (x * x).sum(-1)


features = torch.full((4,), 300.0, dtype=half)  # the true sum is 360,000
with torch.autocast("cpu", dtype=half):
    print("no rule, in a region:       ", sum_of_squares(features))
torch.library.register_autocast("amp_lessons::sum_of_squares", "cpu", single)
with torch.autocast("cpu", dtype=half):
    print("rule for FP32, in a region: ", sum_of_squares(features))
print("rule for FP32, no region:   ", sum_of_squares(features))

# %% [markdown]
# It does for an op what `cast_inputs` does for a Function: it casts the inputs, switches autocast off
# inside, and does nothing outside a region. For a model on a GPU, register a rule for `"cuda"` too. For
# `torch.compile`, the op also needs a `register_fake`, and for training a `register_autograd`.
#
# Back to [[lesson losses_and_ops]], its [[exercises losses_and_ops]], or on to [[lesson memory]].
