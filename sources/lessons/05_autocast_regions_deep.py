# %% [markdown]
# # Lesson 05, deeper: Regions at their edges
#
# This notebook is optional. It shows how casts are counted, what else the cache doesn't know, and where
# regions go wrong: with decorators, threads, generators and coroutines. Everything runs on a CPU, except
# for one cell that counts on a CUDA GPU if you have one.
#
# **Time** [[minutes]] minutes. **Needs** [[lesson autocast_regions]].

# %%
import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn
from torch.nn.functional import linear, mse_loss
from torch.utils._python_dispatch import TorchDispatchMode

from amp_lessons import autoencoder, load_digits, predict
from amp_lessons.lessons.experiments import (
    autocast_put_back,
    autocast_state,
    casts,
    compiled,
    raised,
)

x = load_digits().train_images[:600]


def region(**options):
    return torch.autocast("cpu", dtype=torch.float16, **options)


# %% [markdown]
# ## How casts are counted
#
# A call such as `layer(x)` passes through several layers of PyTorch. One is autograd, another is autocast,
# and at the bottom an implementation computes. A `TorchDispatchMode` sees what arrives below autocast. The
# casts that autocast inserts have become ops of their own there.


# %%
class Watch(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        print(f"{func.overloadpacket!s:15} {args[0].dtype} -> {result.dtype}")
        return result


layer = nn.Linear(64, 8)
with Watch(), region():
    layer(x)

# %% [markdown]
# `aten._to_copy` is the cast. (In `inference_mode`, it's `aten.to`.) `aten.addmm` is the linear layer: a
# matrix product plus the bias. Its first argument, the bias, is printed as FP16, because the op comes
# after the casts. The lesson's `casts` counts the casts from FP32 to 16 bits among these ops.
#
# ## Parts of a weight
#
# In one region, we multiply ten times with the same parameter. First we use all of it, then its first 32
# rows, then twice its value.

# %%
table, half = nn.Parameter(torch.ones(96, 64)), x.half()
uses = {
    "the parameter": lambda: linear(half, table),
    "twice in a pass": lambda: (linear(half, table), linear(half, table)),
    "its first 32 rows": lambda: linear(half, table[:32]),
    "twice its value": lambda: linear(half, 2 * table),
}
for name, use in uses.items():
    with casts() as made, region():
        for _ in range(10):
            use()
    print(f"{name:18} {len(made):2} casts")

# %% [markdown]
# Autocast keeps copies of *leaves* only: tensors that were not computed from others and aren't a view of
# another, such as a parameter. `table[:32]` is a view, and `2 * table` was computed. Each is a new tensor in
# each pass, so a copy of it could not be found again anyway. A weight that is sliced or rescaled in
# `forward`, as weight normalization does, is therefore cast in each pass.
#
# ## A pass without gradients, then one with
#
# Some methods run a network twice in a step: first under `no_grad`, to make targets, then with gradients,
# to learn. Here the painter gets noisy pictures, and learns to give the same output as for the clean ones.
# Both passes are in one region. The first pass fills the cache while gradients are off. Does the second
# pass use these copies, and do the parameters get gradients?

# %%
model, noisy = autoencoder(), x + 0.1 * torch.randn_like(x)
with casts() as made, region():
    with torch.no_grad():
        targets = model(x)
    first = len(made)
    error = mse_loss(model(noisy), targets)
error.backward()
learning = sum(parameter.grad is not None for parameter in model.parameters())
print(f"casts: {first} in the first pass, {len(made) - first} in the second")
print(f"parameters with a gradient: {learning} of 8")

# %% [markdown]
# The second pass casts only its input, and takes the other eight copies from the cache. All eight
# parameters get a gradient: when PyTorch 2.13 puts a copy into the cache, it records the cast for autograd,
# even under `no_grad` ([the fix](https://github.com/pytorch/pytorch/pull/165068)).
#
# In older versions, autograd knew nothing about such a copy, so the linear layers [got no
# gradients](https://github.com/pytorch/pytorch/issues/105211) here. If another layer, such as a norm, got a
# gradient, there was no error. If your code must run on older versions too, give each pass a region of its
# own.
#
# ## A region that is switched off
#
# `train` makes 20 steps, each with a region of its own. A GradScaler is left out, since the gradients
# of these small pictures are large enough without one. `after_step` is called after each step. What if the region around
# the training is disabled, so that it casts nothing?


# %%
def train(after_step=lambda: None, wrap=lambda model: model):
    model = autoencoder()
    call = wrap(model)  # for later: the compiled model
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9)
    for _ in range(20):
        optimizer.zero_grad()
        with region():
            error = mse_loss(call(x), x)
        error.backward()
        optimizer.step()
        after_step()
    return error.item()


