# %% [markdown]
# # Lesson 09: Memory
#
# `torch.OutOfMemoryError: CUDA out of memory.` A colleague looks at your screen and says: "Turn on
# mixed precision. Half the bits, half the memory." Sometimes the colleague is nearly right, and
# sometimes not at all. Here you follow the bytes of a training step, and see which it is for you.
#
# **You will be able to** say what fills the memory in each part of a training step, predict what mixed
# precision does to it, and pick the technique that frees what you are short of.
#
# **Time** [[minutes]] minutes. **Needs** [[lesson training_loops]] and the lessons before it; no GPU.

# %%
import torch
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss
from torch.utils.checkpoint import checkpoint_sequential

from amp_lessons import ask, autoencoder, load_digits, plots, predict
from amp_lessons.amp.memory import BytesAlive, gpt_steps, optimizer_bytes
from amp_lessons.lessons.experiments import deep_painter, kept_for_backward

pictures = load_digits().train_images[:600].clone()
MiB, GiB = 2**20, 2**30

# %% [markdown]
# ## Two runs out of memory
#
# Anna and Ben each have a GPU with 24 GiB. Anna trains GPT-2 medium, with 355 million parameters, on 12
# texts at a time. Ben trains GPT-2 XL, with 1.56 billion parameters, on a single text. A text has 1,024
# tokens, and both use Adam. Both runs die. (We count in MiB and GiB. 1 GiB is 2^30 bytes, 7% more than
# 1 GB, which is 10^9 bytes. A GPU sold with "24 GB" has up to 24 GiB: an RTX 3090 reports 24.0 GiB,
# and an L4 reports 22.5 GiB.)
#
# How much would they need? You don't need their GPUs to find out. `gpt_steps` makes two training steps
# with [[term fake tensor|fake tensors]], which have a shape and a dtype but no data. After each
# operation it adds up the bytes of all tensors that are *alive*: created, and not freed yet. The highest
# sum is the **peak**.
# (Autocast follows the CPU's rules here. On CUDA they differ in details, and CUDA takes some memory for
# itself.)

# %%
anna, ben = gpt_steps("medium", batch=12), gpt_steps("XL", batch=1)
print(f"FP32: Anna's peak {anna.peak / GiB:.1f} GiB, Ben's peak {ben.peak / GiB:.1f} GiB")

# %% tags=["question"]
predict("memory.two_runs")

# %%
anna_amp = gpt_steps("medium", batch=12, precision="amp bf16")
ben_amp = gpt_steps("XL", batch=1, precision="amp bf16")
print(f"mixed precision: Anna's peak {anna_amp.peak / GiB:.1f} GiB", end=", ")
print(f"Ben's peak {ben_amp.peak / GiB:.1f} GiB")

# %% [markdown]
# Anna's run fits now, and Ben's peak hasn't moved.
#
# ## What does one parameter cost?
#
# To see what differs, we look at one parameter first. The painter, the network of
# [[lesson amp_in_20_minutes]] that paints digits, has 10,448 of them. It makes one real training step
# on the CPU: with plain SGD and with Adam, in FP32 and under autocast. Then we count the bytes of the
# weights, of their gradients, and of what the optimizer keeps.

# %%
print("bytes per parameter:     weight  gradient  optimizer")
for kind in (torch.optim.SGD, torch.optim.Adam):
    for amp in (False, True):
        model = autoencoder()
        optimizer = kind(model.parameters(), lr=0.01)
        with torch.autocast("cpu", torch.bfloat16, enabled=amp):
            loss = mse_loss(model(pictures), pictures)
        loss.backward()
        optimizer.step()
        weights = list(model.parameters())
        sizes = [sum(w.nbytes for w in weights), sum(w.grad.nbytes for w in weights)]
        each = [b / 10_448 for b in (*sizes, optimizer_bytes(optimizer))]
        name = f"{kind.__name__}, {'autocast' if amp else 'FP32'}"
        print("{:25}{:6.1f}{:10.1f}{:11.1f}".format(name, *each))

# %% [markdown]
# Autocast changes none of these numbers. Its 16-bit copies of the weights come on top, 2 bytes
# each, and are gone after the backward pass. So mixed precision doesn't give you "a smaller model",
# and the file that you save has its usual size.
#
# These bytes don't all appear at once. When you create a model of a billion parameters, it takes 3.7
# GiB. The gradients come in the first backward pass, and Adam's two averages in the first
# `optimizer.step()`. From then on, 14.9 GiB are alive after each `optimizer.step()`, until
# `zero_grad()` frees the 3.7 GiB of gradients.
#
# ## A step, operation by operation
#
# Let's watch the bytes come and go. `deep_painter` is a painter with 16 layers, all of width 64.
# `BytesAlive` does the adding up while the loop runs, and `mark` gives a name to the part that has just
# run. The curves below go from operation to operation, not from second to second. (We stay on the CPU
# in this lesson, so that everybody sees the same bytes.)


