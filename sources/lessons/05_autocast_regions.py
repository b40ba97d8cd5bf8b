# %% [markdown]
# # Lesson 05: Regions, cache, threads
#
# **You will be able to** put the border of an autocast region where it belongs, say what crosses
# it and in which dtype, count the casts that happen inside, and find the three silent faults: a
# backward pass in the region, a stale cache, and a thread without autocast.
#
# **Time** 45 minutes. **Needs** [[lesson autocast_ops]], and a training loop that you have written yourself; no
# GPU.
#
# Autocast is a state that is on or off, and a region is the stretch of your program in which it is
# on. Which dtype an operation gets there is another matter: [[lesson autocast_ops]] is about that. This one is
# about the border.

# %%
import copy
import threading
import warnings
from contextlib import nullcontext

import torch
from torch import nn
from torch.nn import functional as F

from amp_lessons import plots

bfloat, half = torch.bfloat16, torch.float16
region = torch.autocast("cpu", dtype=bfloat)

# %% [markdown]
# ## A region
#
# **Predict:** the layer has float32 weights and gets a float32 input. Which dtype does it give
# before, inside and after the region, and which dtype have its weights inside?

# %%
layer, x = nn.Linear(8, 3), torch.ones(4, 8)
print("before", layer(x).dtype)
with torch.autocast("cpu", dtype=bfloat):
    print("inside", layer(x).dtype, "weights", layer.weight.dtype)
print("after ", layer(x).dtype)

# %% [markdown]
# Nothing about the layer changes. The region casts what the operation takes, each time it runs.
#
# `torch.autocast` is also a decorator, and `enabled=` makes a region of any stretch without an
# `if`. **Predict:** how many of these four functions give bfloat16?

# %%
decorated = torch.autocast("cpu", dtype=bfloat)(layer)
switched_off = torch.autocast("cpu", dtype=bfloat, enabled=False)(layer)
default = torch.autocast("cpu")(layer)
calls = {"decorated": decorated, "enabled=False": switched_off, "no dtype": default, "plain": layer}
for name, call in calls.items():
    print(f"{name:13} {call(x).dtype}")

# %% [markdown]
# Without a dtype, `torch.autocast("cpu")` means bfloat16, and `torch.autocast("cuda")` float16. On
# your own `forward` method, write `@torch.autocast("cpu", dtype=torch.bfloat16)` above the `def`.
#
# Older code says `from torch.cuda.amp import autocast, GradScaler`. **Predict:** what becomes of
# the two lines below, the first of which stands in a popular collection of interview answers?

# %%
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    try:
        torch.cuda.amp.autocast(device_type="cuda", dtype=half)
    except TypeError as error:
        print("TypeError: autocast", str(error).split("() ")[-1])
    old = torch.cuda.amp.autocast(enabled=False)
print(f"{caught[-1].category.__name__}, and a region for {old.device}, {old.fast_dtype}")

# %% [markdown]
# The old `autocast` knows one device and takes no `device_type`, so the snippet cannot run. Called
# rightly it works, and warns: `autocast`, `GradScaler`, `custom_fwd` and `custom_bwd` of
# `torch.cuda.amp`, and the first two of `torch.cpu.amp`, are deprecated since 2.4. Write
# `torch.autocast("cuda", …)` and `torch.amp.GradScaler("cuda")`.
#
# You can ask for the state. **Predict:** which of the three is True in a CPU region? And what is
# left of it when the region ends by an exception?

# %%
try:
    with torch.autocast("cpu", dtype=bfloat):
        print('is_autocast_enabled("cpu") ', torch.is_autocast_enabled("cpu"))
        print('is_autocast_enabled("cuda")', torch.is_autocast_enabled("cuda"))
        print("is_autocast_enabled()      ", torch.is_autocast_enabled())
        print('get_autocast_dtype("cpu")  ', torch.get_autocast_dtype("cpu"))
        raise ValueError
except ValueError:
    print("after an exception         ", torch.is_autocast_enabled("cpu"))

# %% [markdown]
# Each device type has a state of its own, and without an argument, an old form, the question is
# about CUDA: in code that should run on any device, name it. The dtype can be asked for even when
# autocast is off, so `get_autocast_dtype` alone does not tell whether anything is cast.

