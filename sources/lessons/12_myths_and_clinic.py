# %% [markdown]
# # Lesson 12: Myths, tested, and the clinic
#
# **You will be able to** put any sentence about AMP to the test in a few lines, say where it holds
# and where it does not, and take a run that is ill from its message or symptom to cause and cure.
#
# **Time** 120 minutes. **Needs** lessons 00 to 07; lessons 08 to 11 explain more of some cases. No
# GPU.
#
# Part one takes 36 claims from four pages that people find when they search for AMP: an interview
# question, a quiz, a guide and a benchmark. The claims are in our words. Each is tried in a case or
# several, and the verdict follows from what the cell finds: *true* if it holds in every case, *false*
# if in none, *true only when …* otherwise. Part two is the clinic: 30 pitfalls, triggered, read and
# mended. Each part ends with a table of links, so you can also come here with a question.

# %%
import inspect
import warnings
from contextlib import nullcontext
from functools import partial
from unittest import mock

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from amp_lessons import models, plots, training
from amp_lessons.casebook import said
from amp_lessons.clinic import Clinic
from amp_lessons.myths import Trials
from amp_lessons.policy import counts, op_policy, policy_table
from amp_lessons.scaling import ScalerLog
from amp_lessons.trace import explain_autocast
from amp_lessons.trace.fakes import autocast_on

# %% [markdown]
# Four helpers for both parts. `region` is an FP16 region on the CPU. `fresh` makes a layer with all
# that belongs to it. `Watch` stands below autocast and lists each operation that really runs.
# `said` (in the package) returns the warnings and the error of a call as text.

# %%
half, bfloat, single = torch.float16, torch.bfloat16, torch.float32
GradScaler = torch.amp.GradScaler
trials, clinic = Trials(), Clinic()
layer, x, y = nn.Linear(8, 3), torch.ones(4, 8), torch.zeros(4, 3)


def region(dtype=half, enabled=True):
    return torch.autocast("cpu", dtype=dtype, enabled=enabled)


def fresh(init_scale=2.0**16):
    torch.manual_seed(0)
    model = nn.Linear(8, 3)
    return model, torch.optim.SGD(model.parameters(), lr=0.1), GradScaler("cpu", init_scale)


# %%
class Watch(TorchDispatchMode):
    """Lists each operation that runs: its name, and the dtype of its first tensor."""

    def __init__(self):
        super().__init__()
        self.ops = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        dtype = next((a.dtype for a in args if isinstance(a, torch.Tensor)), None)
        self.ops.append((func.overloadpacket.__name__, dtype))
        return func(*args, **(kwargs or {}))

    def count(self, *names, takes=None):
        return sum(name in names and takes in (None, dtype) for name, dtype in self.ops)


# %% [markdown]
# # Part one: the myths
#
# ## The API
#
# ### Myth 1: The CUDA autocast takes a device type
#
# The interview page imports `autocast` from `torch.cuda.amp` and gives it `device_type="cuda"`.
# **Predict:** does the snippet run on a machine with a GPU?

# %%
# NBVAL_CHECK_OUTPUT
snippet = said(lambda: torch.cuda.amp.autocast(device_type="cuda", dtype=half))
print("TypeError:", "TypeError" in snippet)
print("torch.autocast takes it:", said(lambda: torch.autocast(device_type="cpu", dtype=half)) == "")
trials.test(1, {"torch.cuda.amp.autocast(device_type=…)": "TypeError" not in snippet})

# %% [markdown]
# Nowhere: it stops at the first line that matters, with a GPU or without. Who wrote it never ran it.
#
# ### Myth 2: AMP is imported from torch.cuda.amp
#
# Three of the four pages do. **Predict:** how many of these three names are still current?

# %%
# NBVAL_CHECK_OUTPUT
old = torch.cuda.amp
calls = {
    "autocast": lambda: old.autocast(),
    "GradScaler": lambda: old.GradScaler(),
    "custom_fwd": lambda: old.custom_fwd(len),
}
trials.test(2, {name: "FutureWarning" not in said(call) for name, call in calls.items()})

# %% [markdown]
# They import and warn. Write `torch.autocast(device_type, dtype)`, `torch.amp.GradScaler(device)` and
# `torch.amp.custom_fwd(device_type=…)`: the same code for every device.
#
# ### Myth 7: Printing the type of the loss shows its precision
#
# The quiz prints `type(loss)` to ask for the dtype. **Predict:** what does it print for a loss in
# FP32, and for one in FP16?

# %%
# NBVAL_CHECK_OUTPUT
one, other = torch.tensor(1.0), torch.tensor(1.0, dtype=half)
print(type(one), type(other), one.dtype, other.dtype)
trials.test(7, {"type() tells FP32 from FP16": type(one) is not type(other)})

# %% [markdown]
# ### Myth 29: The TF32 switch speeds AMP up
#
# The guide's last advice is `allow_tf32 = True`, for extra speed beside AMP. TF32 is a way to compute
# products of FP32 operands. **Predict:** in which of these two does such a product run?


# %%
# NBVAL_CHECK_OUTPUT
def has_fp32_product(enabled):
    with Watch() as watch, region(enabled=enabled):
        layer(x)
    return watch.count("addmm", takes=single) > 0


print("today's name is there:", hasattr(torch.backends.cuda.matmul, "fp32_precision"))
cases = {"a layer under autocast": has_fp32_product(True)}
trials.test(29, cases | {"a layer in a disabled region": has_fp32_product(False)})

# %% [markdown]
# What autocast has cast to 16 bits has nothing left for TF32. For the rest set
# `torch.backends.cuda.matmul.fp32_precision = "tf32"`, and do not mix it with the old flags.
#
# ### Myth 30: custom_fwd is a precision rule
#
# The guide's table calls it a rule for the forward's precision. **Predict:** which of these three
# changes the dtype in which a custom product runs in a region?


# %%
def product(*decorators):
    """The dtype that a custom Function gives in an FP16 region."""

    def forward(ctx, a, b):
        return a @ b

    for decorate in decorators:
        forward = decorate(forward)
    function = type("Product", (torch.autograd.Function,), {"forward": staticmethod(forward)})
    with region():
        return function.apply(x, layer.weight.T).dtype


# %%
# NBVAL_CHECK_OUTPUT
alone = torch.amp.custom_fwd(device_type="cpu")
with_cast = torch.amp.custom_fwd(device_type="cpu", cast_inputs=single)
print("undecorated:", product())
cases = {"custom_fwd alone": product(alone) != product()}
trials.test(30, cases | {"custom_fwd with cast_inputs": product(with_cast) != product()})

# %% [markdown]
# Alone it notes the region's state, so that `custom_bwd` can restore it in the backward pass. That
# is worth having (pitfall 10). Only `cast_inputs` says something about precision: it casts the
# inputs and switches autocast off inside.
#
# ### Myth 32: reset_max_memory_allocated resets the maximum alone
#
# The benchmark calls it before each run. **Predict:** what does the function say about itself?

# %%
# NBVAL_CHECK_OUTPUT
warned = said(torch.cuda.reset_max_memory_allocated)
print("deprecated:", "FutureWarning" in warned)
trials.test(32, {"the maximum of allocated memory alone": "resets /all/ peak" not in warned})

# %% [markdown]
# ### Myth 35: A device variable makes the script run anywhere
#
# The benchmark sets `device` to the CPU where there is no GPU, and then writes `.cuda()` and
# `GradScaler("cuda")`. `.cuda()` stops with an error. **Predict:** what does the scaler do? (The
# first line makes every machine look like one without CUDA.)

# %%
# NBVAL_CHECK_OUTPUT
with mock.patch("torch.cuda.is_available", return_value=False), warnings.catch_warnings():
    warnings.simplefilter("ignore")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with torch.autocast(device, dtype=half):
        casts = layer(x).dtype is half
    scales = GradScaler("cuda").is_enabled()