# %%
def follow(model, batch, amp):
    optimizer = torch.optim.Adam(model.parameters())
    with BytesAlive(batch, *model.parameters()) as alive:
        for _ in range(2):
            with torch.autocast("cpu", torch.bfloat16, enabled=amp):
                loss = mse_loss(model(batch), batch)
            alive.mark("forward")
            loss.backward()
            alive.mark("backward")
            optimizer.step()
            alive.mark("optimizer.step")
            optimizer.zero_grad()
    return alive


# %%
plots.memory_over_time(
    {
        "FP32": follow(deep_painter(), pictures, amp=False),
        "mixed precision": follow(deep_painter(), pictures, amp=True),
    },
    title="Two training steps of the painter with 16 layers, 600 pictures",
)

# %% [markdown]
# In the forward pass the curves climb, because each layer keeps something for the backward pass. In
# the backward pass that is freed again, and gradients appear. After `optimizer.step()`, the same is
# left in both runs: 16 bytes for each parameter (1.02 MiB), the pictures (0.15 MiB), and the loss.
# So mixed precision made the hills lower, and not the ground that they stand on.
#
# The second hill is higher than the first, mostly because Adam's averages are there now. So a run can
# pass its first step and die in the second.
#
# Now the same picture for Ben.

# %% tags=["question"]
predict("memory.ben_peaks_in")

# %%
plots.memory_over_time(
    {"FP32": ben, "mixed precision": ben_amp},
    title="Ben's run: 1.56 billion parameters, one text",
    limit=("his GPU", 24 * GiB),
)

# %% [markdown]
# The peak is in `optimizer.step()`. Adam's averages appear there, and for a moment one more number
# for each parameter. Autocast is off by then, so the two curves meet.
#
# ## What does the forward pass leave behind?
#
# The hills are made of results that are kept for the backward pass: [[term
# activation|activations]]. We list what the painter of [[lesson amp_in_20_minutes|lesson 00]] keeps
# for 600 pictures. From its 64 pixels, its four layers compute 64, 16, 64 and 64 numbers for each
# picture. `kept_for_backward` doesn't list the pictures and the parameters, which are there in any
# case.

# %% tags=["question"]
predict("memory.painter_keeps")

# %%
model = autoencoder()
for amp in (False, True):
    with (
        kept_for_backward(pictures, *model.parameters()) as kept,
        torch.autocast("cpu", torch.bfloat16, enabled=amp),
    ):
        loss = mse_loss(model(pictures), pictures)
    print("autocast" if amp else "FP32", f"keeps {sum(t.nbytes for t in kept):,} bytes")
    for t in kept:
        print(f"    {t.dtype}  {tuple(t.shape)!s:9}  {t.nbytes:7,} bytes")

# %% [markdown]
# Autocast halves the hidden results, but not the output. And it keeps 16-bit copies of the input
# and the weights: 83% in all.
#
# ## How many layers, how large a batch?
#
# The peak of the 16-layer painter fell by about a quarter. How does that depend on the number of layers,
# and on the batch? We follow painters of 3, 4 and 16 layers with four sizes of batch, and divide the
# peak with mixed precision by the peak in FP32. The pictures are blank, as bytes don't depend on values.

# %% tags=["question"]
predict("memory.three_layers")

# %%
print("peak, mixed precision / FP32\nbatch        16    64   256  1024")
for layers in (3, 4, 16):
    ratios = []
    for size in (16, 64, 256, 1024):
        blank = torch.zeros(size, 64)
        full = follow(deep_painter(layers), blank, amp=False)
        mixed = follow(deep_painter(layers), blank, amp=True)
        ratios.append(f"{mixed.peak / full.peak:.2f}")
    print(f"{layers:2} layers ", *ratios, sep="  ")

# %% [markdown]
# With three layers, the copies of the batch and of the output cost what autocast saves on two
# hidden results.
#
# ## A tutorial that needed more
#
# PyTorch's [recipe for mixed
# precision](https://docs.pytorch.org/tutorials/recipes/recipes/amp_recipe.html) trains three layers of
# width 4,096 with plain SGD, first in FP32, then with FP16 autocast. The page says that mixed precision
# can reduce memory. A notebook that ran it with a batch of 4,096 (the page has 512) printed a peak of
# 7.02 GiB in FP32, and 7.11 GiB with autocast. (We quote these numbers and have not measured them.)
#
# The recipe first creates 50 batches of inputs and targets. Each input and each target is as large as a
# weight matrix, 64 MiB. We subtract them from both peaks.