# %%
print(f"no region around it:          {train():.3f}")
with region(enabled=False):
    print(f"a disabled one:               {train():.3f}")
with torch.autocast("cuda", enabled=False):
    print(f"a disabled one for CUDA:      {train():.3f}")
with region():
    print(f"cache cleared in each step:   {train(torch.clear_autocast_cache):.3f}")
with region(cache_enabled=False):
    print(f"a region without a cache:     {train():.3f}")

# %% [markdown]
# PyTorch counts how many regions are open in a thread, on or off and for whichever device. It empties the
# cache when the count is back at 0. So a disabled region around the training keeps the copies alive too,
# even one for CUDA around a training on a CPU.
#
# To look for such a region, `torch.is_autocast_enabled` isn't enough. Call `torch.clear_autocast_cache()`
# after each step, as in the fourth line: if the network learns then, a region is open.
#
# The last line works because a region that is made inside another takes over `cache_enabled` from it,
# unless you set it yourself.
#
# ## A compiled model doesn't use the cache
#
# Here is the outer region again, this time around a model that `torch.compile` has compiled. `compiled`,
# from this course's package, does that without a C++ compiler ([[lesson compile_and_checkpoint]]).

# %%
with region():
    print(f"eager, an outer region:       {train():.3f}")
    print(f"compiled, an outer region:    {train(wrap=compiled):.3f}")

# %% [markdown]
# The compiler records the model with the cache switched off
# ([source](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/fx/experimental/proxy_tensor.py)). So the
# casts are part of the recording, and each call casts the current weights. The fault is only hidden: it
# is back as soon as you run the model without `torch.compile`. It is also there in a layer that the
# compiler leaves in eager mode, and with `backend="eager"`, which makes no such recording.
#
# The compiler changes two more rules:
#
# - **A layer in FP32.** If you compile a layer that has an inner region with `enabled=False`, its backward
#   pass is recorded under the autocast of the call, so its gradients are computed in 16 bits.
#   [[Lesson compile_and_checkpoint]] shows that, and two ways out.
# - **Rounding.** Inductor, the default backend, keeps numbers in FP32 between operations that it fuses. For
#   an FP16 `x` of 300, `x * x / x` is inf in eager mode. Compiled with Inductor in PyTorch 2.13, on a CPU,
#   it is 300. With `torch._inductor.config.emulate_precision_casts = True` it is inf again.
#
# So if you look for an overflow, look in the mode that you train in.
#
# ## The optimizer's step under autocast
#
# Suppose that no cache is involved, and only the optimizer's step runs in a region. Most optimizers use
# ops that autocast leaves alone. The cell makes three steps, and compares the weights with those of three
# steps outside.


# %%
def three_steps(make, inside):
    model = autoencoder()
    weights = [p for p in model.parameters() if p.ndim == 2]
    optimizer = make(weights, lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        mse_loss(model(x), x).backward()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=inside):
            optimizer.step()
    return torch.cat([w.detach().flatten() for w in weights])


# %% tags=["live"]
for make in (torch.optim.SGD, torch.optim.AdamW, torch.optim.Adafactor):
    changed = three_steps(make, inside=True) != three_steps(make, inside=False)
    print(f"{make.__name__:10} {changed.float().mean():4.0%} of the weights differ")

