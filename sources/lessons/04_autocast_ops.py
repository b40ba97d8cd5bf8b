# %% [markdown]
# # Lesson 04: What autocast does to each op
#
# **You will be able to** say which dtype an op gives under autocast, on a CPU and on CUDA, prove it
# with assertions that run on your machine, and find the place where two dtypes meet that should
# not.
#
# **Time** 50 minutes. **Needs** [[lesson amp_from_scratch]]; no GPU, not even for CUDA's rules.
#
# Autocast is often described as "runs the model in FP16". It does not. It is a list of rules, one
# for each op, and the rules of a CPU are not those of a GPU. This lesson asks torch for them.

# %%
import re
import warnings
from contextlib import contextmanager, nullcontext

import torch
from torch import nn
from torch.nn import functional as F

half, bfloat, single = torch.float16, torch.bfloat16, torch.float32

# %% [markdown]
# ## A policy, not a cast
#
# The block of a `with torch.autocast(…)` is called a *region*. Here is one around seven ops.
# **Predict:** the dtype of each result. The inputs are float32, and so is the weight.

# %%
x, weight = torch.randn(4, 8), torch.randn(8, 3)
with torch.autocast("cpu", dtype=bfloat):
    print("x + 1          ", (x + 1).dtype)
    h = x @ weight
    print("h = x @ weight ", h.dtype)
    print("h + 1          ", (h + 1).dtype)
    print("h + x[:, :3]   ", (h + x[:, :3]).dtype)
    print("h + h.half()   ", (h + h.half()).dtype)
    print("h.half() @ h.T ", (h.half() @ h.T).dtype)
    print("mse_loss(h, h) ", F.mse_loss(h, h).dtype)
print("x, weight      ", x.dtype, weight.dtype)

# %% [markdown]
# Only matrix products were moved to the region's 16 bits, whatever they were given, and only the
# loss was moved to 32. `+` is on no list: it gives what it is given, of two dtypes the wider, and
# float32 for float16 with bfloat16, since neither holds the other's numbers. x and the weight are
# as they were: autocast casts copies on the way into an op, so you cast neither inputs nor model
# yourself.
#
# So *"AMP runs most operations in FP16"* is not true as it stands. It moves the ops on a list to 16
# bits; those happen to do most of the arithmetic. (In the exercises you count how much.)

# %% [markdown]
# ## Assertions that run
#
# The [official recipe](https://docs.pytorch.org/tutorials/recipes/recipes/amp_recipe.html) shows
# the dtypes with assertions. They stand in a loop of this form. **Predict:** what does it print?

# %%
for _epoch in range(0):
    assert 1 == 2, "an assertion that is false"
print("no complaint")

# %% [markdown]
# `range(0)` is empty: nothing in the loop is ever executed, so nothing in it is ever wrong. Here
# are assertions that run, in both 16-bit formats. Change one and see it fail.

# %%
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
target = torch.randn(4, 3)
for dtype in (bfloat, half):
    with torch.autocast("cpu", dtype=dtype):
        output = net(x)
        loss = nn.MSELoss()(output, target)
        assert output.dtype is dtype
        assert loss.dtype is single
    assert all(p.dtype is single for p in net.parameters())
    print(dtype, "three assertions hold")

# %% [markdown]
# ## Ask CUDA, without CUDA
#
# Those were a CPU's rules. On a machine with no GPU a region for CUDA switches itself off:

# %% tags=["live"]
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    with torch.autocast("cuda", dtype=half):
        print("autocast for CUDA is on:", torch.is_autocast_enabled("cuda"))
print(*(str(warning.message) for warning in caught), sep="\n")

# %% [markdown]
# But the rules are in your copy of torch, GPU or not. Autocast acts when an op is *dispatched*,
# that is, when torch picks the code that will run it, and to choose a dtype it looks at the
# arguments' devices and dtypes and never at a number. torch has tensors with a device, a dtype and
# no data: *fake tensors*, which the compiler uses. So set the state by hand, and ask.


# %%
from torch._subclasses.fake_tensor import FakeTensorMode