# %%
fp32_peak, amp_peak = 7_533_332_992, 7_634_019_840  # bytes, quoted
data = 50 * 2 * 4096 * 4096 * 4
copies = 3 * (4096 * 4096 + 4096) * 2
print(f"50 batches and their targets   {data / MiB:7,.1f} MiB")
print(f"FP32 without them              {(fp32_peak - data) / MiB:7,.1f} MiB")
print(f"autocast without them          {(amp_peak - data) / MiB:7,.1f} MiB")
print(f"autocast needs more by         {(amp_peak - fp32_peak) / MiB:7,.1f} MiB")
print(f"weights and biases in 16 bits  {copies / MiB:7,.1f} MiB")

# %% [markdown]
# Most of the 7 GiB are the 50 batches, which have nothing to do with the precision of the training. The
# two peaks differ by 1%. Without the batches it is 12%. So before you compare two peaks, subtract what
# both have in common.
#
# What autocast added is as large as one 16-bit copy of each weight and bias. So whatever else it
# saves and adds seems to come out even at the peak, as for the painter with three layers.
#
# ## What fills yours?
#
# The calculator below adds up the parts of a step for a model and a batch of your choice, with the
# autocast rules of CUDA. It adds *all* parts, as if they were alive together, so a peak can be
# lower. It leaves out temporary results, such as the last 5.8 GiB of Ben's peak, so a peak can be
# higher.
#
# Try your own sizes, and then Ben's model with Adam. At what batch size do the activations first
# take more than half of the FP32 bytes?

# %% tags=["live"]
from amp_lessons.lessons.widgets import MemoryCalculator

MemoryCalculator("GPT-2 XL", "adam")

# %% [markdown]
# Here are four batches, with Adam and texts of 1,024 tokens.

# %%
one_text, _ = MemoryCalculator("GPT-2 XL", "adam", batch=1).memories
others = one_text.total - one_text.activations
for batch in (1, 4, 5, 8):
    activations = batch * one_text.activations
    print(f"{batch} texts: activations {activations / GiB:4.1f} GiB", end=", ")
    print(f"other parts {others / GiB:.1f} GiB: {activations / (activations + others):.0%}")

# %% [markdown]
# With fewer than 5 texts, most of the memory is something that autocast can't change. With one text,
# activations are 18% of the sum. If autocast halved all of them, it would save 9%, or 2.5 GiB. But its
# copies of the weights take 2.9 GiB.
#
# ## 100,000 words to choose from
#
# Some runs die in one particular line, the loss. For each word that could come next, a language model
# gives one number. These numbers are the logits. Take 8,192 tokens and a vocabulary of 100,000 words.
# Under autocast the last layer gives 16-bit logits. Many programs convert them with `logits.float()`,
# because on CUDA the loss of 16-bit logits is coarse ([[lesson losses_and_ops]]).
#
# `piece_loss` below is such a last layer with its loss. `loss_peak` follows its forward and backward
# pass on the device "meta", where tensors have no data either. It can cut the tokens into several
# pieces, which we'll need soon. At first there is one piece.


# %%
def piece_loss(hidden, head, targets):
    logits = hidden @ head.T
    return cross_entropy(logits.float(), targets, reduction="sum")


def loss_peak(pieces, tokens=8192, words=100_000, width=1024):
    with torch.device("meta"):
        hidden = torch.empty(tokens, width, dtype=torch.bfloat16, requires_grad=True)
        head = torch.empty(words, width, dtype=torch.bfloat16, requires_grad=True)
        targets = torch.empty(tokens, dtype=torch.long)
    with BytesAlive(hidden, head, targets) as alive:
        for h, t in zip(hidden.chunk(pieces), targets.chunk(pieces), strict=True):
            (piece_loss(h, head, t) / tokens).backward()
    return alive.peak - hidden.nbytes - head.nbytes


# %% tags=["question"]
predict("memory.bytes_per_logit")

# %%
logits = 8192 * 100_000
peak = loss_peak(pieces=1)
print(f"logits in 16 bits: {2 * logits / GiB:.1f} GiB")
print(f"peak of the loss:  {peak / GiB:.1f} GiB, {peak / logits:.0f} bytes per logit")

# %% [markdown]
# At the peak, three FP32 numbers are alive for each logit: the log-softmax and two gradients. The
# loss of one token doesn't depend on the other tokens. So you can take a part of the tokens,
# compute its logits, its loss and its backward pass, and go on to the next part. Then only the
# logits of one part are alive.