# %% [markdown]
# ## Where the region ends
#
# One training step, with the border where it belongs:
#
# ```python
# optimizer.zero_grad()
# with torch.autocast("cuda", dtype=torch.bfloat16):
#     loss = loss_fn(model(x), y)      # forward and loss: inside
# loss.backward()                      # outside
# optimizer.step()                     # outside
# ```
#
# **The loss is inside**, because the model's output is 16 bits wide, and outside nobody picks a
# dtype for what is computed from it. **Predict:** the same loss function, inside and outside:
# which dtypes?

# %%
labels = torch.tensor([0, 2, 1, 0])
with region:
    prediction = layer(x)
    print("inside ", prediction.dtype, "->", F.cross_entropy(prediction, labels).dtype)
print("outside", prediction.dtype, "->", F.cross_entropy(prediction, labels).dtype)

# %% [markdown]
# Outside, the loss is quietly computed in 16 bits. With a matrix product in it, it would raise.
#
# **Backward is outside**, because it follows the forward pass by itself: autograd recorded the
# casts too, and each gradient gets the dtype of what it belongs to. What, then, does autocast do
# to a backward pass inside? **Predict:** first a network that ran wholly in the region, then one
# whose last layer was kept in float32 by a disabled subregion. In which of them does the gradient
# of that last layer change when `backward()` moves inside?


# %%
def last_gradient(keep_float32, backward_inside):
    torch.manual_seed(0)
    first, last, data = nn.Linear(16, 32), nn.Linear(32, 4), torch.randn(64, 16)
    with torch.autocast("cpu", dtype=bfloat):
        hidden = first(data).tanh()
        with torch.autocast("cpu", dtype=bfloat, enabled=not keep_float32):
            output = last(hidden.float() if keep_float32 else hidden)
        loss = output.float().square().mean()
    with torch.autocast("cpu", dtype=bfloat, enabled=backward_inside):
        loss.backward()
    return last.weight.grad


# %%
def are_bfloat_numbers(tensor):
    return torch.equal(tensor.bfloat16().float(), tensor)


for keep in (False, True):
    outside, inside = last_gradient(keep, False), last_gradient(keep, True)
    print("last layer in float32:", keep)
    print("    same gradient outside and inside:", torch.equal(outside, inside))
    print("    bfloat16 numbers only: outside", are_bfloat_numbers(outside), end=", ")
    print("inside", are_bfloat_numbers(inside))

# %% [markdown]
# Where the forward pass ran in 16 bits, nothing changes: the operands already are 16 bits wide.
# Where it ran in float32, the matrix products of the backward pass are cast like any other: the
# gradient is stored in float32, and every number in it has bfloat16's 8 bits. Nothing is reported.
# The part of the network that you took out of autocast, because it needs the digits, is the one
# that loses them.
#
# **Predict:** how large is the error beside float32's own rounding, an ulp of $2^{-23}$ at 1?

# %%
exact = last_gradient(True, False)
error = (last_gradient(True, True) - exact).norm() / exact.norm()
print("more than a thousand ulp:", bool(error > 1000 * 2.0**-23))

# %% [markdown]
# In older versions it could be worse on CUDA: the backward pass runs in a thread of its own there,
# and in a bfloat16 region it computed in float16, since the dtype of a region belongs to a thread.
# Today's hand it on ([pytorch issue 125186](https://github.com/pytorch/pytorch/issues/125186),
# closed; not measured here). PyTorch's documentation says that backward passes under autocast are
# [not recommended](https://docs.pytorch.org/docs/stable/amp.html#torch.autocast).
#
# **The step is outside** too. **Predict:** for which of these optimizers does a step in the region
# give other weights?