# %% [markdown]
# Adafactor multiplies matrices in its step, and on our CPU nearly all of its weights come out differently.
# Muon multiplies BF16 matrices: nothing changes in this region, but nearly all of its weights do in one for
# FP16. So the step belongs outside, even where the cache does no harm.
#
# ## A region without a dtype
#
# Outside of any region, `torch.autocast("cpu")` casts to BF16 in PyTorch 2.13. What does it do inside a
# region for FP16? `autocast_state`, a tool of this course, gives "off" or the dtype.

# %% tags=["question"]
predict("autocast_regions.region_without_dtype")

# %%
with torch.autocast("cpu"):
    print("outside of any region:  ", autocast_state())
with region(), torch.autocast("cpu"):
    print("in a region for FP16:   ", autocast_state())

# %% [markdown]
# So name the dtype in each region. And don't use one model in two dtypes within one outer region:

# %%
model = autoencoder()
with torch.autocast("cpu", dtype=torch.bfloat16):
    model(x)
    with torch.autocast("cpu", dtype=torch.float16):
        print("FP16 inside BF16:     ", raised(lambda: model(x)))
        torch.clear_autocast_cache()
        print("after clearing:       ", raised(lambda: model(x)))
    print("BF16 again:           ", raised(lambda: model(x)))

# %% [markdown]
# The cache finds a copy by its parameter, and the dtype isn't part of the key. So FP16 activations meet
# BF16 weights, and later the other way round.
#
# ## A decorator remembers one state
#
# `@torch.autocast(…)` above a function opens a region in each call. That reads well, and PyTorch's
# documentation shows it for `forward`. Here is a block with such a `forward`. We'll run one block, and then
# a block in a block. (`autocast_put_back` cleans up after the experiment.)