# %%
for pieces in (1, 4, 16, 64):
    print(f"{pieces:2} pieces: peak of the loss {loss_peak(pieces) / GiB:.1f} GiB")

# %% [markdown]
# Call `backward()` for each piece: if you call it once, at the end, autograd keeps 4 bytes for each
# logit.
#
# PyTorch 2.13 has this ready to use: `linear_cross_entropy` takes the hidden states and the weights
# of the last layer. But it cuts the tokens into pieces only if you pass `options`.

# %%
from torch.nn import LinearCrossEntropyOptions
from torch.nn.functional import linear_cross_entropy

for name, options in (("no options", None), ("options", LinearCrossEntropyOptions())):
    with torch.device("meta"):
        hidden = torch.empty(8192, 1024, dtype=torch.bfloat16, requires_grad=True)
        head = torch.empty(100_000, 1024, dtype=torch.bfloat16, requires_grad=True)
        targets = torch.empty(8192, dtype=torch.long)
    with BytesAlive(hidden, head, targets) as alive:
        loss = linear_cross_entropy(hidden, head, targets, options=options)
        loss.backward()
    peak = alive.peak - hidden.nbytes - head.nbytes
    print(f"{name:11} peak of the loss {peak / GiB:.1f} GiB, the loss is {loss.dtype}")

# %% [markdown]
# Without `options`, all logits are there at once. (9.2 GiB became 4.6 because nothing calls `.float()`.)
# With them, the peak is as low as with 64 pieces. But autocast doesn't reach into the pieces. With
# `options`, the loss has the dtype of the hidden states in a region too: a loss of 9.46 is 9.5 in BF16.
# [[deep memory]] compares losses and gradients.
#
# A [[term kernel]] is a program that computes one operation on the GPU. Some libraries have kernels for
# this loss that never store the logits at all, for example
# [Liger Kernel](https://github.com/linkedin/Liger-Kernel). The authors of one such kernel report 1 MB
# instead of 24 GB, for the loss of a model with 2 billion parameters
# ([Cut Your Losses](https://arxiv.org/abs/2411.09009)).
#
# ## Compute it again
#
# There is another way not to keep an activation: throw it away, and compute it again in the backward
# pass. This is [[term activation checkpointing]], which
# [Chen and others](https://arxiv.org/abs/1604.06174) made popular in 2016. It has nothing to do with the
# checkpoints that you save to a file.
#
# The price is about one more forward pass. A backward pass is about as much work as two of them, so
# a step does a third more. The network is cut into segments, and each segment but the last keeps
# only its input. The last is not computed again, because its backward pass comes first.

# %% tags=["question"]
predict("memory.fewest_segments")


# %%
class InSegments(nn.Module):
    def __init__(self, layers, segments):
        super().__init__()
        self.layers, self.segments = layers, segments

    def forward(self, x):
        return checkpoint_sequential(self.layers, self.segments, x, use_reentrant=False)


print("peak              FP32      mixed precision")
for segments in (1, 2, 4, 8, 16):
    cut = [InSegments(deep_painter(), segments) for _ in range(2)]
    fp32, amp = follow(cut[0], pictures, amp=False), follow(cut[1], pictures, amp=True)
    print(f"{segments:2} segments    {fp32.peak / MiB:5.2f} MiB        {amp.peak / MiB:5.2f} MiB")

# %% [markdown]
# With 4 segments, 4 inputs are kept, and at most 4 layers at a time are there in full. That is the
# best balance here. Here, checkpointing and mixed precision together need less than either of them
# alone. [[Lesson compile_and_checkpoint]] uses checkpointing in earnest, with what can go wrong.
#
# ## And Ben?
#
# Ben keeps mixed precision, because his GPU multiplies 16-bit matrices faster. But his peak is still at
# 29 GiB.

# %% tags=["question"]
predict("memory.ben_fits")

# %%
print("bytes per parameter in optimizer.step:   weight + gradient + averages + temporary")
for name, parts in {
    "Adam, the default on CUDA": (4, 4, 8, 4),
    "the same with checkpointing": (4, 4, 8, 4),
    "the same with 512 tokens": (4, 4, 8, 4),
    "Adam with fused=True": (4, 4, 8, 0),
    "Adam with averages in 8 bits": (4, 4, 2, 0),
}.items():
    total = sum(parts) * 1_557_611_200 / GiB
    print(f"{name:28}  {' + '.join(map(str, parts))} = {sum(parts):2}: {total:.1f} GiB")