@contextmanager
def cuda_region(dtype):
    """A region of autocast for CUDA, on tensors with a device, a dtype, a shape and no data."""
    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_dtype("cuda", dtype)
    try:
        with FakeTensorMode():
            yield
    finally:
        torch.set_autocast_enabled("cuda", False)
        torch.set_autocast_dtype("cuda", half)
        torch.clear_autocast_cache()


# %% [markdown]
# **Predict:** a softmax of a 16-bit tensor: which dtype on a CPU, and which on CUDA?

# %%
with torch.autocast("cpu", dtype=half):
    scores = torch.ones(2, 3, dtype=half)
    print(scores.device.type, torch.softmax(scores, -1).dtype)
with cuda_region(half):
    scores = torch.ones(2, 3, dtype=half, device="cuda")
    print(scores.device.type, torch.softmax(scores, -1).dtype)

# %% [markdown]
# They differ. Three warnings before you rely on it. Fake tensors are an inner part of torch: the
# module's name begins with an underscore. Without CUDA a few ops, such as indexing, ask for the
# device after all and fail, and a fake CUDA tensor that *requires a gradient* can end Python: ask
# with plain tensors. And fake tensors can be more lenient than a kernel. **Predict:** a product of
# float32 and float64, which a real matrix product refuses?

# %%
with cuda_region(half):
    a, b = torch.ones(2, 2, device="cuda"), torch.ones(2, 2, device="cuda", dtype=torch.float64)
    print("fake tensors:", (a @ b).dtype)
with torch.autocast("cpu", dtype=half):
    try:
        torch.ones(2, 2) @ torch.ones(2, 2, dtype=torch.float64)
    except RuntimeError:
        print("real tensors, on a CPU: an error")

# %% [markdown]
# So believe them about the rules of autocast, and test mixtures of dtypes for real.
#
# Now a whole model, layer by layer, on both. **Predict:** where do the two columns differ?

# %%
layers = {
    "linear": lambda v: F.linear(v, torch.ones(16, 8, device=v.device)),
    "relu": torch.relu,
    "layer_norm": lambda v: F.layer_norm(v, (16,)),
    "linear again": lambda v: F.linear(v, torch.ones(3, 16, device=v.device)),
    "softmax": lambda v: torch.softmax(v, -1),
}
dtypes = {}
for device, region in (("cpu", torch.autocast("cpu", dtype=half)), ("cuda", cuda_region(half))):
    with region:
        value = torch.ones(4, 8, device=device)
        for name, layer in layers.items():
            value = layer(value)
            dtypes[device, name] = str(value.dtype)
for name in layers:
    print(f"{name:13} CPU {dtypes['cpu', name]:14} CUDA {dtypes['cuda', name]}")

# %% [markdown]
# An assertion about a norm or a softmax that holds on your laptop fails on the GPU, and the other
# way round. One about a linear layer or a loss holds on both.

# %% [markdown]
# ## Four groups
#
# `amp_lessons.policy` asks in this way for hundreds of ops, each with 16-bit, float32 and mixed
# input, and sorts them by what came out: *lower precision*, *float32*, *widest*, *as given*. Where
# your machine has a GPU, it asks the GPU itself.
#
# First the ops that are moved to 16 bits. **Predict:** are they the same ones on both devices?

# %%
from amp_lessons.policy import op_policy


def side_by_side(*ops):
    for op in ops:
        cpu, cuda = op_policy(op, "cpu", half), op_policy(op, "cuda", half)
        print(f"{op:33} CPU {cpu.group:17} CUDA {cuda.group}")


side_by_side("matmul", "linear", "conv2d", "einsum", "lstm_cell", "prelu")
side_by_side("scaled_dot_product_attention")

# %% [markdown]
# Matrix products in all their forms: layers, convolutions, attention, recurrent cells. This is
# where tensor cores help, and where rounding the inputs to 16 bits does least harm, as the products
# can be summed in a wider format. (prelu, which is no product, is on the list too.)
#
# **Predict:** which of these does CUDA compute in float32? And a CPU?

# %%
side_by_side("softmax", "log_softmax", "layer_norm", "rms_norm", "exp", "log", "pow", "sum")
side_by_side("cumsum", "norm", "cosine_similarity")
print()
side_by_side("mse_loss", "cross_entropy", "prod")

