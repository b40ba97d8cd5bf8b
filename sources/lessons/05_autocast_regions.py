# %% [markdown]
# # Lesson 05: Regions, cache, threads
#
# An [[term autocast region|autocast region]] is the code that runs while autocast is on. In
# [[lesson amp_in_20_minutes]] you opened one in each step, around the forward pass and the loss. Why
# there, and why a new one in each step? Here you move the border of the region and see what breaks.
#
# **You will be able to** put a region where it belongs, convert the tensors that leave it, keep one layer
# in FP32, and count casts. And you'll know the mistakes with regions that raise no error.
#
# **Time** [[minutes]] minutes. **Needs** [[lesson autocast_ops]] and the lessons before it; no GPU.

# %%
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import torch
from torch import nn
from torch.nn.functional import mse_loss

from amp_lessons import ask, autoencoder, load_digits, plots, predict
from amp_lessons.lessons.experiments import casts, raised

device = "cuda" if torch.cuda.is_available() else "cpu"
pictures = load_digits().train_images[:600].to(device)

# %% [markdown]
# ## One more region, to be safe
#
# `train` is the loop of [[lesson amp_in_20_minutes]], but the loss is the plain average over our pixels.
# Each step opens a region for the forward pass and the loss. A real program does more than train: it validates, and it paints
# pictures for a report. Somebody wants autocast to be on in all of that, and puts one more region around
# the whole program.


# %%
def train():
    model, scaler = autoencoder().to(device), torch.amp.GradScaler(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9)
    errors = []
    for _ in range(150):
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.float16):
            error = mse_loss(model(pictures), pictures)
        scaler.scale(error).backward()
        scaler.step(optimizer)
        scaler.update()
        errors.append(error.item())
    return model, errors


# %% tags=["question"]
predict("autocast_regions.one_more_region")

# %%
usual_model, usual = train()
with torch.autocast(device, dtype=torch.float16):  # one more region
    other_model, other = train()
plots.training(
    {"mixed precision": usual, "one more region": other},
    title="The same training, and one more region around it",
    ylabel="error per pixel",
)

# %% [markdown]
# With one more region, the error is the same in all 150 steps, to the last digit. This happens in
# real projects. One of them, which trains image models, had one region around its whole training
# loop and none in the steps. [Its loss was flat
# too](https://github.com/X-GenGroup/Flow-Factory/pull/186).
#
# Did our weights stand still as well?

# %% tags=["question"]
predict("autocast_regions.evaluated_afterwards")

# %%
rows = {"original": pictures}
for name, model in {"mixed precision": usual_model, "one more region": other_model}.items():
    with torch.no_grad(), torch.autocast(device, dtype=torch.float16):
        rows[name] = model(pictures)
        error = mse_loss(rows[name], pictures).item()
    print(f"{name}: error per pixel {error:.3g}")
plots.paintings(rows)

# %% [markdown]
# The weights did move, and they are ruined: the optimizer went far past its goal.
#
# ## Which weights does the forward pass use?
#
# The optimizer changed the weights, but the loss stayed the same. So which weights did the forward
# pass use?
#
# Under autocast, a linear layer doesn't multiply with the FP32 weight. It multiplies with an FP16 copy,
# which a cast makes. So let's watch the casts of one forward pass. `casts` is a tool of this course. It
# lists the shape of each FP32 tensor that is cast to 16 bits in its block. ([[deep autocast_regions]]
# shows how it does that.) From here on, everything runs on a CPU.

# %%
x, model = pictures.cpu(), autoencoder()


def region():
    return torch.autocast("cpu", dtype=torch.float16)


with casts() as made, region():
    model(x)
print(len(made), "casts:", ", ".join(made))

# %% [markdown]
# The tensor of 600 x 64 holds the pictures. The other eight casts are for the weights and the biases of
# the four linear layers. Between the layers, no cast is needed: the first layer puts out FP16, and so does
# `tanh` on a CPU.
#
# The widget below shows a small model op by op, with CUDA's rules to start with. Predict the dtype
# in which each op runs and the dtype that it gives, and look at the casts and the
# [[term cast cache|cache]], where autocast keeps copies. Which op finds its weight's copy in the
# cache, and why?

# %% tags=["live"]
from amp_lessons.lessons.widgets import AutocastSteps

AutocastSteps()

# %% [markdown]
# Back to the painter, on a CPU.

# %% tags=["question"]
predict("autocast_regions.casts_of_ten_passes")

# %%
with casts() as made, region():
    for _ in range(10):
        model(x)
print(f"ten passes in one region: {len(made)} casts")

# %% [markdown]
# Each of the eight parameters was cast once, and the pictures in each pass: 8 + 10 = 18. The cache
# keeps a copy if it was made of an FP32 parameter that requires a gradient. In the widget, op 3
# finds its copies there, because op 1 has called the same layer. But op 7 casts `k` again: `k`
# isn't a parameter.
#
# At some point, autocast has to throw the copies away. When?

# %% tags=["question"]
predict("autocast_regions.regions_in_a_region")


# %%
def ten_regions():
    for _ in range(10):
        with region():
            model(x)