# %% [markdown]
# At Ben's peak no activation is alive, so checkpointing and shorter texts change nothing. Adam in 8
# bits fits. (`fused=True` is too close: his backward pass needs 23.8 GiB.)
#
# Ready-made 8-bit optimizers are in
# [bitsandbytes](https://huggingface.co/docs/bitsandbytes/main/en/reference/optim/optim_overview),
# for example. The [paper](https://arxiv.org/abs/2110.02861) behind them reports the same quality as
# with 32-bit averages on the tasks that it tried.
#
# ## Pick by what is full
#
# | what fills the memory | what helps | the price |
# |---|---|---|
# | Activations | mixed precision | 2 bytes for each weight that a 16-bit operation uses, while the copies live |
# | Activations | checkpointing | about a third more work |
# | Activations | smaller batches and [[term gradient accumulation]] | more forward and backward passes for each step |
# | The logits | the loss in pieces, or a kernel made for it | the last layer and the loss are no longer two separate lines |
# | The optimizer's averages | 8-bit Adam | less exact averages |
# | The optimizer's averages | SGD with momentum | a new search for the learning rate |
# | Weights, gradients and averages | several GPUs that share them ([[lesson ranks]]) | they exchange data in each step |
# | Weights, gradients and averages, in fine-tuning | LoRA: the model is frozen in 16 bits, and you train a small FP32 adapter beside it | you train fewer parameters |
# | Weights, gradients and averages, on one GPU | a model stored in BF16: 8 bytes per parameter, not 16 | small updates are lost ([[lesson amp_from_scratch]]), unless the optimizer is made for it |
#
# To see what fills the memory for your own model, type `amp-lessons memory train.py:make --input 32,64` in
# a terminal. It needs no GPU, counts each module, and says which batch fits in 16, 24, 40 and 80 GB.
#
# ## Read your GPU's numbers
#
# - `torch.cuda.memory_allocated()` is what your tensors hold now, and `max_memory_allocated()` the peak
#   since the program began. Call `torch.cuda.reset_peak_memory_stats()` before the part that you want to
#   measure.
# - `torch.cuda.memory_reserved()` is at least as large. PyTorch keeps freed blocks for later use
#   ([docs](https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management)). `nvidia-smi` shows
#   these too, and what CUDA takes for itself. Neither the kept blocks nor CUDA's own part is a leak.
# - The out-of-memory message also says how much is "reserved by PyTorch but unallocated". If that is a
#   lot, free memory lies in pieces that are too small. Try `PYTORCH_ALLOC_CONF=expandable_segments:True`
#   ([docs](https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management)).
# - In a notebook, names such as `loss` and `output` keep the tensors of the run before alive. Restart the
#   notebook's Python before you compare two peaks.
# - The error names the line that asked for more than there was. Forward pass: look at the activations
#   first. Loss: the logits. Backward pass: both, and it doesn't name the layer. First
#   `optimizer.step()`: the optimizer's averages. From the second step on these averages are always
#   there, so a forward pass can also fail because of them.
# - A [snapshot](https://docs.pytorch.org/docs/stable/torch_cuda_memory.html) draws curves like those
#   above from a real GPU, with the line of code for each block. Call
#   `torch.cuda.memory._record_memory_history()`, make two training steps, then call
#   `torch.cuda.memory._dump_snapshot("memory.pickle")`, and open the file at
#   [pytorch.org/memory_viz](https://pytorch.org/memory_viz).
#
# ## Recap
#
# 1. Weights, gradients and Adam's averages take 16 bytes per parameter. Autocast doesn't change that.
# 2. Autocast halves activations between 16-bit layers. It adds copies: 2 bytes for each weight that a
#    16-bit operation uses, one of the input, and one of the output.
# 3. So it saves memory in deep networks with large batches. With small batches it saves next to
#    nothing, because there the model itself fills the memory. The same holds for three layers whose
#    input and output are as wide as the rest.
# 4. The peak can be in the forward pass, the loss, the backward pass or `optimizer.step()`. Look where,
#    before you choose a technique.
# 5. Compare peaks without the data that both runs share, and restart Python before each.
#
# ## Three questions

# %% tags=["question"]
ask(
    "memory.seven_billion_states",
    "memory.first_batch_that_pays",
    "memory.peak_with_data_in_it",
)

# %% [markdown]
# **Next:** [[exercises memory|the exercises]]: bytes per parameter, the batch from which autocast
# pays, the copies that it keeps, two reports, the technique that helps, and the loss in pieces. Then
# [[lesson speed]]: speed, measured. Optional: [[deep memory]], on the recipe's peak, on a sum that
# misleads, on a loss in pieces and steps inside the backward pass, and on what CUDA's allocator says.