# %% [markdown]
# This is the difference to remember. Exponentials, logarithms, powers, sums, norms of vectors,
# layer_norm and rms_norm are float32 on CUDA, with exceptions such as exp2 and nansum. On a CPU
# they give what they are given. prod and nearly all of torch's losses are float32 on both.
#
# *"Autocast keeps softmax and reductions in FP32"* is therefore true of CUDA only, and not of every
# reduction. **Predict:** mean, var, std and max?

# %%
side_by_side("mean", "var", "std", "max", "sqrt", "sigmoid", "tanh", "gelu", "relu")
side_by_side("batch_norm", "embedding", "dropout")

# %% [markdown]
# None of them is on either device's list. So is a mean of squares, the most common way to overflow
# in [[lesson how_numbers_break]], protected by autocast? **Predict:** it can be written in three ways. Are they the
# same?

# %%
for op in ("__pow__", "square", "mul"):
    print(f"{op:8} CPU {op_policy(op, 'cpu').low}   CUDA {op_policy(op, 'cuda').low}")

# %% [markdown]
# On CUDA pow is on the float32 list, and square is computed by way of pow: `x ** 2` and
# `x.square()` are float32 there. `x * x` is 16 bit on both, and on a CPU all three are. If it must
# not overflow, do not leave it to autocast.
#
# The smallest group takes the *widest* dtype among its inputs. It matters where mixed input would
# be an error. **Predict:** a dot product of a 16-bit and a float32 vector?

# %%
for op in ("dot", "addcmul", "cat"):
    for device in ("cpu", "cuda"):
        policy = op_policy(op, device, half)
        print(f"{op:8} {device:5} {policy.group:10} mixed input gives {policy.mixed}")

# %% [markdown]
# On CUDA the dot product works; on a CPU it raises, and there is no answer. addcmul is on CUDA's
# list and cat on the CPU's; where they are on none, ordinary type promotion comes to the same.
#
# Here is the rest of CUDA's list. **Predict:** in which groups does a CPU have them?

# %%
widest = ("addcdiv", "atan2", "bilinear", "cross", "vdot", "grid_sample", "index_put")
widest += ("scatter_add", "tensordot")
for device in ("cuda", "cpu"):
    print(f"{device:4}", sorted({op_policy(op, device, half).group for op in widest}))

# %% [markdown]
# In every group but this one.
#
# One op is refused. **Predict:** on which device, and why would anybody refuse a loss?

# %%
side_by_side("binary_cross_entropy", "binary_cross_entropy_with_logits")
print(op_policy("binary_cross_entropy", "cuda").note.splitlines()[0])

# %% [markdown]
# In 16 bits a probability of 0.99995 is 1, and the logarithm of 1 minus it is minus infinity
# ([[lesson how_numbers_break]]). The logits version has the same value and no such trap. Note that a CPU computes the
# loss in float32 and says nothing, and yet the probability was rounded before: the number is wrong
# there too.
#
# Here you can look up any op, and read both devices side by side. The search field takes a part of
# a name.
#
# - List the ops that differ between CUDA and the CPU. Which of them does your model use?
# - Find an op that cannot be answered, and read why.
# - Change the dtype to bfloat16. Does any group change?

# %% tags=["live"]
from amp_lessons.widgets import PolicyBrowser

PolicyBrowser("softmax")

# %% [markdown]
# ## Which dtype, if you name none
#
# **Predict:** autocast without `dtype=`: which format on a CPU, on CUDA, on an Apple GPU? And what
# does `dtype=torch.float32` do?

# %%
for device in ("cpu", "cuda", "xpu", "mps"):
    print(f"{device:5}", torch.get_autocast_dtype(device))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    with torch.autocast("cpu", dtype=single):
        print("a region of float32 is on:", torch.is_autocast_enabled("cpu"))
print("warnings:", len(caught))

# %% [markdown]
# Name the dtype: the default is not the same everywhere. The list also answers the claim that AMP
# *needs an NVIDIA GPU of compute capability 7.0 or later*: every cell of this lesson runs on a CPU,
# Intel's (`xpu`) and Apple's (`mps`) GPUs have regions of their own, and AMD's (ROCm) answer to
# `cuda`. 7.0 is the first generation with tensor cores: that is about speed.