# %%
def after_three_steps(make, inside):
    torch.manual_seed(1)
    model, data = nn.Linear(16, 4), torch.randn(64, 16)
    optimizer = make(model.parameters(), lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        model(data).square().mean().backward()
        with torch.autocast("cpu", dtype=bfloat, enabled=inside):
            optimizer.step()
    return model.weight


for make in (torch.optim.SGD, torch.optim.AdamW, torch.optim.Adafactor):
    same = torch.equal(after_three_steps(make, False), after_three_steps(make, True))
    print(f"{make.__name__:10} same weights: {same}")

# %% [markdown]
# SGD and AdamW use no operation that autocast moves to 16 bits, so for them it does not matter.
# Adafactor multiplies matrices, and so may the next optimizer that you try. There is a stronger
# reason to close the region before the weights change, and it has to wait for the cache.

# %% [markdown]
# ## Regions in regions
#
# The innermost region decides, and its end restores the one around it. **Predict:** the four
# dtypes.

# %%
with torch.autocast("cpu", dtype=bfloat):
    print("outer           ", nn.Linear(8, 3)(x).dtype)
    with torch.autocast("cpu", dtype=half):
        print("another dtype   ", nn.Linear(8, 3)(x).dtype)
    with torch.autocast("cpu", enabled=False):
        print("disabled        ", nn.Linear(8, 3)(x).dtype)
    print("outer once more ", nn.Linear(8, 3)(x).dtype)

# %% [markdown]
# A disabled subregion is how one part of a model is kept in float32. **Predict:** what happens if
# that part gets the output of the layer before it?

# %%
head = nn.Linear(3, 2)
with torch.autocast("cpu", dtype=bfloat):
    features = layer(x)
    with torch.autocast("cpu", enabled=False):
        try:
            head(features)
        except RuntimeError as error:
            print("RuntimeError:", error)
        print("with .float():", head(features.float()).dtype)

# %% [markdown]
# Disabling turns off the casts, also those that you need. The rule has two halves: disable, *and*
# cast the inputs. The cast is recorded, so the gradient finds its way back into the 16-bit part.
#
# Neither half is enough alone. **Predict:** what does `.float()` achieve *without* the disabled
# subregion?

# %%
with torch.autocast("cpu", dtype=bfloat):
    print(head(layer(x).float()).dtype)

# %% [markdown]
# Autocast casts it down again: the digits are lost, and the cast is paid for twice.

# %% [markdown]
# ## What leaks out
#
# The results of a region keep their dtype when it ends. Outside, three things can happen to a
# 16-bit tensor that meets float32. **Predict:** which of these raise?

# %%
with region:
    leaked = layer(x).detach()
attempts = {
    "leaked @ weight": lambda: leaked @ torch.ones(3, 2),
    "head(leaked)": lambda: head(leaked),
    "leaked + bias": lambda: leaked + torch.ones(3),
    "layer_norm(leaked)": lambda: nn.LayerNorm(3)(leaked),
    "leaked.numpy()": lambda: leaked.numpy(),
}
for name, attempt in attempts.items():
    try:
        print(f"{name:19} {attempt().dtype}")
    except (RuntimeError, TypeError) as error:
        print(f"{name:19} {type(error).__name__}: {error}")

# %% [markdown]
# - Matrix products **raise**, in wordings that differ from one operation to the next and between
#   versions. Look for two dtypes beside "same", "match" or "expected".
# - Additions **widen**: ordinary type promotion gives float32.
# - The rest **goes on in 16 bits**, as the loss above did. This is the leak to be afraid of. (A
#   layer norm with float32 weights does so on a CPU; on CUDA it raises, as [pytorch issue
#   138128](https://github.com/pytorch/pytorch/issues/138128) shows.)
#
# The remedy is one `.float()` at the border, on what leaves. Do not cast the module on the other
# side: `head.bfloat16()` would train 16-bit weights. (In place, through `out=` and in float64 the
# dtypes are yours to choose inside a region too: [[lesson autocast_ops]].)

# %% [markdown]
# ## The cast cache
#
# A float32 weight that is used ten times in a region would be cast ten times. To see whether it
# is, watch what really runs: a `TorchDispatchMode` stands below autocast, and so sees the casts
# that it inserts.

# %%
from torch.utils._python_dispatch import TorchDispatchMode


class Watch(TorchDispatchMode):
    """Lists each operation with the dtypes of its first input and of its result."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        first = result[0] if isinstance(result, tuple) else result
        self.lines.append(f"{func}: {args[0].dtype} -> {first.dtype}".replace("torch.", ""))
        return result

    @property
    def casts(self):
        return sum(line.endswith("float32 -> bfloat16") for line in self.lines)


# %% [markdown]
# **Predict:** one forward pass of a linear layer with a float32 input. How many operations run,
# and how many of them are casts?

# %%
with Watch() as watch, region:
    layer(x)
print(*watch.lines, sep="\n")

# %% [markdown]
# Weight, bias and input are cast, then the product is computed. From now on the input is bfloat16
# already, so that only the two parameters need casts.
#
# **Predict:** how many casts do ten forward passes take, in one region, in each of these five
# ways?


# %%
narrow = x.bfloat16()


def casts_of_ten(layer, **options):
    with Watch() as watch, torch.autocast("cpu", dtype=bfloat, **options):
        for _ in range(10):
            layer(narrow)
    return watch.casts


# %%
frozen = copy.deepcopy(layer).requires_grad_(False)
print("as it is            ", casts_of_ten(layer))
print("cache_enabled=False ", casts_of_ten(layer, cache_enabled=False))
print("frozen parameters   ", casts_of_ten(frozen))
print("under no_grad       ", torch.no_grad()(casts_of_ten)(layer))
print("in inference_mode   ", torch.inference_mode()(casts_of_ten)(layer))

# %% [markdown]
# The first two lines show that there is a cache. The others show what it holds: casts of float32
# *leaves that require a gradient*, and of nothing else. (A leaf is a tensor that was not computed
# from others, such as a parameter.) Frozen layers go past it, which in fine-tuning may be nearly
# all; so does inference mode.
#
# **Predict:** of these parameters, which are cast once, which ten times, and which never?

# %%
table = nn.Parameter(torch.ones(6, 8))
print("used twice in a pass", casts_of_ten(lambda x: (F.linear(x, table), F.linear(x, table))))
print("a slice of it       ", casts_of_ten(lambda x: F.linear(x, table[:3])))
print("computed from it    ", casts_of_ten(lambda x: F.linear(x, 2 * table)))
print("a layer norm's own  ", casts_of_ten(nn.LayerNorm(8)))

# %% [markdown]
# A slice is a view, and a product is no leaf: neither is cached, and both are cast in each pass.
# The layer norm gets no cast at all on the CPU.
#
# The cache is emptied when the *outermost* region ends. **Predict:** ten passes with a region for
# each of them; then the same inside one outer region; then in one region with
# `torch.clear_autocast_cache()` after each pass.


# %%
def casts_of(work):
    with Watch() as watch:
        work()
    return watch.casts


def ten_regions(after=lambda: None):
    for _ in range(10):
        with torch.autocast("cpu", dtype=bfloat):
            layer(narrow)
        after()


print("ten regions         ", casts_of(ten_regions))
print("in an outer region  ", casts_of(lambda: region(ten_regions)()))
print("cleared each time   ", casts_of(lambda: region(ten_regions)(torch.clear_autocast_cache)))

# %% [markdown]
# One more property, for those who nest two dtypes. **Predict:** the layer has been used in the
# outer region, in bfloat16. Now it is used in an inner one, in float16.

# %%
with torch.autocast("cpu", dtype=bfloat):
    layer(x)
    with torch.autocast("cpu", dtype=half):
        try:
            layer(x)
        except RuntimeError as error:
            print("RuntimeError:", error)
        torch.clear_autocast_cache()
        print("after clearing:", layer(x).dtype)

# %% [markdown]
# The cache knows which weight was cast, and not to which dtype
# ([its key](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/autocast_mode.cpp) is
# the float32 tensor alone). The input is cast to float16 and meets the bfloat16 copy of the
# weight.

# %% [markdown]
# ## The stale cache
#
# The key does not know either whether the weight has *changed* since. Take the smallest training
# there is: one weight that begins at 1 and should become 3, so the loss, $(w - 3)^2$, begins at 4.
#
# **Predict:** eight steps, once with a region in each step, once with one more region around the
# whole loop. What are the loss and the weight at the end?


# %%
def train(around_the_loop, after_step=lambda: None, steps=8):
    model = nn.Linear(1, 1, bias=False)
    nn.init.ones_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.125)
    losses = []
    with around_the_loop:
        for _ in range(steps):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=bfloat):
                loss = F.mse_loss(model(torch.ones(1, 1)), torch.tensor([[3.0]]))
            losses.append(loss.item())
            loss.backward()
            optimizer.step()
            after_step()
    return losses, model.weight.item()


# %%
places = {"in each step": nullcontext(), "around the loop": torch.autocast("cpu", dtype=bfloat)}
for place, around in places.items():
    losses, weight = train(around)
    print(f"{place:15}  loss {losses[0]} -> {losses[-1]:.2f}  weight 1.0 -> {weight:.2f}")

# %%
plots.curves(
    {name: train(around)[0] for name, around in places.items()},
    title="The same eight steps, with the region in two places",
    xlabel="step",
    ylabel="loss",
    alt="With a region in each step the loss falls from 4 towards 0 within eight steps; with one "
    "region around the loop it stays at 4.",
)

# %% [markdown]
# The model keeps computing with the bfloat16 copy of 1.0, so the loss, and with it the gradient,
# stay what they were. The optimizer takes the same step again and again, past 3 and on to 5.
# There is no error and no warning: a loss that stands still while the weights move is the only
# sign. The inner region in each step does not help, since the outer one keeps the cache alive.
#
# **Predict:** what if the region around the loop is disabled? And does
# `torch.clear_autocast_cache()` after each step mend the loop?

# %%
losses, weight = train(torch.autocast("cpu", enabled=False))
print(f"disabled around the loop: loss {losses[0]} -> {losses[-1]:.2f}")
losses, weight = train(region, after_step=torch.clear_autocast_cache)
print(f"cleared after each step:  loss {losses[0]} -> {losses[-1]:.2f}")

# %% [markdown]
# A disabled region is a region too: the cache waits for the end of the outermost one, on or off.
#
# Clearing mends the loop, and is the wrong repair in training: `backward()` is still inside.
# Close the region before the weights change. Clearing is for the rare place where weights must
# change within one: a copied-in checkpoint, averaged weights that are swapped in for an
# evaluation.

# %% [markdown]
# ## Threads
#
# **Predict:** a region is open, and a new thread is started in it. Is autocast on in the thread?


# %%
def in_a_thread(work):
    found = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


def report():
    return torch.is_autocast_enabled("cpu"), layer(x).dtype


with torch.autocast("cpu", dtype=half):
    print("this thread      ", report())
    print("a new thread     ", in_a_thread(report))
    print("with its own     ", in_a_thread(torch.autocast("cpu", dtype=half)(report)))

# %% [markdown]
# The state belongs to a thread, and every thread begins with autocast off. No error comes of it:
# the work is done in float32, slower. The remedy is to open the region *in* the thread, as a
# `with` block or as a decorator of what the thread runs, for example of the model's `forward`.
#
# `nn.DataParallel` runs its replicas in threads, and opens a region in each of them:
# `torch.amp.autocast(device_type, enabled=autocast_enabled)`, says
# [its source](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/nn/parallel/parallel_apply.py).
# Here is the same on the CPU. **Predict:** the dtypes.


# %%
def as_data_parallel_does(replicas, x):
    enabled = torch.is_autocast_enabled("cpu")

    def worker(replica):
        with torch.autocast("cpu", enabled=enabled):
            return replica(x).dtype

    return [in_a_thread(lambda r=r: worker(r)) for r in replicas]


with torch.autocast("cpu", dtype=half):
    print("this thread", layer(x).dtype)
    print("its workers", as_data_parallel_does([nn.Linear(8, 3), nn.Linear(8, 3)], x))

# %% [markdown]
# `enabled` is carried over and the dtype is not, so the workers use the default: bfloat16 here,
# and float16 on CUDA, also for those who asked for bfloat16 (by that code; not measured here). The
# sheet's last exercise does it better. DistributedDataParallel with one process for each GPU has
# no such threads.
#
# The cache, in contrast, is one for all threads. **Predict:** a layer is used, then another thread
# opens and closes a region, then the layer is used again: 2 casts or 4?

# %%
with Watch() as watch, region:
    layer(narrow)
    in_a_thread(torch.autocast("cpu", dtype=bfloat)(lambda: None))
    layer(narrow)
print(watch.casts)

# %% [markdown]
# The other thread's region was *its* outermost one, and its end emptied the cache for all. That
# costs time. Sharing can cost more. **Predict:** an evaluation has used a model in another thread,
# and its region is still open there. Meanwhile a weight changes from 1 to 5, with no region open
# here. What does a *fresh* region compute with it?

# %%
model, used, done = nn.Linear(1, 1, bias=False), threading.Event(), threading.Event()
nn.init.ones_(model.weight)


@torch.autocast("cpu", dtype=bfloat)
def evaluation():
    model(torch.ones(1, 1))
    used.set()
    done.wait()


thread = threading.Thread(target=evaluation)
thread.start()
used.wait()
nn.init.constant_(model.weight, 5.0)
with region:
    print("weight", model.weight.item(), "result", model(torch.ones(1, 1)).item())
done.set()
thread.join()

# %% [markdown]
# With the old one: the other thread's copy was in the cache for both. A region of your own does not
# help against somebody else's that stays open. Threads that share weights while these change need
# `cache_enabled=False` in all their regions, or each its own copy of the model. (In two dtypes at
# once they would meet the error of the nested regions above.)

# %% [markdown]
# ## Generators, coroutines, recursion
#
# A region assumes that what is opened last is closed first. Three constructs of Python break
# that. **Predict:** a generator that is decorated, and one that opens a region itself: where is
# autocast on?


# %%
@torch.autocast("cpu", dtype=bfloat)
def decorated_generator():
    yield torch.is_autocast_enabled("cpu")


def generator():
    with torch.autocast("cpu", dtype=bfloat):
        yield torch.is_autocast_enabled("cpu")
        yield torch.is_autocast_enabled("cpu")


print("in the decorated generator ", next(decorated_generator()))
batches = generator()
print("in the other generator     ", next(batches))
print("in its caller, meanwhile   ", torch.is_autocast_enabled("cpu"))
batches.close()
print("in its caller, at the end  ", torch.is_autocast_enabled("cpu"))

# %% [markdown]
# A decorated generator function opens the region for the moment in which the generator is made,
# and nothing runs in it then. The other one keeps its region open while it waits, and the caller
# finds itself in it: autocast's state belongs to the thread, not to the function.
#
# So a region should hold no `yield`. The same is true of `await`, which hands the thread to other
# tasks. **Predict:** a coroutine waits in a region. What does the rest of the program see?

# %%
import asyncio


async def answer(x):
    with torch.autocast("cpu", dtype=bfloat):
        await asyncio.sleep(0)
        return layer(x)


waiting = answer(x)
waiting.send(None)  # run it up to its await, as an event loop would
print("the others, meanwhile:", torch.is_autocast_enabled("cpu"), layer(x).dtype)
waiting.close()

# %% [markdown]
# The third construct is a decorated function that calls itself. Its decorator is *one* region
# object, which remembers *one* state to go back to. **Predict:** what is left after a call that
# goes two deep?


# %%
@torch.autocast("cpu", dtype=bfloat)
def depth(tree):
    return 1 + max((depth(branch) for branch in tree), default=0)


for tree in ([], [[]]):
    print("depth", depth(tree), "- autocast afterwards:", torch.is_autocast_enabled("cpu"))
torch.set_autocast_enabled("cpu", False)  # put it right again

# %% [markdown]
# The inner call overwrote what the outer one was to restore, and autocast stayed on, for the rest
# of the program. Decorate the function that starts the recursion, or write a `with` block inside:
# it makes a new region object each time. The same goes for one region object that is entered
# twice by hand.

# %% [markdown]
# ## Inference: casts without a cache
#
# Ten passes in inference mode took 20 casts above, 2 for each pass. A server that only predicts
# can do better: cast the model once, and keep no float32 weights. **Predict:** how many casts, how
# many bytes for the weights, and are the results the same?

# %%
network = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64))
cast = copy.deepcopy(network).bfloat16()
with torch.inference_mode():
    with Watch() as watch, torch.autocast("cpu", dtype=bfloat):
        expected = network(narrow)
    print(
        "autocast:  ", watch.casts, "casts,", sum(p.nbytes for p in network.parameters()), "bytes"
    )
    with Watch() as watch:
        result = cast(narrow)
    print("cast model:", watch.casts, "casts,", sum(p.nbytes for p in cast.parameters()), "bytes")
print("same results:", torch.equal(result, expected))

# %% [markdown]
# The results are the same as long as every operation is one that autocast runs in 16 bits.
# **Predict:** what becomes of a loss in a cast model, without autocast?

# %%
with torch.inference_mode():
    with torch.autocast("cpu", dtype=bfloat):
        print("autocast:  ", F.mse_loss(network(narrow), torch.zeros(4, 64)).dtype)
    print("cast model:", F.mse_loss(cast(narrow), torch.zeros(4, 64, dtype=bfloat)).dtype)

# %% [markdown]
# A cast model has no list of operations that need float32. For bfloat16 inference of common
# networks it is usually the better choice; compare its results with those of autocast first.
# During training it is not a choice: the weights would be bfloat16 ([[lesson how_numbers_break]] shows how they stand
# still). Neither of the two turns off dropout: that is `eval()`, and [[lesson training_loops]] puts the three
# together.

# %% [markdown]
# ## The same on CUDA
#
# CUDA's rules can be asked of fake tensors, with the state set by hand ([[lesson autocast_ops]]). **Predict:** do
# the region, the quiet leak and the thread behave as on the CPU?

# %%
from torch._subclasses.fake_tensor import FakeTensorMode

with FakeTensorMode():
    a, b = torch.empty(4, 8, device="cuda"), torch.empty(8, 3, device="cuda")
    target = torch.empty(4, dtype=torch.long, device="cuda")
    torch.set_autocast_enabled("cuda", True)
    leaked = a @ b
    print("inside:     ", leaked.dtype, "-> loss", F.cross_entropy(leaked, target).dtype)
    print("in a thread:", in_a_thread(lambda: torch.is_autocast_enabled("cuda")))
    torch.set_autocast_enabled("cuda", False)
    print("outside:    ", leaked.dtype, "-> loss", F.cross_entropy(leaked, target).dtype)

# %% [markdown]
# They do. Two things cannot be asked this way. Not every fake operation checks that its inputs
# agree: `torch.mm` of two dtypes raises on the CPU, and a fake one answers. And the cast cache
# needs parameters that require a gradient, which need a real GPU. Its code is the same for all
# devices (`cached_cast` in
# [autocast_mode.cpp](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/autocast_mode.cpp)),
# and where there is a GPU the next cell counts.

# %% tags=["live"]
if torch.cuda.is_available():
    cuda_layer, cuda_x = nn.Linear(8, 3, device="cuda"), torch.ones(4, 8, device="cuda").half()
    for cached in (True, False):
        with Watch() as watch, torch.autocast("cuda", dtype=half, cache_enabled=cached):
            for _ in range(10):
                cuda_layer(cuda_x)
        print(
            f"cache {cached}:", sum("float32 -> float16" in line for line in watch.lines), "casts"
        )
else:
    print("CUDA's cast cache: not measured here, for want of a GPU")

# %% [markdown]
# ## Three myths, tested
#
# | said | shown above |
# |---|---|
# | "only `optimizer.step()` must stay outside autocast" | so must `backward()`: a float32 part of the network loses the digits of its gradients, without a message |
# | "for inference, wrap the model in autocast and `no_grad`" | in `inference_mode` that casts every weight in every pass; a cast model casts none |
# | "let autocast handle the dtypes" | not for what has left the region, nor in a thread that never was in it |

# %% [markdown]
# ## Recap
#
# 1. Inside the region: forward and loss. Outside: backward and step, because they follow by
#    themselves.
# 2. What leaves a region stays 16 bits wide. Widen it at the border; in a disabled subregion, cast
#    the inputs.
# 3. The cache holds casts of float32 leaves that require a gradient, until the outermost region
#    ends.
# 4. So weights must not change while a region is open: the loss freezes, and nothing is reported.
# 5. The state belongs to the thread: open regions in the thread that computes, and hold no `yield`
#    and no `await` in them.

# %% [markdown]
# ## Three questions

# %% tags=["question"]
from amp_lessons.interview import ask

ask(
    "autocast_regions.frozen_layer_four_pieces",
    "autocast_regions.weights_copied_in",
    "autocast_regions.thread_pool",
)

# %% [markdown]
# **Next:** [[exercises autocast_regions|six exercises]]: the border of a step, a leak, a
# submodule in float32, a cast counter, the frozen loop, and a thread that keeps its autocast. Then
# [[lesson grad_scaler]]: GradScaler.