trials.test(35, {"autocast(device)": casts, 'GradScaler("cuda")': scales})

# %% [markdown]
# The worst of three: autocast follows the variable, `.cuda()` raises, and the scaler warns and then
# does nothing, so FP16 is trained with no scaling.
#
# ### Myth 36: set_to_none makes zero_grad faster
#
# So says a comment in the benchmark. **Predict:** what does a gradient hold after `zero_grad()`,
# and after `zero_grad(set_to_none=True)`?

# %%
# NBVAL_CHECK_OUTPUT
left = []
for options in ({}, {"set_to_none": True}):
    model, optimizer, _ = fresh()
    model(x).sum().backward()
    optimizer.zero_grad(**options)
    left.append(model.weight.grad)
print(left)
trials.test(36, {"the two leave something different": left[0] is not left[1]})

# %% [markdown]
# ## What autocast does
#
# ### Myth 3: Autocast runs most operations in FP16
#
# **Predict:** of the operations in this course's policy table, do more than half go to 16 bits? And
# of the arithmetic of a small network? (Both are asked of CUDA's rules; lesson 04 shows how that
# works without a GPU.)

# %%
# NBVAL_CHECK_OUTPUT
table = policy_table("cuda", half)
lower = counts(table)["lower precision"]
network, (images,) = models.mlp()
share = explain_autocast(network, images).totals.share_16bit
print("of the operations less than a third:", lower < len(table) / 3)
print("of the FLOPs more than 99 per cent:", share > 0.99)
trials.test(3, {"of the operations": lower > len(table) / 2, "of the FLOPs": share > 0.5})

# %% [markdown]
# A short list is cast down: products, convolutions, attention. They are few operations and nearly
# all the work, which is the whole idea.
#
# ### Myth 4: AMP keeps a master copy of the weights
#
# **Predict:** after a step under autocast, is there a second FP32 copy of the weight anywhere in the
# optimizer? And which dtype has the parameter?

# %%
# NBVAL_CHECK_OUTPUT
model = nn.Linear(8, 3)
optimizer = torch.optim.AdamW(model.parameters())
with region(bfloat):
    loss = F.mse_loss(model(x), y)
loss.backward()
optimizer.step()
state = optimizer.state[model.weight].values()
copies = [t for t in state if t.shape == model.weight.shape and torch.equal(t, model.weight)]
print("the parameter is", model.weight.dtype, "and its gradient", model.weight.grad.dtype)
trials.test(4, {"a copy in the optimizer": bool(copies)})

# %% [markdown]
# Master weights belong to the recipe of the [paper](https://arxiv.org/abs/1710.03740), where the
# model itself is FP16. With `torch.autocast` it is the other way round: the parameters *are* the FP32
# weights, and the 16-bit copies live as long as the region and the graph.
#
# ### Myth 5: BF16 has no underflow risk
#
# **Predict:** does BF16 hold a gradient of $2^{-120}$? And what is $1 - 2^{-10}$, a weight that moves by
# a thousandth, if the weight is stored in BF16?

# %%
# NBVAL_CHECK_OUTPUT
gradient = torch.tensor(2.0**-120).bfloat16()
weight = torch.tensor(1.0, dtype=bfloat)
moved = weight - 2.0**-10
print("gradient", gradient.item(), " weight", moved.item())
kept = {"a gradient far below FP16's range": gradient.item() > 0}
trials.test(5, kept | {"the update of a weight stored in BF16": moved.item() != 1})

# %% [markdown]
# The exponent is FP32's, so gradients survive and no scaler is needed. The digits are few: what is
# *stored* in BF16 stalls. Under autocast weights are stored in FP32, and all is well.
#
# ### Myth 8: The loss is kept in FP32 under autocast
#
# **Predict:** the dtypes of these two losses.

# %%
# NBVAL_CHECK_OUTPUT
with region():
    output = layer(x)
    losses = {"mse_loss(output, y)": F.mse_loss(output, y), "output².mean()": (output**2).mean()}
trials.test(8, {name: loss.dtype is single for name, loss in losses.items()})

# %% [markdown]
# There is no rule about losses. There is a list of ops, and `mse_loss` is on it; `mean` is not, and a
# square on a CPU stays in FP16 like its input. On CUDA `pow` gives FP32, and so does the mean of it.
#
# ### Myth 12: Mixed precision means FP16 and FP32
#
# The guide never mentions BF16. **Predict:** which dtype does a region have if you name none?

# %%
# NBVAL_CHECK_OUTPUT
defaults = {f'autocast("{name}")': torch.get_autocast_dtype(name) for name in ("cuda", "cpu")}
print(defaults)
trials.test(12, {name: dtype is half for name, dtype in defaults.items()})

# %% [markdown]
# ### Myth 20: Autocast mends dtype mismatches
#
# An error about an expected dtype? The guide's advice is to leave dtypes to autocast. **Predict:** an
# FP16 tensor meets FP32 in four ways. Which does autocast mend?

# %%
# NBVAL_CHECK_OUTPUT
with region():
    leaked = layer(x).detach()
weight, rows = torch.ones(3, 2), torch.arange(4)
attempts = {
    "a product": lambda: leaked @ weight,
    "in place": lambda: torch.zeros(4, 3).index_copy_(0, rows, leaked),
    "into out=": lambda: torch.mm(leaked, weight, out=torch.zeros(4, 2)),
}
with region():
    mended = {name: said(attempt) == "" for name, attempt in attempts.items()}
trials.test(20, mended | {"a product after the region": said(attempts["a product"]) == ""})

# %% [markdown]
# Most such errors come from where autocast does not act: outside the region, in place, with `out=`.
#
# ### Myth 21: Softmax and reductions run in FP32
#
# **Predict:** for which of these does FP16 input give an FP32 result?

# %%
# NBVAL_CHECK_OUTPUT
asked = [("softmax", "cuda"), ("sum", "cuda"), ("mean", "cuda"), ("var", "cuda"), ("std", "cuda")]
asked += [("softmax", "cpu"), ("sum", "cpu")]
trials.test(21, {f"{op}, {device}": op_policy(op, device).low is single for op, device in asked})

# %% [markdown]
# ### Myth 24: An op without FP16 support rules AMP out
#
# **Predict:** `torch.logdet` knows no FP16. What does it take to use it in the middle of a region?

# %%
# NBVAL_CHECK_OUTPUT
with region():
    gram = (torch.eye(3) @ torch.eye(3)) * 2
    print(gram.dtype, "refused:", "Error" in said(lambda: torch.logdet(gram)))
    with region(enabled=False):
        result = torch.logdet(gram.float())
print(f"log of 8: {result.item():.4f} {result.dtype}")
trials.test(24, {"logdet in a region": not result.isfinite().item()})

# %% [markdown]
# A disabled region and a `.float()`. For your own Function `custom_fwd(cast_inputs=torch.float32)`
# does both.
#
# ## Scaling
#
# ### Myth 6: A forward pass under BF16 is BF16 training
#
# The page's second half shows a BF16 region with a forward pass, and no more. It also speaks of the
# tensor cores of Volta, which know FP16 only; those for BF16 came with
# [Ampere](https://developer.nvidia.com/blog/nvidia-ampere-architecture-in-depth/). **Predict:** how
# far has the weight moved after three of its iterations?

# %%
# NBVAL_CHECK_OUTPUT
model, optimizer, _ = fresh()
before = model.weight.clone()
for _ in range(3):
    optimizer.zero_grad()
    with region(bfloat):
        prediction = model(x)
moved = not torch.equal(before, model.weight)
trials.test(6, {"the weights moved": moved, "there is a gradient": model.weight.grad is not None})

# %% [markdown]
# ### Myth 9: A backward pass of the unscaled loss raises
#
# The quiz asks which error `loss.backward()` without `scaler.scale` gives, and does not name it.
# **Predict:** in which of these three does anything raise?