# %% [markdown]
# ## The loss: what type, which dtype?
#
# A popular interview question asks what `print(type(loss))` prints after a step under autocast, and
# expects "float32". **Predict:** what does it print? And which of these losses is float32?

# %%
with torch.autocast("cpu", dtype=half):
    output = net(x)
    loss = F.mse_loss(output, target)
    print(type(loss))
    print("mse_loss(output, target)         ", loss.dtype)
    print("(output * output).mean()         ", (output * output).mean().dtype)
    print("(output - target).square().mean()", (output - target).square().mean().dtype)
    print("output.abs().mean()              ", output.abs().mean().dtype)
for op in ("gaussian_nll_loss", "multilabel_soft_margin_loss"):
    print(f"{op}, on a CPU:", op_policy(op, "cpu").low)

# %% [markdown]
# `type` names the class, which is always `torch.Tensor`; `loss.dtype` is what was meant. And *"the
# loss is kept in float32"* depends on the op: `mse_loss` is on the list, a loss written by hand is
# not, and on a CPU some of torch's own are not either, such as these two. The fourth line is
# float32 only because the target is: subtraction takes the wider of the two.
#
# **Predict:** a 16-bit loss of your own, of features around 300. What does it give in FP16?

# %%
with torch.autocast("cpu", dtype=half):
    features = torch.full((4, 8), 300.0) @ torch.eye(8)
    print("as written:     ", (features * features).mean().item())
    print("cast beforehand:", (features.float() * features.float()).mean().item())
    print("the listed loss:", F.mse_loss(features, torch.zeros(4, 8)).item())

# %% [markdown]
# ## What autocast leaves alone
#
# Its rules hold for ordinary calls. **Predict:** the dtypes of these five. The first is the rule.

# %%
a, b = torch.ones(4, 4), torch.ones(4, 4)
with torch.autocast("cpu", dtype=half):
    print("a @ b            ", (a @ b).dtype)
    print("torch.mm(out=)   ", torch.mm(a, b, out=torch.empty(4, 4)).dtype)
    print("a.addmm_(b, b)   ", a.clone().addmm_(b, b).dtype)
    print("float64 @ float64", (a.double() @ b.double()).dtype)
    print("prod(dtype=)     ", torch.prod(a @ b, 0, dtype=half).dtype)

# %% [markdown]
# In-place ops and `out=` write into a tensor that is there already, with its dtype. float64 was
# asked for by somebody, and stays. An explicit `dtype=` wins, here over the float32 list that prod
# is on. And a `.float()` before an op on the list does *not* help, as you will find in the
# exercises: autocast casts back.
#
# One more thing is left alone. It is said that CPU tensors in a region for CUDA raise "operation
# not permitted". **Predict:** what happens?

# %%
with cuda_region(half):
    on_cuda, on_cpu = torch.ones(4, 4, device="cuda"), torch.ones(4, 4)
    print("CUDA tensors:", (on_cuda @ on_cuda).dtype)
    print("CPU tensors: ", (on_cpu @ on_cpu).dtype)

# %% [markdown]
# Nothing: a region is for one device type, and the tensors of others pass through unchanged. (What
# does raise is one op with tensors of both.)

# %% [markdown]
# ## Parameters, gradients, and what is saved
#
# AMP is said to keep *a master copy of the weights in FP32*. **Predict:** which dtypes do
# parameters, gradients and Adam's state have after a step under autocast?

# %%
optimizer = torch.optim.Adam(net.parameters())
with torch.autocast("cpu", dtype=bfloat):
    loss = F.mse_loss(net(x), target)
loss.backward()
optimizer.step()
state = [item for values in optimizer.state.values() for item in values.items()]
print("parameters:", {p.dtype for p in net.parameters()})
print("gradients: ", {p.grad.dtype for p in net.parameters()})
print("Adam state:", {value.dtype for _, value in state}, sorted({name for name, _ in state}))

# %% [markdown]
# No second copy of a weight is kept anywhere, in the optimizer's state either. The parameters *are*
# float32; the 16-bit copies that the ops are given are temporary. Their cast is recorded by
# autograd, so the gradient is cast back on the way to the parameter.
#
# What changes is what autograd keeps for the backward pass. A hook sees each tensor that is saved.
# **Predict:** which of them are 16 bit under autocast?