# %%
class Block(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    @torch.autocast("cpu", dtype=torch.float16)
    def forward(self, inputs):
        return self.inner(inputs)


# %% tags=["question"]
predict("autocast_regions.block_in_a_block")

# %%
with autocast_put_back():
    print("before:               ", autocast_state())
    Block(layer)(x)
    print("after one block:      ", autocast_state())
    Block(Block(layer))(x)
    print("after a block in one: ", autocast_state())
    print("a layer, afterwards:  ", layer(x).dtype)


# %% [markdown]
# Now the same with a `with` block in `forward`. Each call makes a region object of its own:


# %%
class WithBlock(Block):
    def forward(self, inputs):
        with region():
            return self.inner(inputs)


WithBlock(WithBlock(layer))(x)
print("after a block in one: ", autocast_state())

# %% [markdown]
# A decorated function that calls itself leaves autocast on too. So does one region object that you enter
# a second time while it is open.
#
# Threads that call one decorated function share its region object too. In the next cell a worker calls it,
# and waits inside. Meanwhile the main thread calls it as well, from inside a region, and returns first.

# %%
inside, done = threading.Event(), threading.Event()


@torch.autocast("cpu", dtype=torch.float16)
def decorated(wait):
    if wait:
        inside.set()
        done.wait(10)


def work():
    decorated(wait=True)
    return autocast_state()


# %%
with ThreadPoolExecutor(1) as pool:
    future = pool.submit(work)
    inside.wait(10)
    with region():
        decorated(wait=False)
    done.set()
    print("the worker, after its call:", future.result())

# %% [markdown]
# The worker began with autocast off, and ends with autocast on. The main thread's call had overwritten the
# state that the region object was to go back to. A pool keeps its threads, so the worker's next task would
# run under autocast.
#
# ## `nn.DataParallel` and the dtype
#
# `nn.DataParallel` runs a copy of the model on each GPU, in threads. It opens a region in each thread:
# `torch.amp.autocast(device_type, enabled=autocast_enabled)`
# ([source](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/nn/parallel/parallel_apply.py)). The cell
# does the same on a CPU, where the default dtype is BF16. `replica` is a layer of the worker's own.

# %%
replica = nn.Linear(64, 8)


def in_a_worker():
    with torch.amp.autocast("cpu", enabled=True):
        return replica(x).dtype


with region(), ThreadPoolExecutor(1) as pool:
    print("this thread:", layer(x).dtype)
    print("the worker: ", pool.submit(in_a_worker).result())

# %% [markdown]
# The line says that autocast is on, and doesn't say in which dtype. In a new thread, the dtype is the
# device's default, whatever the other thread had set.
#
# By that code, CUDA's replicas compute in FP16, even if you asked for BF16 (not measured here). Open a
# region with its dtype inside `forward`, or use DistributedDataParallel with one process for each GPU. The
# exercise [[exercises autocast_regions|Autocast in a thread]] carries the whole state into a thread.
#
# ## One cache for all threads
#
# The state belongs to a thread, but the cache is one for the whole process. First, a layer is used twice in
# a region, and in between another thread opens and closes a region of its own.


# %%
def other_region():
    with region():
        pass


with casts() as made, region(), ThreadPoolExecutor(1) as pool:
    layer(half)
    pool.submit(other_region).result()
    layer(half)
print(len(made), "casts for a weight and a bias")

# %% [markdown]
# Without the other thread, there would be 2. The other thread's region was the outermost one *in that
# thread*, so its end emptied the cache for all threads.
#
# That costs time. A second case gives a wrong result. A worker evaluates a layer whose weight is 1, and the
# worker's region stays open. Meanwhile, the main thread changes the weight to 5, with no region open.

# %%
single, one = nn.Linear(1, 1, bias=False), torch.ones(1, 1)
nn.init.ones_(single.weight)
used, done = threading.Event(), threading.Event()


def evaluation():
    with region():
        single(one)
        used.set()
        done.wait(10)


# %%
with ThreadPoolExecutor(1) as pool:
    future = pool.submit(evaluation)
    used.wait(10)
    nn.init.constant_(single.weight, 5.0)
    with region():
        print("in a new region:     ", single(one).item())
    print("without autocast:    ", single(one).item())
    done.set()
    future.result()

# %% [markdown]
# The worker's copy of the old weight is still in the cache, and the main thread's new region finds it there.
# Threads that share weights while these change need `cache_enabled=False` in their regions, or a model each.
#
# ## Generators and coroutines
#
# A generator function runs until its `yield`, and then waits. Here the `yield` is inside a region.

# %% tags=["question"]
predict("autocast_regions.generator_waits")


# %%
def batches():
    with region():
        yield autocast_state()
        yield autocast_state()


generator = batches()
print("in the generator:               ", next(generator))
print("in its caller, while it waits:  ", autocast_state())
generator.close()
print("in its caller, after close():   ", autocast_state())

# %% [markdown]
# Decorating the generator function doesn't help. The decorator's region is open only while the generator
# is created, and none of its code runs then. An `await` that has to wait does what `yield` does: it leaves
# the region open and lets other tasks of the thread run.


# %%
@torch.autocast("cpu", dtype=torch.float16)
def decorated_batches():
    yield autocast_state()


async def answer():
    with region():
        await asyncio.sleep(0)


print("in a decorated generator:     ", next(decorated_batches()))
waiting = answer()
waiting.send(None)  # runs up to the await, as an event loop would
print("in other tasks, meanwhile:    ", autocast_state())
waiting.close()

# %% [markdown]
# So keep `yield` and `await` out of regions.
#
# ## The same on CUDA
#
# The state and the cache are the same code for all devices
# ([source](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/autocast_mode.cpp)). This cell
# counts the casts of ten passes on a CUDA GPU, if there is one: with the cache, and without it.

# %% tags=["live"]
if torch.cuda.is_available():
    gpu_model, gpu_x = autoencoder().cuda(), x.cuda()
    for cached in (True, False):
        with casts() as made, torch.autocast("cuda", torch.float16, cache_enabled=cached):
            for _ in range(10):
                gpu_model(gpu_x)
        print(f"cache_enabled={cached}: {len(made)} casts")
else:
    print("no CUDA GPU here, so nothing is counted")

# %% [markdown]
# On CUDA, the backward pass runs in a thread of its own, and a thread has its own autocast dtype. In older
# versions, `backward()` inside a region for BF16 therefore ran matrix products in FP16
# ([issue 125186](https://github.com/pytorch/pytorch/issues/125186), closed; not measured here). That's one
# more reason to call `backward()` outside.
#
# Back to [[lesson autocast_regions]], its [[exercises autocast_regions]], or on to [[lesson grad_scaler]].