# %%
# NBVAL_CHECK_OUTPUT
def unscaled_step(scaled_before=False, enabled=True):
    model, optimizer, _ = fresh()
    scaler = GradScaler("cpu", enabled=enabled)
    if scaled_before:
        scaler.scale(torch.ones(()))
    F.mse_loss(model(x), y).backward()
    return said(lambda: scaler.step(optimizer))


print(unscaled_step().split(".")[0])
cases = {"the first iteration": unscaled_step() != ""}
cases["a later iteration"] = unscaled_step(scaled_before=True) != ""
trials.test(9, cases | {"a disabled scaler": unscaled_step(enabled=False) != ""})

# %% [markdown]
# The dangerous case is the silent one: later on the gradients, never scaled, are divided by 65536.
#
# ### Myth 10: Only the optimizer step belongs outside autocast
#
# **Predict:** one layer is kept in FP32 on purpose. Does its gradient stay the same when `backward()`
# moves into the region?


# %%
# NBVAL_CHECK_OUTPUT
def gradient_of_fp32_part(backward_inside):
    torch.manual_seed(0)
    first, last = nn.Linear(16, 32), nn.Linear(32, 4)
    data = torch.randn(64, 16)
    with region(bfloat):
        hidden = first(data).tanh()
        with region(enabled=False):
            loss = last(hidden.float()).square().mean()
    with region(bfloat, enabled=backward_inside):
        loss.backward()
    return last.weight.grad


same = torch.equal(gradient_of_fp32_part(False), gradient_of_fp32_part(True))
trials.test(10, {"backward inside changes nothing": same})

# %% [markdown]
# ### Myth 14: The basic FP16 loop needs no scaler
#
# The guide's first loop has autocast and no scaler. **Predict:** a loss near 1, and the same loss
# with a weight of $2^{-30}$, as one of many losses may have. Where does a gradient arrive?


# %%
# NBVAL_CHECK_OUTPUT
def gradient_arrives(factor, dtype=half, scale=1.0):
    model, _, _ = fresh()
    with region(dtype):
        loss = F.mse_loss(model(x), y)
    (loss * factor * scale).backward()
    return bool(model.weight.grad.any())


small = 2.0**-30
trials.test(14, {"a loss near 1": gradient_arrives(1.0), "times 2^-30": gradient_arrives(small)})

# %% [markdown]
# ### Myth 22: Autocast scales the gradients
#
# The guide lists gradient scaling among the things that AMP does by itself. **Predict:** the small
# loss once more, with autocast alone and with a scale.

# %%
# NBVAL_CHECK_OUTPUT
scaler = GradScaler("cpu")
scale = scaler.scale(torch.ones(())).item()
cases = {"autocast alone": gradient_arrives(small)}
trials.test(22, cases | {"with a GradScaler": gradient_arrives(small, scale=scale)})

# %% [markdown]
# ### Myth 27: Always use a GradScaler
#
# **Predict:** in which of these three does a scaler help: small gradients in FP16, small gradients in
# BF16, a forward pass that overflows in FP16?

# %%
# NBVAL_CHECK_OUTPUT
helps = {}
for name, dtype in {"small gradients, FP16": half, "small gradients, BF16": bfloat}.items():
    without, with_scale = gradient_arrives(small, dtype), gradient_arrives(small, dtype, scale)
    helps[name] = with_scale and not without
model, optimizer, scaler = fresh()
for _ in range(20):
    optimizer.zero_grad()
    with region():
        loss = F.mse_loss(model(x * 1e6), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
print("an overflow in the forward pass: the scale after 20 steps is", scaler.get_scale())
trials.test(27, helps | {"an overflow in the forward pass": scaler.get_scale() >= 1})

# %% [markdown]
# BF16 needs no help. Against an overflow in the forward pass the scaler can only halve its scale, 20
# times here, since the loss is inf before any scaling. Pitfall 13 mends it.
#
# ### Myth 28: Skipped steps mean that the scaling is broken
#
# The guide takes a NaN for a sign that the scale is at fault. **Predict:** the digits, with the
# *sum* of the losses of 128 images and a new scaler: which steps of 100 are skipped? Does it learn?


# %%
digits = training.load_digits()
network = training.digits_network()
optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)
log, losses = ScalerLog(GradScaler("cpu")), []
for _ in range(100):
    optimizer.zero_grad()
    with region():
        output = network(digits.train_images[:128])
        loss = F.cross_entropy(output, digits.train_labels[:128], reduction="sum")
    log.scale(loss).backward()
    log.step(optimizer)
    log.update()
    losses.append(loss.item())

# %%
# NBVAL_CHECK_OUTPUT
skipped = [i for i, record in enumerate(log.records) if record.skipped]
print("skipped:", skipped)
trials.test(28, {"it does not learn": losses[-1] > 0.8 * losses[0]})

# %%
plots.scaler_path(log.records, title="Skips at the start: the scaler finds its scale")

# %% [markdown]
# ### Myth 15: Scale, step and update make a whole loop
#
# The guide's loop with a scaler has these three and no `zero_grad`. **Predict:** after one overflow,
# in the second of eight steps, which of the later steps are real?

# %%
# NBVAL_CHECK_OUTPUT
model, optimizer, scaler = fresh()
log = ScalerLog(scaler)
for step in range(8):
    log.scale(F.mse_loss(model(x), y)).backward()
    if step == 1:
        model.weight.grad[0, 0] = torch.inf
    log.step(optimizer)
    log.update()
print("skipped:", [i for i, record in enumerate(log.records) if record.skipped])
trials.test(15, {"it recovers from an overflow": not log.records[-1].skipped})

# %% [markdown]
# ### Myth 16: The scaler makes a scaled optimizer step
#
# A comment beside `scaler.step`. **Predict:** one weight, a gradient of 6, a learning rate of 0.1 and
# a scale of 65536. How far does the weight move? And after an overflow?


# %%
# NBVAL_CHECK_OUTPUT
def move(overflow):
    weight = torch.tensor(3.0, requires_grad=True)
    optimizer, scaler = torch.optim.SGD([weight], lr=0.1), GradScaler("cpu")
    scaler.scale(weight**2).backward()
    if overflow:
        weight.grad.fill_(torch.inf)
    scaler.step(optimizer)
    return round(3.0 - weight.item(), 6)


print("moved", move(False), "and after an overflow", move(True))
trials.test(16, {"the step is scaled": move(False) > 1, "after an overflow": move(True) != 0})

# %% [markdown]
# ### Myth 19: NaN in the loss comes from underflow
#
# **Predict:** which of these five are NaN?

# %%
# NBVAL_CHECK_OUTPUT
tiny, huge, zero = (torch.tensor(v, dtype=half) for v in (2.0**-24, 60000.0, 0.0))
print("overflow, inf − inf ", (huge * 2 - huge * 2).item())
print("overflow, 0 · inf   ", (zero * (huge * 2)).item())
print("0 / 0               ", (zero / zero).item())
print("0 · log 0           ", (zero * zero.log()).item())
print("underflow           ", (tiny * tiny).item())
trials.test(19, {"underflow": bool((tiny * tiny).isnan())})

# %% [markdown]
# A NaN sends you to look for *large* numbers, and for a logarithm or a quotient that underflow has
# given a 0. The gradient that underflows by itself is just 0: the loss stands still.
#
# ## Inference and devices
#
# ### Myth 17: Autocast in inference mode is the way to serve
#
# The guide's `predict` has `inference_mode` and autocast, and no `eval()`. **Predict:** how many casts
# do ten calls of one layer make? How many if the model is cast to FP16 once? And does dropout drop?


# %%
# NBVAL_CHECK_OUTPUT
def casts_in_ten_calls(model, x):
    with Watch() as watch, torch.inference_mode():
        for _ in range(10):
            with region():
                model(x)
    return watch.count("_to_copy", "to")