with casts() as alone:
    ten_regions()
with casts() as nested, region():
    ten_regions()
print(f"ten regions: {len(alone)} casts; inside an outer region: {len(nested)} casts")

# %% [markdown]
# The cache is emptied when the *outermost* region ends.
#
# ## Close the region before the weights change
#
# So the first step put copies of the initial weights into the cache, and the outer region kept them
# alive. That is why the training stood still. The cache knows *which* parameter it copied. It doesn't know whether that parameter has
# changed since
# ([source](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/autocast_mode.cpp)). So
# close every region before the optimizer changes the weights:
#
# ```python
# for inputs, targets in loader:
#     optimizer.zero_grad()
#     with torch.autocast(device, dtype=torch.float16):
#         loss = loss_fn(model(inputs), targets)  # forward pass and loss: inside
#     scaler.scale(loss).backward()  # outside
#     scaler.step(optimizer)  # outside
#     scaler.update()
# ```
#
# If a training doesn't learn, look for an outer region. It may be in a library that calls your
# code. Print `torch.is_autocast_enabled(device)` right before your own region: it should be False.
# (An outer region with `enabled=False` freezes the weights too, and `is_autocast_enabled` doesn't
# show it. A test in [[deep autocast_regions]] does.)
#
# Our loss was the same to the last digit. That is so because each step used the same pictures. And
# in a network with norm layers or embeddings, the loss would move: autocast doesn't cast the
# parameters of these layers to 16 bits, so the forward pass sees their changes.
#
# Other code changes weights too. For an evaluation, people replace the weights by their averages
# over many steps, or load a checkpoint. Close the region before that, and open a new one
# afterwards. If you can't, call `torch.clear_autocast_cache()` right after the change.
#
# All of this is about [[term eager mode]]. What `torch.compile` has compiled doesn't use the cache.
#
# ## What leaves the region
#
# You write a report about the paintings. It needs three things, and each is one line of code *after* the
# region:
#
# - the difference between each painting and its original
# - a comparison of each painting with each original, by a matrix product
# - the ink: the sum of all grey values (each from 0 to 255, as in image files)

# %% tags=["question"]
predict("autocast_regions.after_the_region")

# %%
painter = usual_model.cpu()
with torch.no_grad(), region():
    painted = painter(x)
print("painted               ", painted.dtype)
print("painted - x           ", raised(lambda: painted - x))
print("painted @ x.T         ", raised(lambda: painted @ x.T))
print("(255 * painted).sum() ", raised(lambda: (255 * painted).sum()))

# %%
print("painted - x                   ", (painted - x).dtype)
print(f"(255 * painted).sum()          {(255 * painted).sum():.3g}")
print(f"(255 * painted.float()).sum()  {(255 * painted.float()).sum():.3g}")
print(f"(255 * x).sum()                {(255 * x).sum():.3g}")

# %% [markdown]
# The ink is about 3 million, and FP16 ends at 65,504. So the sum is inf, with no message. Convert
# what leaves a region: `painted = painted.float()`. There are other places where a 16-bit tensor
# can end up:
#
# - **In a loss.** In the region, `cross_entropy` of FP16 scores is FP32. After the region, it is FP16.
#   So the loss belongs inside.
# - **In another module.** A matrix product with FP32 weights raises an error, as you saw. Don't fix it with
#   `.half()` on that module: that converts the weights which you train.
# - **In NumPy.** `.numpy()` gives a float16 array for FP16, and raises a `TypeError` for BF16.
#
# ## One layer in FP32
#
# Suppose the last layer has to compute in FP32, because your pictures need finer grey values than FP16
# has. In [[lesson autocast_ops]], a `.float()` in front of a matrix product wasn't enough: autocast cast the
# FP32 tensor back to FP16. Is an inner region with `enabled=False` enough for this layer? The layers
# before it still run in FP16.

# %%
*others, last = autoencoder()
body = nn.Sequential(*others)
with region():
    h = body(x)
    print("only .float():       ", last(h.float()).dtype)
    with torch.autocast("cpu", enabled=False):
        print("only enabled=False:  ", raised(lambda: last(h)))
        print("both:                ", last(h.float()).dtype)
    print("after the inner one: ", last(h).dtype)

# %% [markdown]
# You need both. `enabled=False` switches off all casts. So `h` stays FP16 and the weight stays
# FP32, and the linear layer refuses two dtypes. You have to cast `h` yourself. Autograd records the
# `.float()`. In the backward pass, it converts the gradient back to FP16 for the layers before.
# (In PyTorch 2.13, a compiled model needs more: with the default settings, the backward pass of such a
# layer runs in 16 bits. [[Lesson compile_and_checkpoint]] shows two ways out.)
#
# The innermost region for a device decides. When it ends, the region around it applies again, also if it
# ends with an exception.
#
# ## Why is `backward()` outside?
#
# The backward pass needs no autocast. Autograd has recorded each cast. Outside of the region, it
# computes each gradient in the dtype that the forward pass had. Does it matter if you call
# `backward()` inside the region?
#
# We keep the last layer of the painter in FP32, and run the others in BF16 this time. We compute the
# gradient of the last layer's weight twice: with `backward()` outside the region, and inside it.


