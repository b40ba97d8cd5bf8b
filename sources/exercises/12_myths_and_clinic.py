# %% [markdown]
# # Exercises 12: The clinic
#
# Ten programs that are ill: the last exercises of the course. Each runs in mixed precision on the
# CPU, and each has to end with the right loss, scale and dtypes. Take [[lesson myths_and_clinic]] first.
#
# For each case there is the program, as somebody brought it in, and what it says or does. Write it
# anew under the name that is asked for. The check runs yours on several sets of data, also on
# batches with an input of 300000 that FP16 cannot hold; such a batch overflows, and the scaler must
# skip its step. It looks at the steps that were really made, the dtypes of the layers, the
# gradients and the weights, the scale at each batch, the losses and the weights: any mend that
# leaves these right will pass. Where a case names something more, such as the rows in memory, that
# is looked at too. Call `loss_fn` once for each batch.

# %%
import math

import torch
from torch import nn
from torch.nn.functional import cross_entropy, log_softmax, softmax
from torch.utils.checkpoint import checkpoint

from amp_lessons.checks import myths_and_clinic as ex


def some_batches(count, rows=10, spoiled=()):
    """Random batches that can be learned; those in `spoiled` hold a NaN."""
    random = torch.Generator().manual_seed(0)
    batches = []
    for number in range(count):
        x = torch.randn(rows, 6, generator=random)
        y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
        if number in spoiled:
            x[0, 0] = math.nan
        batches.append((x, y))
    return batches


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))


def scaler(init_scale=2.0**10):
    return torch.amp.GradScaler("cpu", init_scale=init_scale)


# %% [markdown] heading="mend_finetune"
# A model has learned five classes and is to learn three new ones. It gets a new head, and only the
# head is trained.


# %%
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(6, 12), nn.ReLU())
        self.head = nn.Linear(12, 5)

    def forward(self, x):
        return self.head(self.backbone(x))


def finetune(model, head, scaler, loss_fn, batches, rate):
    optimizer = torch.optim.SGD(model.head.parameters(), lr=rate)
    model.head = head
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


try:
    finetune(Model(), nn.Linear(12, 3), scaler(), cross_entropy, some_batches(3), 0.5)
except AssertionError as error:
    print("AssertionError:", error)

# %% [markdown]
# Mend it, as `mend_finetune`. At the end `model.head` is the new head, trained with plain SGD; the
# backbone is as it was.


# %% exercise="mend_finetune"
def mend_finetune(model, head, scaler, loss_fn, batches, rate):
    """Put the head into the model and train the head alone, in FP16 with the scaler."""
    ### BEGIN SOLUTION
    model.head = head
    optimizer = torch.optim.SGD(model.head.parameters(), lr=rate)
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    ### END SOLUTION


# %% [markdown] heading="mend_guard"
# A sensor fails now and then and writes NaN. The program wants to leave such a batch out, and stops
# at the first one.