print("FP32 model:", casts_in_ten_calls(nn.Linear(8, 3), x))
print("FP16 model:", casts_in_ten_calls(nn.Linear(8, 3).half(), x.half()))
with torch.inference_mode(), region():
    dropped = nn.Dropout(0.5)(torch.ones(1000)).count_nonzero().item() < 1000
few = casts_in_ten_calls(nn.Linear(8, 3), x) == 0
trials.test(17, {"no casts are needed": few, "dropout is off": not dropped})

# %% [markdown]
# Weight, bias and input are cast in each call. For serving, cast the model once (`model.half()` or
# `.bfloat16()`), call `eval()`, and compare its answers with those of the model that you trained.
#
# ### Myth 18: CPU tensors under CUDA autocast raise an error
#
# "Operation not permitted" is said to come from tensors that are not on the GPU. **Predict:** a CPU
# layer in a *CUDA* region: an error, FP16 or FP32? (`autocast_on` opens CUDA's region here, too.)

# %%
# NBVAL_CHECK_OUTPUT
with autocast_on("cuda", half, enabled=True):
    print(torch.is_autocast_enabled("cuda"), layer(x).dtype)
    trials.test(18, {"a CPU layer in a CUDA region": said(lambda: layer(x)) != ""})

# %% [markdown]
# A region concerns one device type. Tensors of two devices in *one* op raise with autocast or without.
#
# ### Myth 23: AMP needs an NVIDIA GPU of capability 7
#
# Every lesson before this one runs autocast and a real scaler on a CPU. **Predict:** for which of these
# device types does PyTorch have no autocast?

# %%
# NBVAL_CHECK_OUTPUT
kinds = ("cpu", "xpu", "mps")
trials.test(23, {f"none for {kind}": not torch.amp.is_autocast_available(kind) for kind in kinds})

# %% [markdown]
# Capability 7.0 is where NVIDIA's tensor cores begin, so it is where *speed* in FP16 begins. "cuda"
# also means AMD's GPUs under ROCm.
#
# ## Memory
#
# What a layer saves for the backward pass can be counted: `saved_tensors_hooks` sees each tensor.


# %%
def saved_bytes(model, x, enabled):
    """Bytes saved for backward, without the parameters, which exist anyway."""
    seen = {}
    own = {p.data_ptr() for p in model.parameters()}

    def pack(tensor):
        if tensor.data_ptr() not in own:
            seen[tensor.data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t), region(enabled=enabled):
        keep = model(x)
    return sum(seen.values()) if keep is not None else 0


# %% [markdown]
# ### Myth 13: AMP makes the model smaller
#
# **Predict:** of parameters, gradients and what is saved for the backward pass, which shrink under
# autocast? (A network of width 64, 4096 rows.)

# %%
# NBVAL_CHECK_OUTPUT
network = nn.Sequential(*[m for _ in range(4) for m in (nn.Linear(64, 64), nn.Tanh())])
rows = torch.randn(4096, 64)
with region():
    loss = network(rows).float().square().mean()
loss.backward()
sizes = {p.element_size() for p in network.parameters()}
grads = {p.grad.element_size() for p in network.parameters()}
saved = saved_bytes(network, rows, True) < 0.7 * saved_bytes(network, rows, False)
cases = {"parameters": sizes == {2}, "gradients": grads == {2}, "saved for backward": saved}
trials.test(13, cases)

# %% [markdown]
# ### Myth 25: AMP saves 30 to 50 per cent of the memory
#
# A step of Adam holds 16 bytes a parameter (weight, gradient, two averages) and what is saved.
# **Predict:** is the saving within 30 to 50 per cent for 4096 rows? And for 2?


# %%
# NBVAL_CHECK_OUTPUT
def saving(rows):
    fixed = 16 * sum(p.numel() for p in network.parameters())
    plain, mixed = (fixed + saved_bytes(network, rows, on) for on in (False, True))
    return 1 - mixed / plain


many, few = saving(rows), saving(torch.randn(2, 64))
print("less than nothing for 2 rows:", few < 0)
trials.test(25, {"4096 rows": 0.3 <= many <= 0.5, "2 rows": 0.3 <= few <= 0.5})

# %% [markdown]
# With 2 rows the 16-bit copies of the weights, saved for the backward pass, cost more than the
# halved activations bring in. Lesson 09 computes where the two meet.
#
# ### Myth 33: The benchmark shows that AMP reduces memory
#
# The benchmark prints its peaks, in bytes: 7,533,332,992 in FP32 and 7,634,019,840 with AMP (quoted;
# its GPU has no name). It preloads 50 batches of inputs and targets. **Predict:** by what did the
# peak change, and what has that very size? (Three layers of 4096 by 4096, batches of 4096.)

# %%
# NBVAL_CHECK_OUTPUT
fp32_peak, amp_peak = 7_533_332_992, 7_634_019_840
data = 2 * 50 * 4096 * 4096 * 4
copies = 3 * (4096 * 4096 + 4096) * 2
print(f"growth {amp_peak - fp32_peak:,}; FP16 copies of weights and biases {copies:,}")
growth = (amp_peak - data) / (fp32_peak - data) - 1
print(f"data {data:,}; without it the peak grows by {growth:.0%}")
trials.test(33, {"the peak falls": amp_peak < fp32_peak})

# %% [markdown]
# To within a KiB the growth is the copies of the weights. And most of what it compares is data,
# which no precision of the network changes. The text above its output says "reduce".
#
# ## Speed and quality
#
# ### Myth 11: AMP costs no accuracy
#
# **Predict:** the digits with FP16 and a scaler, against FP32: the same accuracy, within 2 points?
# And the same with pixels a million times larger, as unscaled data can be?