# %%
def saved_for_backward(region):
    saved = []

    def note(tensor):
        saved.append((str(tensor.dtype), tuple(tensor.shape)))
        return tensor

    with region, torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        F.mse_loss(net(x), target)
    return saved


without = saved_for_backward(nullcontext())
under = saved_for_backward(torch.autocast("cpu", dtype=bfloat))
for (before, shape), (after, _) in zip(without, under, strict=True):
    print(f"{shape!s:9} {before:14} {after}")

# %% [markdown]
# The inputs of the linear layers are 16 bit now, half as large as before: of what is kept, that is
# all that autocast makes smaller. What the loss saves is float32, and parameters, their gradients
# and the optimizer's state are as large as ever. The weight, of shape (16, 3), even costs some: in
# float32 the parameter itself was saved, and now it is a 16-bit copy beside it. [[Lesson memory]] does the
# sum.

# %% [markdown]
# ## When dtypes collide
#
# "Let autocast handle the dtypes" is good advice as far as its lists go. Here are five programs
# that leave them. **Predict:** which of them raise?

# %%
memory, rows = torch.zeros(9, 3), torch.tensor([0, 2, 4, 6])
head, matrix = nn.Linear(3, 2), torch.randn(3, 2)
with torch.autocast("cpu", dtype=half):
    h = x @ weight  # float16


def inside(function):
    with torch.autocast("cpu", dtype=half):
        return function()


programs = {
    "after the region": lambda: head(h),
    "in place": lambda: inside(lambda: memory.index_copy_(0, rows, h)),
    "in place, arithmetic": lambda: inside(lambda: memory[:4].add_(h)),
    "out=": lambda: inside(lambda: torch.mm(h, matrix, out=torch.empty(4, 2))),
    "float64 from NumPy": lambda: inside(lambda: x.double() @ weight),
}

# %%
MISMATCH = re.compile(r"dtype|scalar ?type", re.IGNORECASE)
messages = {}
for name, program in programs.items():
    try:
        print(f"{name:21} gives {program().dtype}")
    except RuntimeError as error:
        messages[name] = str(error)
        print(f"{name:21} raises, and speaks of dtypes: {bool(MISMATCH.search(str(error)))}")

# %% [markdown]
# Elementwise arithmetic in place converts silently. The others raise, each in its own words, and
# the words change between versions of torch. So a test should look for a pattern, not for a
# sentence. These are yours:

# %% tags=["live"]
for name, message in messages.items():
    print(f"{name}:\n    {message}")

# %% [markdown]
# | where | cause | remedy |
# |---|---|---|
# | after the region | a 16-bit tensor meets float32 weights | `.float()` on what leaves, or the layer inside |
# | `index_copy_`, `scatter_`, `memory[rows] = h` | these want one dtype, in place or not (`scatter`, `index_add`) | `h.to(memory.dtype)` |
# | `out=` | the buffer has the wrong dtype | do without `out=` |
# | float64 | NumPy's default reaches the model; autocast does not touch it | `.float()` on the data |
# | `model.half()` under autocast | 16-bit parameters have no float32 to go back to | leave the model in float32 |
# | a custom `autograd.Function` | its backward runs without the region of its forward | `custom_fwd`, `custom_bwd`: [[lesson losses_and_ops]] |
#
# A mismatch that raises is the harmless kind. A 16-bit tensor that leaks without a word goes on to
# overflow somewhere else.

# %% [markdown]
# ## Scaling is another matter
#
# The gradient of $2^{-26}$ in [[lesson how_numbers_break]] vanished in FP16. **Predict:** does autocast bring it back?

# %%
for dtype in (half, bfloat):
    w = torch.ones(1, 1, requires_grad=True)
    with torch.autocast("cpu", dtype=dtype):
        output = F.linear(torch.full((1, 1), 2.0**-14), w)
    (output.float() * 2.0**-12).sum().backward()
    print(dtype, "gradient", w.grad.item(), "in", w.grad.dtype)

# %% [markdown]
# The gradient is stored in float32, and it is zero: it was computed in the dtype of the op's
# forward. Autocast chooses dtypes and does nothing else. Loss scaling is a second tool,
# `GradScaler`, which [[lesson grad_scaler]] takes apart; BF16 does not need it.