# %%
def guard(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        if loss.isfinite():
            scaler.scale(loss).backward()
            scaler.step(optimizer)
        scaler.update()


model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
try:
    guard(model, optimizer, scaler(), cross_entropy, some_batches(4, spoiled=(2,)))
except AssertionError as error:
    print("AssertionError:", error)

# %% [markdown]
# Mend it, as `mend_guard`: a batch with a NaN changes nothing, neither the weights nor the scale,
# and the training goes on with the next one. Where the loss is finite and the gradients overflow,
# the scaler does what it always does.


# %% exercise="mend_guard"
def mend_guard(model, optimizer, scaler, loss_fn, batches):
    """Train on each good batch once, in FP16 with the scaler."""
    ### BEGIN SOLUTION
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        if not loss.isfinite():
            continue
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    ### END SOLUTION


# %% [markdown] heading="mend_adapter"
# A large model is frozen and kept in FP16, for it does not fit otherwise. Beside it a small adapter
# is trained. It came from a file, in FP16 too.


# %%
class Adapter(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Linear(6, 2, bias=False), nn.Linear(2, 3, bias=False)

    def forward(self, x):
        return self.up(self.down(x))


def train_adapter(base, adapter, scaler, loss_fn, batches, rate):
    optimizer = torch.optim.SGD(adapter.parameters(), lr=rate)
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(base(x) + adapter(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


base = nn.Linear(6, 3).half().requires_grad_(False)
try:
    train_adapter(base, Adapter().half(), scaler(), cross_entropy, some_batches(3), 0.5)
except ValueError as error:
    print("ValueError:", error)

# %% [markdown]
# Mend it, as `mend_adapter`, for an `adapter` that comes in FP16. The base stays as it is, in FP16;
# the products run in FP16. The check's loss has a small weight, so its gradients need the scale.


# %% exercise="mend_adapter"
def mend_adapter(base, adapter, scaler, loss_fn, batches, rate):
    """Train the adapter beside the frozen base, in FP16 with the scaler."""
    ### BEGIN SOLUTION
    adapter.float()
    optimizer = torch.optim.SGD(adapter.parameters(), lr=rate)
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(base(x) + adapter(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    ### END SOLUTION


# %% [markdown] heading="mend_uneven"
# Texts have different lengths, so micro-batches have different numbers of rows. Each group of them
# makes one step, as if it were one batch. The program divides as one does for equal sizes.


# %%
def uneven(model, optimizer, scaler, loss_fn, groups):
    for group in groups:
        optimizer.zero_grad()
        for x, y in group:
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y) / len(group)
            scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def weight_after(groups):
    model = network()
    uneven(model, torch.optim.SGD(model.parameters(), lr=0.5), scaler(), cross_entropy, groups)
    return model[0].weight[0, 0].item()


(whole,) = some_batches(1, rows=16)
parts = [(x, y) for x, y in zip(whole[0].split([2, 14]), whole[1].split([2, 14]), strict=True)]
print("16 rows at once", weight_after([[whole]]))
print("2 and 14 rows  ", weight_after([parts]))

# %% [markdown]
# Mend it, as `mend_uneven`: the gradient of a group is that of the mean over all its rows.
# `loss_fn` gives the mean over a micro-batch. They are cut because the activations of two
# micro-batches do not fit in memory together.


# %% exercise="mend_uneven"
def mend_uneven(model, optimizer, scaler, loss_fn, groups):
    """Train with one step for each group of micro-batches (x, y), in FP16 with the scaler."""
    ### BEGIN SOLUTION
    for group in groups:
        optimizer.zero_grad()
        rows = sum(len(y) for _, y in group)
        for x, y in group:
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y) * (len(y) / rows)
            scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    ### END SOLUTION


# %% [markdown] heading="mend_decay"
# Weight decay by hand: `decay` times the weight is added to each gradient, as plain SGD does it
# with its own `weight_decay`. It worked in FP32. In FP16 the weights do not shrink.


# %%
def decayed(model, optimizer, scaler, loss_fn, batches, decay):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.grad.add_(parameter, alpha=decay)
        scaler.step(optimizer)
        scaler.update()


for decay in (0.0, 0.3):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    decayed(model, optimizer, scaler(), cross_entropy, some_batches(8), decay)
    print(f"decay {decay}: norm of the weights {model[0].weight.norm().item():.3f}")

# %% [markdown]
# Mend it, as `mend_decay`. A step that the scaler skips leaves the weights as they were, decay
# included.


# %% exercise="mend_decay"
def mend_decay(model, optimizer, scaler, loss_fn, batches, decay):
    """Train on each batch once, in FP16 with the scaler and with this weight decay."""
    ### BEGIN SOLUTION
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.grad.add_(parameter, alpha=decay)
        scaler.step(optimizer)
        scaler.update()
    ### END SOLUTION


# %% [markdown] heading="mend_closure"
# A trainer that works with every optimizer, also with those that want a closure. With the scaler it
# raises nothing and trains nothing.


# %%
def with_closure(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:

        def closure(x=x, y=y):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            loss.backward()
            return loss

        scaler.scale(closure())
        scaler.step(optimizer, closure)
        scaler.update()


model, small = network(), 2.0**-24
optimizer = torch.optim.SGD(model.parameters(), lr=0.5 / small)
before = model[0].weight.clone()
with_closure(model, optimizer, scaler(), lambda a, b: cross_entropy(a, b) * small, some_batches(5))
print("the first layer is as before:", torch.equal(before, model[0].weight))

# %% [markdown]
# Mend it, as `mend_closure`. The optimizer is plain SGD. The check's loss has a weight of
# $2^{-24}$, as above, so its gradients need the scale.


# %% exercise="mend_closure"
def mend_closure(model, optimizer, scaler, loss_fn, batches):
    """Train on each batch once, in FP16 with the scaler."""
    ### BEGIN SOLUTION
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    ### END SOLUTION


# %% [markdown] heading="mend_moments"
# Adam by hand, with its two averages in FP16, which takes half of their memory. The run is in BF16,
# so there is no scaler. After one step the loss is NaN.


# %%
def half_adam(model, loss_fn, batches, rate):
    parameters = list(model.parameters())
    means = [torch.zeros_like(p, dtype=torch.float16) for p in parameters]
    squares = [torch.zeros_like(p, dtype=torch.float16) for p in parameters]
    for number, (x, y) in enumerate(batches, 1):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(model(x), y)
        gradients = torch.autograd.grad(loss, parameters)
        for p, g, m, v in zip(parameters, gradients, means, squares, strict=True):
            g = g.half()
            m.mul_(0.9).add_(g, alpha=0.1)
            v.mul_(0.999).add_(g * g, alpha=0.001)
            m_hat, v_hat = m / (1 - 0.9**number), v / (1 - 0.999**number)
            p.data -= rate * m_hat / (v_hat.sqrt() + 1e-8)


model = network()
half_adam(model, lambda a, b: cross_entropy(a, b) * 1e-3, some_batches(2), rate=0.05)
print("weights that are finite:", model[0].weight.isfinite().float().mean().item())

# %% [markdown]
# Mend it, as `mend_moments`: the result is Adam's, with 0.9, 0.999 and an eps of 1e-8. Autocast
# stays BF16, and the parameters stay FP32.


# %% exercise="mend_moments"
def mend_moments(model, loss_fn, batches, rate):
    """Train on each batch once with Adam, the forward pass under BF16 autocast."""
    ### BEGIN SOLUTION
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
    ### END SOLUTION


# %% [markdown] heading="mend_entropy"
# To keep a model from being too sure, its entropy is rewarded: `bonus` times the mean entropy of
# its predictions is taken off the loss. The author knew about log 0 and added 1e-8.


# %%
def rewarded(model, optimizer, scaler, loss_fn, batches, bonus):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(x)
            p = softmax(logits, dim=1)
            entropy = -(p * (p + 1e-8).log()).sum(dim=1).mean()
            loss = loss_fn(logits, y) - bonus * entropy
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


model, its_scaler = network(), scaler()
model[-1].weight.data.mul_(40.0)  # a model that is sure of itself
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
print(rewarded(model, optimizer, its_scaler, cross_entropy, some_batches(5), 0.5))
print("scale", its_scaler.get_scale())

# %% [markdown]
# Mend it, as `mend_entropy`: return the losses with the bonus taken off, as floats. The network's
# products stay in FP16.


# %% exercise="mend_entropy"
def mend_entropy(model, optimizer, scaler, loss_fn, batches, bonus):
    """Train on each batch once, in FP16 with the scaler; return the losses."""
    ### BEGIN SOLUTION
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(x)
            log_p = log_softmax(logits.float(), dim=1)
            entropy = -(log_p.exp() * log_p).sum(dim=1).mean()
            loss = loss_fn(logits, y) - bonus * entropy
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses
    ### END SOLUTION


# %% [markdown] heading="mend_similarity"
# An encoder learns to tell which `z` belongs to which `x`: every pair of a batch gets a score, the
# product of their embeddings divided by a temperature, and the right pairs stand on the diagonal.
# The embeddings are large, and so is the temperature.


# %%
def matched(encoder, optimizer, scaler, batches, temperature):
    losses = []
    for x, z in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            scores = (encoder(x) @ encoder(z).T) / temperature
            loss = cross_entropy(scores, torch.arange(len(x)))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


def pairs(count):
    random = torch.Generator().manual_seed(0)
    xs = [300 * torch.randn(8, 6, generator=random) for _ in range(count)]
    return [(x, x + 90 * torch.randn(8, 6, generator=random)) for x in xs]


torch.manual_seed(0)
encoder, its_scaler = nn.Linear(6, 16), scaler()
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.02)
print(matched(encoder, optimizer, its_scaler, pairs(8), 2e5), "scale", its_scaler.get_scale())

# %% [markdown]
# Mend it, as `mend_similarity`: return the losses, as floats. It has to run on a GPU without BF16,
# so autocast stays FP16, and the encoder's products run in it.


# %% exercise="mend_similarity"
def mend_similarity(encoder, optimizer, scaler, batches, temperature):
    """Train on each batch of pairs once, in FP16 with the scaler; return the losses."""
    ### BEGIN SOLUTION
    losses = []
    for x, z in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            scores = (encoder(x) / temperature) @ encoder(z).T
            loss = cross_entropy(scores, torch.arange(len(x)))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses
    ### END SOLUTION


# %% [markdown] heading="mend_recompute"
# To save memory, each block of a deep model is a checkpoint: its forward pass keeps only its input,
# and the backward pass computes the block once more. The head is kept in FP32 on purpose.


# %%
class Recompute(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block, x):
        ctx.block = block
        ctx.save_for_backward(x)
        return block(x)

    @staticmethod
    def backward(ctx, gradient):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            output = ctx.block(x)
        torch.autograd.backward(output, gradient)
        return None, x.grad


def recomputed(blocks, head, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        hidden = x.clone().requires_grad_()
        with torch.autocast("cpu", dtype=torch.float16):
            for block in blocks:
                hidden = Recompute.apply(block, hidden)
            with torch.autocast("cpu", enabled=False):
                loss = loss_fn(head(hidden.float()), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


blocks = nn.ModuleList(nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(2))
head = nn.Linear(6, 3)
optimizer = torch.optim.SGD([*blocks.parameters(), *head.parameters()], lr=0.5)
try:
    recomputed(blocks, head, optimizer, scaler(), cross_entropy, some_batches(1))
except RuntimeError as error:
    print("RuntimeError:", error)

# %% [markdown]
# Mend it, as `mend_recompute`: each block is recomputed in the backward pass, as before, and in the
# precision of its forward pass. The head stays in FP32, forward and backward. You may write a
# Function of your own above it, or use torch's `checkpoint`.


# %% exercise="mend_recompute"
def mend_recompute(blocks, head, optimizer, scaler, loss_fn, batches):
    """Train on each batch once, in FP16 with the scaler, with each block a checkpoint."""
    ### BEGIN SOLUTION
    for x, y in batches:
        optimizer.zero_grad()
        hidden = x
        with torch.autocast("cpu", dtype=torch.float16):
            for block in blocks:
                hidden = checkpoint(block, hidden, use_reentrant=False)
            with torch.autocast("cpu", enabled=False):
                loss = loss_fn(head(hidden.float()), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    ### END SOLUTION


# %% [markdown]
# That was the last exercise of the course. Next: a model of yours. `amp-lessons explain` shows what
# autocast does to it, and `amp-lessons bench` what that gains.