# %%
def accuracy(pixel, mixed):
    network = training.digits_network()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    scaler = GradScaler("cpu", enabled=mixed)
    parts = digits.train_images.split(64), digits.train_labels.split(64)
    for images, labels in zip(*parts, strict=True):
        optimizer.zero_grad()
        with region(enabled=mixed):
            loss = F.cross_entropy(network(images * pixel), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    with region(enabled=mixed), torch.no_grad():
        output = network(digits.validation_images * pixel)
    return (output.argmax(1) == digits.validation_labels).float().mean().item()


# %%
# NBVAL_CHECK_OUTPUT
close = {
    name: accuracy(pixel, True) > accuracy(pixel, False) - 0.02
    for name, pixel in (("pixels of 0 to 1", 1.0), ("pixels of 0 to 1,000,000", 1e6))
}
trials.test(11, close)

# %% [markdown]
# No loss of accuracy is what the [paper](https://arxiv.org/abs/1710.03740) found for its networks. For
# yours it is a question, and a comparison answers it.
#
# ### Myth 26: AMP gives 1.5 to 2 times on Volta and 2 to 3 on Ampere
#
# PyTorch's [blog](https://pytorch.org/blog/accelerating-training-on-nvidia-gpus-with-pytorch-automatic-mixed-precision/)
# measured 1.5 to 5.5 times on V100. The peaks of an
# [A100](https://www.nvidia.com/en-us/data-center/a100/) are 19.5 TFLOP/s in FP32, 156 in TF32 and 312
# in 16 bits. **Predict:** which of these four lie in the guide's ranges?

# %%
# NBVAL_CHECK_OUTPUT
print("ceilings on A100:", 312 / 19.5, "over FP32,", 312 / 156, "over TF32")
volta = {"the smallest published on V100": 1.5 <= 1.5 <= 2, "the largest": 1.5 <= 5.5 <= 2}
ampere = {"A100's ceiling over FP32": 2 <= 312 / 19.5 <= 3}
trials.test(26, volta | ampere | {"A100's ceiling over TF32": 2 <= 312 / 156 <= 3})

# %% [markdown]
# A range without a workload and a baseline is no statement. Over TF32, which many scripts have on,
# 16 bits can gain at most a factor of 2 in arithmetic on this GPU.
#
# ### Myth 31: The speed-up is nearly free
#
# **Predict:** what does AMP add to a training step: lines of code, operations, reads that make Python
# wait for the device?


# %%
def price(train, *extra):
    """Lines of a loop's code, operations of one step, and numbers read from the device."""
    network, reads, item = training.digits_network(), [], torch.Tensor.item
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    batch = [(digits.train_images[:8], digits.train_labels[:8])]
    spy = mock.patch.object(torch.Tensor, "item", lambda t: reads.append(1) or item(t))
    with Watch() as watch, spy:
        train(network, optimizer, batch, *extra)
    return len(inspect.getsource(train).splitlines()), len(watch.ops), len(reads)


# %%
# NBVAL_CHECK_OUTPUT
plain = price(training.train_fp32)
mixed = price(training.train_fp16, GradScaler("cpu"))
print("more lines, operations, reads:", [m > p for m, p in zip(mixed, plain, strict=True)])
cases = {"it costs at most 10 lines": mixed[0] <= plain[0] + 10}
trials.test(31, cases | {"no operations": mixed[1] <= plain[1], "no reads": mixed[2] <= plain[2]})

# %% [markdown]
# Casts, a look at every gradient, a read at each step, the copies of myth 33, now and then a skipped
# step, and your own comparison of quality. Cheap against large products; too dear for small ones.
#
# ### Myth 34: The benchmark shows what AMP gains
#
# It reports 7.738 s in FP32 and 3.325 s with AMP for 150 steps (quoted), each run once, without a
# warm-up, and no loss is compared. A step has 8 products of 4096 cubed: three forward, three for the
# weights' gradients, two for the inputs'. **Predict:** which of these GPUs can have done 150 steps of
# IEEE FP32 in 7.738 s?

# %%
# NBVAL_CHECK_OUTPUT
work = 150 * 8 * 2 * 4096**3 / 1e12
print(f"{work:.1f} TFLOP: {work / 7.738:.1f} TFLOP/s in FP32, {work / 3.325:.1f} with AMP")
peaks = {"V100": (15.7, 125), "A100": (19.5, 312), "L4": (30.3, 121), "H100 SXM": (67, 989)}
able = {gpu: peak for gpu, peak in peaks.items() if peak[0] > work / 7.738}
for gpu, (_, peak) in able.items():
    print(f"on {gpu}: AMP at {work / 3.325 / peak:.0%} of the 16-bit peak")
trials.test(34, {"the figures fit one GPU only": len(able) == 1})

# %% [markdown]
# (Dense peaks from NVIDIA's data sheets:
# [V100](https://www.nvidia.com/en-us/data-center/v100/),
# [A100](https://www.nvidia.com/en-us/data-center/a100/),
# [L4](https://www.nvidia.com/en-us/data-center/l4/),
# [H100](https://www.nvidia.com/en-us/data-center/h100/).) On one GPU that is a decent run, on the
# other a bad one. The quotient, 2.33, says nothing about AMP until GPU, baseline, warm-up, spread and
# quality are known. Lesson 10 measures it.
#
# ## The verdicts
#
# **Predict:** of the 36, how many were true as they stood?

# %%
# NBVAL_CHECK_OUTPUT
for verdict in ("true", "true only when", "false"):
    print(f"{verdict:15}", sum(found == verdict for found in trials.found.values()))

# %%
# NBVAL_CHECK_OUTPUT
trials.table()

# %% [markdown]
# None is true without a condition, and no wonder: what was true without one would not have been
# worth a test here. Take the habit with you: a claim, a case, a line that can say no.
#
# # Part two: the clinic
#
# Each patient: the fault, what PyTorch says or does, the cure, and the proof that it helps.
# `clinic.read` matches the message by a pattern, since wordings change between versions;
# `clinic.notice` is for those that say nothing.
#
# ## What the scaler says
#
# ### Pitfall 1: No inf checks were recorded for this optimizer
#
# **Predict:** an optimizer was made for the old head, and then the head was replaced. Which call
# complains?

# %%
# NBVAL_CHECK_OUTPUT
model, optimizer, scaler = fresh()
head = nn.Linear(8, 3)  # the optimizer does not know it
scaler.scale(F.mse_loss(head(x), y)).backward()
clinic.read(1, said(lambda: scaler.step(optimizer)))
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
clinic.mend(1, "an optimizer for the new head", well=said(lambda: scaler.step(optimizer)) == "")

# %% [markdown]
# Without a scaler the same mistake says nothing: the optimizer steps over parameters that have no
# gradient. Here the scaler is the better watchman.
#
# ### Pitfall 2: No inf checks were recorded prior to update
#
# **Predict:** a loop leaves out `step` for a bad batch, but not `update`.

# %%
# NBVAL_CHECK_OUTPUT
model, optimizer, scaler = fresh()
scaler.scale(F.mse_loss(model(x), y) * torch.nan)
clinic.read(2, said(scaler.update))
scaler.scale(F.mse_loss(model(x), y)).backward()
scaler.step(optimizer)
clinic.mend(2, "step and update, or neither", well=said(scaler.update) == "")

# %% [markdown]
# ### Pitfall 3: unscale_ has already been called
#
# **Predict:** once for the log of the norm and once for clipping: does the second call divide again?

# %%
# NBVAL_CHECK_OUTPUT
scaler.scale(F.mse_loss(model(x), y)).backward()
scaler.unscale_(optimizer)
clinic.read(3, said(lambda: scaler.unscale_(optimizer)))
seen = [nn.utils.clip_grad_norm_(model.parameters(), 1.0) for _ in range(2)]
scaler.step(optimizer)
clinic.mend(3, "once, and both see true gradients", well=said(scaler.update) == "")

# %% [markdown]
# ### Pitfall 4: unscale_ is being called after step
#
# **Predict:** `update` was forgotten. What does the next iteration say?

# %%
# NBVAL_CHECK_OUTPUT
scaler.scale(F.mse_loss(model(x), y)).backward()
scaler.step(optimizer)
clinic.read(4, said(lambda: scaler.unscale_(optimizer)))
scaler.update()
scaler.scale(F.mse_loss(model(x), y)).backward()
clinic.mend(4, "update after each step", well=said(lambda: scaler.unscale_(optimizer)) == "")

# %% [markdown]
# ### Pitfall 6: Attempting to unscale FP16 gradients
#
# **Predict:** does it help to leave the gradients alone and cast the parameters back to FP32?

# %%
# NBVAL_CHECK_OUTPUT
for name in ("half", "float"):
    model = getattr(nn.Linear(8, 3), name)()
    optimizer, scaler = torch.optim.SGD(model.parameters()), GradScaler("cpu")
    with region():
        loss = F.mse_loss(model(x), y)
    scaler.scale(loss).backward()
    message = said(lambda s=scaler, o=optimizer: s.step(o))
    if name == "half":
        clinic.read(6, message)
clinic.mend(6, "FP32 parameters under autocast", well=message == "")

# %% [markdown]
# It does: the gradient has the dtype of its parameter.
#
# ### Pitfall 12: lr_scheduler.step before optimizer.step
#
# **Predict:** your order of calls is right. When does PyTorch say that it is wrong?


# %%
# NBVAL_CHECK_OUTPUT
def first_step_skipped(ask):
    model, optimizer, scaler = fresh()
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    scaler.scale(model(x).sum() * torch.inf).backward()
    before = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    if not ask or scaler.get_scale() >= before:
        scheduler.step()


clinic.read(12, said(lambda: first_step_skipped(ask=False)))
well = said(lambda: first_step_skipped(ask=True)) == ""
clinic.mend(12, "only if the scale did not fall", well=well)

# %% [markdown]
# ### Pitfall 15: Closures and LBFGS
#
# **Predict:** LBFGS wants a closure. What does the scaler say to it?

# %%
# NBVAL_CHECK_OUTPUT
model, optimizer, scaler = fresh()
lbfgs = torch.optim.LBFGS(model.parameters(), max_iter=5)


def closure():
    lbfgs.zero_grad()
    with region(bfloat):
        loss = F.mse_loss(model(x), y)
    loss.backward()
    return loss


scaler.scale(F.mse_loss(model(x), y)).backward()
clinic.read(15, said(lambda: scaler.step(lbfgs, closure=closure)))
well = lbfgs.step(closure) > closure()
clinic.mend(15, "BF16 and no scaler: the loss falls", well=bool(well))

# %% [markdown]
# ## Runs that say nothing
#
# ### Pitfall 5: The loss is frozen
#
# **Predict:** ten steps under one autocast. Do the weights move? Does the loss? And if the outer region
# is a disabled one?


# %%
def ten_losses(around):
    model, optimizer, _ = fresh()
    losses = []
    with around:
        for _ in range(10):
            optimizer.zero_grad()
            with region(bfloat):
                loss = F.mse_loss(model(x), y + 1)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


# %%
# NBVAL_CHECK_OUTPUT
frozen, each = ten_losses(region(bfloat)), ten_losses(nullcontext())
clinic.notice(5, "ten times the same loss", present=len(set(frozen)) == 1)
print("disabled outer region, the same:", ten_losses(region(enabled=False)) == frozen)
clinic.mend(5, "a region for each forward pass", well=each[-1] < frozen[0] / 2)

# %%
plots.curves(
    {"one region": frozen, "one each": each},
    title="A loss that stands still, and no error",
    xlabel="step",
    ylabel="loss",
    alt="Two curves of ten losses: under one region for the whole loop it is a flat line; "
    "with a region for each forward pass the loss falls to a small part.",
)

# %% [markdown]
# The casts of the first forward pass stay in the cache until the *outermost* region ends. The weights
# move, and nobody looks at them. A disabled region counts as a region: `enabled=False` around a loop
# that opens its own regions freezes it just the same.
#
# ### Pitfall 14: Clipped before unscale_
#
# **Predict:** max_norm is 1 and the true norm below that. How far does the model move, against a loop
# that unscales first?


# %%
# NBVAL_CHECK_OUTPUT
def clipped(unscale_first):
    model, optimizer, scaler = fresh()
    before = model.weight.detach().clone()
    scaler.scale(F.mse_loss(model(x), y)).backward()
    if unscale_first:
        scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
    scaler.step(optimizer)
    return norm, (model.weight - before).norm().item()


(wrong, hardly), (norm, moved) = clipped(False), clipped(True)
clinic.notice(14, f"the norm is {wrong / norm:.0f} times the true one", present=wrong > 10_000)
clinic.mend(14, "unscale_, clip, step", well=moved > 1000 * hardly)

# %% [markdown]
# ### Pitfall 16: Accumulation without division
#
# **Predict:** four micro-batches of a mean loss: how large is the gradient against that of the whole
# batch?


# %%
# NBVAL_CHECK_OUTPUT
def accumulated(parts, divide):
    model, optimizer, scaler = fresh()
    rows = torch.arange(64.0).view(8, 8) / 64
    for part in rows.chunk(parts):
        loss = model(part).square().mean()
        scaler.scale(loss / parts if divide else loss).backward()
    scaler.unscale_(optimizer)
    return model.weight.grad.norm().item()


whole = accumulated(1, True)
ratio = accumulated(4, False) / whole
clinic.notice(16, f"a gradient {ratio:.2f} times too large", present=ratio > 3.9)
clinic.mend(16, "each loss divided by 4", well=abs(accumulated(4, True) / whole - 1) < 1e-4)

# %% [markdown]
# ### Pitfall 17: Two optimizers and two updates
#
# **Predict:** the first model overflows, and `update` halves the scale before the second one steps.
# What becomes of the second model's gradient?


# %%
# NBVAL_CHECK_OUTPUT
def second_gradient(two_updates):
    (first, one, scaler), (second, two, _) = fresh(), fresh()
    scaler.scale(first(x).sum() * torch.inf).backward()
    scaler.scale(second(x).sum()).backward()
    scaler.step(one)
    if two_updates:
        scaler.update()
    scaler.step(two)
    scaler.update()
    return second.weight.grad[0, 0].item()


wrong, right = second_gradient(True), second_gradient(False)
clinic.notice(17, f"{wrong / right:.0f} times the gradient", present=wrong == 2 * right)
clinic.mend(17, "one update, last", well=right == 4.0)

# %% [markdown]
# (Four rows of ones: the gradient is 4.) It was scaled by 65536 and divided by 32768.
#
# ### Pitfall 30: Trained in one precision, evaluated in another
#
# **Predict:** a model overflows in FP16, the precision of its training and of its serving. What does a
# validation in FP32 say?

# %%
# NBVAL_CHECK_OUTPUT
model, _, _ = fresh()
scores = {}
for name, enabled in (("FP32", False), ("FP16", True)):
    with torch.no_grad(), region(enabled=enabled):
        scores[name] = F.mse_loss(model(x * 1e6), y).isfinite().item()
print("a finite validation loss:", scores)
clinic.notice(30, "the validation does not see the overflow", present=scores["FP32"])
clinic.mend(30, "validate in the precision of training", well=not scores["FP16"])

# %% [markdown]
# ## Dtypes that do not match
#
# ### Pitfall 8: Expected the same dtype
#
# **Predict:** the features come out of a region, and the head stands after it. Which of the two has
# to be cast?

# %%
# NBVAL_CHECK_OUTPUT
head = nn.Linear(3, 2)
with region():
    features = layer(x)
clinic.read(8, said(lambda: head(features)))
clinic.mend(8, ".float() on what leaves the region", well=head(features.float()).dtype is single)

# %% [markdown]
# The tensor, never the module: a head in FP16 would have FP16 gradients (pitfall 6). The wording
# differs between ops and versions; "same dtype" or "expected scalar type" is nearly always in it.
#
# ### Pitfall 9: scatter and index_copy_ refuse
#
# **Predict:** inside the region, features are written into an FP32 buffer. Does autocast help?

# %%
# NBVAL_CHECK_OUTPUT
rows = torch.arange(4)
with region():
    features, buffer = layer(x), torch.zeros(4, 3)
    clinic.read(9, said(lambda: buffer.scatter(0, rows.view(4, 1), features)))
    clinic.read(9, said(lambda: buffer.index_copy_(0, rows, features)))
    done = buffer.index_copy_(0, rows, features.to(buffer.dtype))
clinic.mend(9, ".to() the buffer's dtype", well=done.dtype is single)

# %% [markdown]
# ### Pitfall 10: A custom Function without its decorators
#
# **Predict:** its forward runs in the region. In which dtypes does its backward find the gradient and
# the saved weight?


# %%
class Product(torch.autograd.Function):
    """x @ w, as one writes it for FP32."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return grad @ w.T, x.T @ grad


class Decorated(Product):
    """The same, with autocast's state carried over to the backward pass."""

    forward = staticmethod(torch.amp.custom_fwd(Product.forward, device_type="cpu"))
    backward = staticmethod(torch.amp.custom_bwd(Product.backward, device_type="cpu"))


# %%
# NBVAL_CHECK_OUTPUT
def backward_of(function):
    weight = torch.ones(8, 3, requires_grad=True)
    with region():
        loss = function.apply(x.clone().requires_grad_(), weight).float().sum()
    loss.backward()
    return weight.grad


clinic.read(10, said(lambda: backward_of(Product)))
clinic.mend(10, "custom_fwd and custom_bwd", well=backward_of(Decorated).dtype is single)

# %% [markdown]
# ### Pitfall 20: A mask of minus 1e9
#
# **Predict:** scores in FP16, a mask of −1e9. And what is the largest negative number that fits?

# %%
# NBVAL_CHECK_OUTPUT
scores, mask = torch.zeros(3, dtype=half), torch.tensor([False, False, True])
clinic.read(20, said(lambda: scores.masked_fill(mask, -1e9)))
lowest = torch.finfo(scores.dtype).min
weights = scores.masked_fill(mask, lowest).softmax(0)
print("lowest", lowest, " weights", weights.tolist())
clinic.mend(20, "torch.finfo(scores.dtype).min", well=weights[2].item() == 0)

# %% [markdown]
# ### Pitfall 29: NumPy has no bfloat16
#
# **Predict:** which of `.numpy()`, `.tolist()` and `.item()` refuses BF16?

# %%
# NBVAL_CHECK_OUTPUT
values = torch.ones(1, dtype=bfloat)
print("tolist", said(values.tolist) == "", " item", said(values.item) == "")
clinic.read(29, said(values.numpy))
clinic.mend(29, ".float().numpy()", well=values.float().numpy().dtype == "float32")

# %% [markdown]
# ## Numbers that break
#
# ### Pitfall 11: BCELoss is unsafe to autocast
#
# Only CUDA raises; a CPU computes, and worse is to come. `op_policy` asks CUDA's rules on fake
# tensors and gets the real message. **Predict:** at a logit of 10 and a target of 0, the true gradient
# is about 1. What does FP16 give on a CPU, through a sigmoid?

# %%
# NBVAL_CHECK_OUTPUT
clinic.read(11, op_policy("binary_cross_entropy", "cuda").note)
logit, target = torch.tensor([10.0], dtype=half, requires_grad=True), torch.zeros(1)
with region():
    through_sigmoid = F.binary_cross_entropy(logit.sigmoid(), target)
    with_logits = F.binary_cross_entropy_with_logits(logit, target)
(wrong,) = torch.autograd.grad(through_sigmoid, logit)
(right,) = torch.autograd.grad(with_logits, logit)
print("through the sigmoid", wrong.item(), " with logits", right.item())
clinic.mend(11, "binary_cross_entropy_with_logits", well=right.item() == 1)

# %% [markdown]
# ### Pitfall 13: The scale sinks to nothing
#
# A network that was trained in BF16 may have features beyond 65504. **Predict:** what does the scaler
# do with them, and what does BF16 do?


# %%
# NBVAL_CHECK_OUTPUT
def thirty_steps(dtype):
    model, optimizer, scaler = fresh()
    for _ in range(30):
        optimizer.zero_grad()
        with region(dtype):
            loss = (model(x * 1e6) / 1e6).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    return scaler.get_scale(), loss.isfinite().item()


scale, finite = thirty_steps(half)
clinic.notice(13, f"a scale of {scale:.2g}, a finite loss: {finite}", present=scale < 1)
scale, finite = thirty_steps(bfloat)
clinic.mend(13, f"BF16: a scale of {scale:.0f}, a finite loss: {finite}", well=finite)

# %% [markdown]
# If the loss is inf before `scale`, look at the forward pass and leave the scaler alone.
#
# ### Pitfall 18: Adam in pure FP16 divides by zero
#
# **Predict:** one step, from 1, with gradients of 1e-4 and of 0.


# %%
# NBVAL_CHECK_OUTPUT
def adam_step(dtype):
    weight = torch.ones(2, dtype=dtype, requires_grad=True)
    optimizer = torch.optim.Adam([weight], lr=0.25)
    weight.grad = torch.tensor([1e-4, 0.0], dtype=dtype)
    optimizer.step()
    return weight.detach()


eps, squared = torch.tensor(1e-8).half().item(), torch.tensor(1e-4).half().square().item()
print("in FP16: eps", eps, " squared gradient", squared)
clinic.notice(18, str(adam_step(half).tolist()), present=not adam_step(half).isfinite().any())
well = (adam_step(single) - torch.tensor([0.75, 1.0])).abs().max().item() < 1e-3
clinic.mend(18, "FP32 parameters and states", well=well)

# %% [markdown]
# A small gradient is divided by $\sqrt{0} + 0$, a gradient of 0 is 0/0. The second ends as NaN although
# nothing asked it to move.
#
# ### Pitfall 19: log of p plus 1e-8
#
# **Predict:** the entropy of probabilities in FP16 of which one is 0: what does the 1e-8 save?

# %%
# NBVAL_CHECK_OUTPUT
logits = torch.tensor([20.0, 0.0, -20.0], dtype=half)
p = logits.softmax(0)
entropy = -(p * (p + 1e-8).log()).sum()
clinic.notice(19, f"an entropy of {entropy.item()}", present=bool(entropy.isnan()))
log_p = logits.log_softmax(0)
stable = -(log_p.exp() * log_p).sum()
clinic.mend(19, "log_softmax", well=bool(stable.isfinite()))

# %% [markdown]
# ### Pitfall 21: BatchNorm in half precision
#
# Features of some 60,000 fit in FP16. **Predict:** does their variance? What does the layer give in
# evaluation, in a model that was made FP16, and in one under autocast?


# %%
# NBVAL_CHECK_OUTPUT
def evaluated(norm, features):
    with region():
        norm.train()(features)
        return norm.running_var.item(), norm.eval()(features).flatten().tolist()


features = torch.tensor([[60000.0], [-60000.0], [30000.0]], dtype=half)
variance, output = evaluated(nn.BatchNorm1d(1).half(), features)
clinic.notice(21, f"variance {variance}, outputs {output}", present=not any(output))
variance, output = evaluated(nn.BatchNorm1d(1), features)
clinic.mend(21, "statistics in FP32", well=variance > 65504 and all(output))

# %% [markdown]
# BatchNorm is on none of autocast's lists: its output has the dtype of its input. What saves it is
# that autocast leaves its parameters and statistics in FP32.
#
# ## Around the loop
#
# ### Pitfall 7: Gradients missing after a no_grad pass
#
# In older versions a cast made under `no_grad` stayed in the cache, without a history, and the next
# pass in the same region had no gradient. **Predict:** and today?

# %%
# NBVAL_CHECK_OUTPUT
model, _, _ = fresh()
with region():
    with torch.no_grad():
        model(x)
    output = model(x)
print("has a history:", output.requires_grad, output.grad_fn is not None)
clinic.cite(7)

# %% [markdown]
# It works in 2.13. With an older version give the pass under `no_grad` a region of its own.
#
# ### Pitfall 22: RMSNorm has another dtype than before
#
# **Predict:** FP16 input, CUDA's autocast, this version: which dtype comes out of `rms_norm`?

# %%
# NBVAL_CHECK_OUTPUT
print("cuda:", op_policy("rms_norm", "cuda").low, " cpu:", op_policy("rms_norm", "cpu").low)
clinic.cite(22)

# %% [markdown]
# Until 2.11 it was FP16 on CUDA, too. A behaviour belongs to a version and to a device: state both,
# and let a test hold what you rely on.
#
# ### Pitfall 26: Recomputed in another dtype
#
# A hand-made checkpoint: nothing is saved, and the backward pass computes the layer once more.
# **Predict:** under which autocast does that second forward pass run?


# %%
class Recompute(torch.autograd.Function):
    @staticmethod
    def forward(ctx, layer, x):
        ctx.layer = layer
        ctx.save_for_backward(x)
        return layer(x)

    @staticmethod
    def backward(ctx, grad):
        again = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            output = ctx.layer(again)
        torch.autograd.backward(output, grad)
        return None, again.grad


# %%
# NBVAL_CHECK_OUTPUT
def fp32_products(run):
    model, _, _ = fresh()
    with region():
        loss = run(model, x.clone().requires_grad_()).float().sum()
    with Watch() as watch:
        loss.backward()
    return watch.count("addmm", "mm", takes=single)


found = fp32_products(Recompute.apply)
clinic.notice(26, f"{found} products of the backward pass in FP32", present=found > 0)
clinic.mend(
    26, "torch.utils.checkpoint", well=fp32_products(partial(checkpoint, use_reentrant=False)) == 0
)

# %% [markdown]
# Under none: the backward pass stands outside. So the gradient belongs to another forward pass than
# the one whose loss you saw. (With a second layer behind it, which gets an FP16 input, it is pitfall 8
# in the middle of a backward pass.)
#
# ### Pitfall 27: A compiled backward ignores an inner region
#
# The last layer is kept in FP32, as for a number that FP16 cannot hold. **Predict:** its gradient is
# 65536 in eager mode. And compiled?


# %%
class KeepsLast(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4, bias=False), nn.Linear(4, 1)
        nn.init.ones_(self.first.weight)

    def forward(self, x):
        hidden = self.first(x)
        with region(enabled=False):
            return self.last(hidden.float())


def last_gradient(model, call):
    with region():
        output = call(torch.ones(1, 4))
    model.zero_grad()
    (output * 16384).sum().backward()
    return model.last.weight.grad[0, 0].item()


# %%
# NBVAL_CHECK_OUTPUT
from torch._functorch import config

model = KeepsLast()
print("eager", last_gradient(model, model))
found = last_gradient(model, torch.compile(model, backend="aot_eager"))
clinic.notice(27, f"{found} in a compiled backward", present=found == torch.inf)
torch._dynamo.reset()
with config.patch(backward_pass_autocast="off"):
    found = last_gradient(model, torch.compile(model, backend="aot_eager"))
clinic.mend(27, f"{found} with backward_pass_autocast off", well=found == 65536)

# %% [markdown]
# Lesson 11 has more on it. The default is about to change; until then set it to "off" where your
# backward pass stands outside autocast.
#
# ## The machine
#
# ### Pitfall 23: No speed-up
#
# Only a GPU can show it, and lesson 10 measures it. One cause can be counted anywhere. **Predict:** does
# autocast make a step of a small network of fewer operations, or of more?


# %%
# NBVAL_CHECK_OUTPUT
def operations(enabled):
    with Watch() as watch, region(enabled=enabled):
        loss = F.cross_entropy(network(rows).float(), labels)
        torch.autograd.grad(loss, list(network.parameters()))
    return len(watch.ops)


network, rows, labels = training.digits_network(), digits.train_images[:8], digits.train_labels[:8]
print("more operations under autocast:", operations(True) > operations(False))
clinic.cite(23)

# %% [markdown]
# Each is a launch on a GPU. Where launches are the bound, autocast makes a step *slower*. The other
# causes: the data loader is the bound, TF32 is on already, there are no tensor cores for the dtype,
# sizes are no multiples of 8. Find the bound first.
#
# ### Pitfall 24: Memory unchanged
#
# **Predict:** four layers of 512 with Adam, 8 rows. How much of the step's memory does autocast save?

# %%
# NBVAL_CHECK_OUTPUT
network = nn.Sequential(*[nn.Linear(512, 512) for _ in range(4)])
found = saving(torch.randn(8, 512))
clinic.notice(24, f"nothing is saved: {found < 0}", present=found < 0.05)
network = nn.Sequential(*[m for _ in range(4) for m in (nn.Linear(64, 64), nn.Tanh())])
clinic.mend(
    24, "autocast pays where activations dominate", well=saving(torch.randn(4096, 64)) > 0.3
)

# %% [markdown]
# Weights, gradients and Adam's averages stay as they are. If they are your memory, look at the
# optimizer's state, at sharding (lesson 11) or at smaller parameters, and not at autocast.
#
# ### Pitfall 25: Autocast on a CPU is slow
#
# **Predict:** what does autocast take away from a layer's forward pass on a CPU, and what does it add?


# %%
# NBVAL_CHECK_OUTPUT
def forward_ops(enabled):
    with Watch() as watch, region(enabled=enabled):
        layer(x)
    return watch.count("addmm"), watch.count("_to_copy", "to")


print("products and casts: without", forward_ops(False), " with", forward_ops(True))
added = forward_ops(True)[1]
clinic.notice(25, f"{added} casts, and no product fewer", present=added > 0)
clinic.mend(25, "FP32 where 16 bits bring nothing", well=forward_ops(False)[1] == 0)

# %% [markdown]
# Whether the product itself is faster in 16 bits depends on this machine's instructions. The next
# cell times it; most CPUs have nothing for FP16.

# %% tags=["live"]
from torch.utils.benchmark import Timer

print("this CPU:", torch.backends.cpu.get_cpu_capability())
for dtype in (single, bfloat, half):
    a = torch.randn(128, 128).to(dtype)
    time = Timer("a @ a", globals={"a": a}).blocked_autorange(min_run_time=0.2).median
    print(f"{dtype!s:15} {time * 1e6:8.1f} µs")

# %% [markdown]
# ### Pitfall 28: The scaler on MPS needs float64
#
# Apple's GPUs have no float64, and before 2.8 `unscale_` took the inverse of the scale in it.
# **Predict:** what did `scaler.step` say there?

# %%
# NBVAL_CHECK_OUTPUT
clinic.cite(28)

# %% [markdown]
# "Cannot convert a MPS Tensor to float64 dtype"
# ([issue 142397](https://github.com/pytorch/pytorch/issues/142397)). The cure is a newer version; not
# measured here.
#
# ## The record
#
# **Predict:** how many of the 30 could be had on a CPU, with this version?

# %%
# NBVAL_CHECK_OUTPUT
for shown in ("triggered here", "cited"):
    print(f"{shown:15}", sum(found == shown for found in clinic.seen.values()))

# %%
# NBVAL_CHECK_OUTPUT
clinic.table()

# %% [markdown]
# ## Recap
#
# 1. A claim about AMP is worth what its test is worth: name the op, the device, the version, the
#    baseline.
# 2. "FP32", "faster" and "smaller" are true of some ops, some sizes and some parts of memory; most
#    myths are one such case told as a rule.
# 3. The scaler's messages name the missing call; read them literally, and mend the order of calls
#    instead of silencing them.
# 4. The worst faults say nothing: a frozen loss, a clip too early, a stale cast, a gradient twice too
#    large. Look at losses, scale and dtypes in every run.
# 5. NaN means large numbers or a logarithm of 0; a loss that stands still means zeros.

# %% [markdown]
# ## Three questions
#
# **1.** "Under autocast the loss is FP32." When is that true? (a) always (b) when its last op is on
# autocast's FP32 list (c) on CUDA
#
# <details><summary>Answer</summary>
#
# **(b)** The list decides, op by op, and it differs between devices. (a) The mean of FP16 features is
# FP16. (c) `mean` is not on CUDA's list either.
#
# </details>
#
# **2.** The scale was 65536 and is 0.06 after 20 steps. Where do you look first? (a) at the loss,
# before scaling (b) at the learning rate (c) at `growth_interval`
#
# <details><summary>Answer</summary>
#
# **(a)** An inf there comes from the forward pass, and no scale can mend it. (b) No step was taken,
# so it had no part in this. (c) It says how the scale grows; here it only falls.
#
# </details>
#
# **3.** Two optimizers share a scaler, with an `update` after each step. The first model overflows.
# The second one's gradients are then (a) zero (b) twice too large (c) right
#
# <details><summary>Answer</summary>
#
# **(b)** They were multiplied by the old scale and divided by half of it. (a) Nothing sets them to
# zero. (c) would be so with one update, last.
#
# </details>

# %%
# NBVAL_CHECK_OUTPUT
# The answers, computed.
with region():
    output = layer(x)
    print("1.", F.mse_loss(output, y).dtype, output.mean().dtype, op_policy("mean", "cuda").low)
with region():
    loss = F.mse_loss(layer(x * 1e6), y)
print("2.", loss.item(), "before any scaling; 65536 halved 20 times is", 65536 / 2**20)
print("3.", second_gradient(two_updates=True) / second_gradient(two_updates=False))

# %% [markdown]
# **Next:** ten cases in `exercises/12_myths_and_clinic.ipynb`, the last exercises of the course. Each
# is a program that is ill; each has to end with the right loss, scale and dtypes.