# %% [markdown]
# ## A whole model, with no GPU
#
# What fake tensors do for one op, they do for a model. `explain_autocast` runs a model on them, for
# either device, and tells for each op what autocast cast and what came out. Nothing is computed and
# nothing is allocated. Here is a block with a residual connection, which adds to the input what the
# layers make of it, and a loss written by hand.


# %%
class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        x = x + self.down(F.gelu(self.up(self.norm(x))))
        probability = torch.sigmoid(self.head(x))
        return torch.log(probability + 1e-8).mean()


# %% [markdown]
# **Predict:** the dtype of the residual stream, after `x + ...`? Which op differs between the
# devices? And what is wrong with this model?

# %%
from amp_lessons.trace import explain_autocast

block = Block(16)
on_cpu = explain_autocast(block, torch.randn(4, 16), device="cpu", dtype=half)
on_cuda = explain_autocast(block, torch.randn(4, 16), device="cuda", dtype=half)
for cpu, cuda in zip(on_cpu.rows, on_cuda.rows, strict=True):
    print(f"{cpu.path:5} {cpu.short_op:18} CPU {cpu.dtype_out:8} CUDA {cuda.dtype_out}")
for hazard in on_cuda.hazards:
    print("hazard:", hazard.kind)

# %% [markdown]
# The sum is float32, because the block's input is: float32 plus 16 bit. The logarithm is float32 on
# CUDA only, and the mean takes what it gives. And that does not save it: 1e-8 was added to a
# float16 probability, one op earlier, where it is
# 0. By then it is too late for a float32 logarithm.
#
# Here is the whole report, with the casts, the bytes that are saved, and the cure. Try it on a
# model of yours. In a terminal: `amp-lessons explain package.module:factory`.

# %% tags=["live"]
on_cuda

# %% [markdown]
# ## Said of autocast
#
# | claim | what the cells above show |
# |---|---|
# | "runs most operations in FP16" | only the listed ones; `+`, relu, mean and many more give what they are given |
# | "keeps a master copy in FP32" | no copy: the parameters are float32, the 16-bit casts are temporary |
# | "prints that the loss is float32": `type(loss)` | prints `<class 'torch.Tensor'>`; ask `loss.dtype` |
# | "the loss is kept in float32" | `mse_loss` is; `(out * out).mean()` is not |
# | "CPU tensors in autocast: operation not permitted" | they are left alone |
# | "let autocast handle dtypes" | not after the region, in place, through `out=`, or in float64 |
# | "softmax and reductions in FP32" | on CUDA only; mean, var and max on neither |
# | "scales the loss" | it does not; that is `GradScaler` |
# | "needs CUDA, 7.0 or later" | this lesson ran without |
#
# All of it is true of one version. In torch 2.12 `rms_norm` moved to CUDA's float32 list, and
# compiled models in BF16 became slower and larger by it ([pytorch issue
# 188955](https://github.com/pytorch/pytorch/issues/188955)). When a rule matters to you, ask, and
# keep the question as a test.

# %% [markdown]
# ## Recap
#
# 1. Autocast is a rule for each op: lower precision, float32, widest, and, for most ops, as given.
# 2. Linear layers, convolutions and matrix products are 16 bit and most losses float32 on both
#    devices; softmax, layer_norm, exp, log and sum are float32 on CUDA only.
# 3. In-place ops, `out=`, an explicit `dtype=` and float64 are left alone, and so is all that
#    happens outside the region.
# 4. Parameters and gradients stay float32; what is saved for the backward pass becomes 16 bit.
# 5. CUDA's rules can be asked on any machine, with fake tensors; an assertion counts if it runs.

# %% [markdown]
# ## Three questions

# %% tags=["question"]
from amp_lessons.interview import ask

ask(
    "autocast_ops.softmax_after_linear",
    "autocast_ops.float_before_matmul",
    "autocast_ops.what_is_16_bit",
)

# %% [markdown]
# **Next:** [[exercises autocast_ops|five exercises]]: an oracle for dtypes, five
# mismatches to mend, assertions for a whole model, one op to keep in float32, and how much really
# runs in 16 bits. Then [[lesson autocast_regions]]: regions, cache, threads.