# %%
def gradient(backward_inside):
    *others, last = autoencoder()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        h = nn.Sequential(*others)(x)
        with torch.autocast("cpu", enabled=False):
            loss = mse_loss(last(h.float()), x)
        if backward_inside:
            loss.backward()
    if not backward_inside:
        loss.backward()
    return last.weight.grad


# %% tags=["question"]
predict("autocast_regions.backward_in_the_region")

# %%
outside, inside = gradient(backward_inside=False), gradient(backward_inside=True)
for name, grad in {"outside": outside, "inside": inside}.items():
    short = (grad == grad.bfloat16()).float().mean()  # share of numbers that BF16 can store
    print(f"backward {name:8} {grad.dtype}, {short:.0%} of its numbers are BF16 numbers")
difference = (inside - outside).norm() / outside.norm()
print(f"relative difference: {difference:.1%}")

# %% [markdown]
# Inside the region, autocast casts the inputs of the backward pass's matrix product to BF16. The
# two gradients differ by only 0.2%. But you kept this layer in FP32 for its precision, and now its
# gradient has only BF16's 8 significant bits. The dtype doesn't show that.
#
# If all layers of the painter run in 16 bits, then on a CPU `backward()` gives the same eight
# gradients inside and outside, to the last digit.
#
# ## Evaluation and frozen layers
#
# While a model is evaluated, its weights don't change. So one region around the whole validation
# loop is safe, and the cache can save casts. But does it, under `torch.no_grad()`, and with a
# frozen model, as in fine-tuning?

# %% tags=["question"]
predict("autocast_regions.casts_without_gradients")


# %%
def second_pass(model, mode):
    with mode, region():
        model(x)
        with casts() as made:
            model(x)
    return len(made)


frozen = autoencoder().requires_grad_(False)
print("casts of a second pass in the same region:")
print("as in training   ", second_pass(model, nullcontext()))
print("no_grad          ", second_pass(model, torch.no_grad()))
print("inference_mode   ", second_pass(model, torch.inference_mode()))
print("frozen model     ", second_pass(frozen, nullcontext()))

# %% [markdown]
# A frozen model's weights are cast in each pass: the cache asks whether the *parameter* requires a
# gradient. `no_grad` doesn't change that. Under `inference_mode`, PyTorch 2.13 keeps no copies. For
# a model that only predicts, you can convert the weights once, with `model.half()` or
# `model.bfloat16()`: [[deep training_loops]] compares the results.
#
# Some methods run a model twice in a step: first under `no_grad`, to compute a target, then with
# gradients. In PyTorch 2.13 both passes can share a region. In older versions, give each its own
# ([[deep autocast_regions]]).
#
# ## A worker thread
#
# A server opens a region. Inside the region, it hands each request to a pool of worker threads. In which
# dtype do they run the model?


# %%
def answer():
    return model(x).dtype


def answer_in_region():
    with region():
        return model(x).dtype


with region(), ThreadPoolExecutor(1) as pool:
    print("this thread                   ", answer())
    print("a worker                      ", pool.submit(answer).result())
    print("a worker that opens a region  ", pool.submit(answer_in_region).result())

# %% [markdown]
# Each thread has its own autocast state, and a new thread starts with autocast off. So the worker computes
# in FP32. There is no error, and the numbers are fine. But the result is FP32, and the worker is slower on
# machines where 16 bits are faster.
#
# Open the region in the function that the worker runs. Data parallel training with one process for each
# GPU doesn't have this problem.
#
# `torch.autocast` also works as a decorator: `@torch.autocast(…)` above a function. Prefer `with`
# inside the function. If a decorated function calls itself, or two threads call it at the same
# time, autocast can stay on afterwards ([[deep autocast_regions]]).
#
# ## Recap
#
# 1. Forward pass and loss are inside the region. `backward()` and the optimizer's step are outside.
# 2. The cast cache keeps the 16-bit copy of each FP32 parameter that requires a gradient (not in
#    `inference_mode`), until the outermost region ends. If weights change before that, the forward pass
#    doesn't see it.
# 3. What leaves a region keeps its 16-bit dtype. Convert it with `.float()`.
# 4. A layer in FP32 needs an inner region with `enabled=False`, and `.float()` on its input.
# 5. Each thread switches autocast on and off for itself. A new thread starts with autocast off.
#
# ## Three questions

# %% tags=["question"]
ask(
    "autocast_regions.frozen_layer_four_pieces",
    "autocast_regions.weights_copied_in",
    "autocast_regions.thread_pool",
)

# %% [markdown]
# **Next:** [[exercises autocast_regions|the exercises]]: a step with its region, a tensor that
# leaves it in 16 bits, a layer in FP32, a counter of casts, a loop that stands still, and autocast
# in a thread. Then [[lesson grad_scaler]]: what a GradScaler does in each of its calls. Optional:
# [[deep autocast_regions]], on threads, Python generators, decorators, and more that the cache
# doesn't know.
