# %% [markdown]
# # Lesson 12: Several ranks
#
# One GPU is no longer enough, so you add a second. Now two processes train one model. Each has a scaler of
# its own, and they send each other gradients. What if only one of them overflows? Which dtype do
# gradients have on their way?
#
# **You will be able to** train on several ranks whose scalers agree, choose the dtypes that FSDP2 computes
# and exchanges in, and accumulate gradients with one exchange.
#
# **Time** [[minutes]] minutes. **Needs** [[lesson training_loops]]; no GPU. One cell starts two processes.

# %%
from amp_lessons import ask, plots, predict
from amp_lessons.amp.distributed import launch
from amp_lessons.amp.scaling import ScalerRecord

# %% [markdown]
# ## A second GPU
#
# With several GPUs, each has a process of its own, called by its number: [[term rank]] 0, rank 1. The
# command `torchrun` starts these processes. A library carries tensors between them: NCCL between GPUs,
# gloo between CPUs. In an *all-reduce*, each rank brings a tensor, and each gets the sum of all. Divided
# by the number of ranks, this is the average.
#
# There are two ways to train one model on several ranks:
#
# - [[term DDP]] (`DistributedDataParallel`): each rank has the whole model, and its own part of the batch.
#   During `backward()`, all-reduces average the gradients.
# - [[term FSDP|FSDP2]] (`fully_shard`): each rank stores only a piece of every parameter, called a *shard*. Before
#   a block runs, each rank collects the other pieces of its parameters. After the backward
#   pass, each rank has the averaged gradient of its own shard.
#
# When the ranks average gradients, they send them to each other. We call this the *exchange*.
#
# ## A painter on two ranks
#
# The network of [[lesson amp_in_20_minutes]] paints digits again: the painter. As there, it paints *big
# pictures*: we pretend that they have 100 million pixels (`big`) where they have 38,400 (`our_pixels`),
# and divide the loss by the larger number. This makes the gradients too small for FP16, so the training
# needs a scaler. The learning rate makes up for the division.
#
# We train the painter under DDP and under FSDP2, in FP16. Each rank has half of the 600 pictures,
# in `batch`. This is the loop that each rank runs under DDP:
#
# ```python
# model = DistributedDataParallel(autoencoder().to(device))
# optimizer = torch.optim.SGD(model.parameters(), lr=big / our_pixels, momentum=0.9)
# scaler = torch.amp.GradScaler(device)
# for step in range(150):
#     optimizer.zero_grad()
#     with torch.autocast(device, dtype=torch.float16):
#         error = mse_loss(model(batch), batch)  # the mean over this rank's pixels
#     loss = error * our_pixels / big
#     scaler.scale(loss).backward()  # DDP averages the gradients in here
#     scaler.step(optimizer)
#     scaler.update()
# ```
#
# Nothing in the loop depends on the number of ranks. Each all-reduce waits until all ranks have
# joined it, so every rank must make the same calls. The next cell starts two ranks on this machine,
# on its GPUs if it has two. They run the experiments of the next sections, which takes some
# seconds. `show` prints the result of one experiment.

# %%
ranks = launch("amp_lessons.amp.distributed.experiments", ranks=2, timeout=100)


def show(name):
    for rank in ranks:
        records = rank.reports[name]["records"]
        skipped = [record["step"] for record in records if record["skipped"]]
        print(f"rank {rank.number}: skipped steps {skipped}", end=", ")
        print(f"scale {records[-1]['scale']:,.0f} at the end")
    if name.startswith("ddp"):  # under FSDP2, no weight is on two ranks
        print(f"a weight differs between the ranks by up to {ranks[0].reports[name]['apart']:.1g}")


# %% [markdown]
# ## One rank overflows
#
# In step 40, the loss of rank 1 is inf. The loss of rank 0 is fine. Each rank has an ordinary
# `GradScaler` of its own, and the two scalers exchange nothing. Does rank 0 skip the step too?

# %%
show("ddp loss")
errors = [rank.reports["ddp loss"]["errors"] for rank in ranks]
plots.scaled_training(
    {"rank 0": errors[0], "rank 1": errors[1]},
    [ScalerRecord(**record) for record in ranks[0].reports["ddp loss"]["records"]],
    title="DDP, with an inf in the loss of rank 1 (below: the scale of rank 0)",
    ylabel="error per pixel",
)

# %% [markdown]
# It does. DDP averages the gradients during `backward()`, before any scaler looks at them. The average of
# inf or NaN and a finite number is inf or NaN. So both scalers see the same bad gradients, both skip the
# step and halve the scale, and the models stay equal.
#
# ## An inf after the exchange
#
# When `backward()` returns, DDP has done its work. A line of your own that changes gradients comes
# after that.

# %% tags=["question"]
predict("ranks.inf_after_the_exchange")

# %%
show("ddp gradient")
alone = [rank.reports["ddp gradient"]["errors"] for rank in ranks]
plots.training(
    {"rank 0": alone[0][40:], "rank 1": alone[1][40:], "inf in the loss": errors[0][40:]},
    title="DDP, with an inf on rank 1 after the exchange",
    xlabel="steps after step 40",
    ylabel="error per pixel",
)

# %% [markdown]
# Rank 1 skips step 40 and rank 0 makes it, so from there on they train different models, and both
# end higher than before. No message says so.
#
# DDP copies rank 0's parameters to the other ranks when it is built. It doesn't compare them later.
# The ranks also come apart if only rank 0 loads the scaler's state when you resume. So log two
# numbers from each rank now and then: its scale, and the sum of its weights.
#
# ## Each rank holds a part
#
# With FSDP2, the two ranks hold different gradients by design. The figure shows six gradients, `g`,
# after the exchange. One of them has overflowed in the backward pass. Under DDP, its average is inf on
# both ranks. Under FSDP2, it is inf on rank 1 alone, which holds this shard.
#
# In our experiment, rank 1 gets such an inf in step 40.

# %%
plots.where_the_inf_is(ranks=2, parameters=6, bad=4)

# %% tags=["question"]
predict("ranks.shard_with_an_inf")

# %%
show("fsdp2 gradient")

# %% [markdown]
# Rank 0 skips too. FSDP2 stores gradients as *DTensors*, tensors that know on which ranks their
# other parts are. When the scaler checks them, PyTorch takes the maximum of the result over all
# ranks. FSDP2's predecessor FSDP1 (`FullyShardedDataParallel`) has plain tensors as shards. There
# you use
# [`ShardedGradScaler`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/distributed/fsdp/sharded_grad_scaler.py),
# a scaler that sends the result of its check to the other ranks. If code of your own splits a model
# among ranks, it must do the same. You write that in the [[exercises ranks|exercises]].
#
# ## What FSDP2 casts
#
# Under FSDP2, our loop opens no autocast region. FSDP2 gets a policy instead:
#
# ```python
# policy = MixedPrecisionPolicy(
#     param_dtype=torch.float16, reduce_dtype=torch.float32, output_dtype=torch.float32
# )
# fully_shard(model, mp_policy=policy)
# ```
#
# | in one training step | dtype under this policy |
# |---|---|
# | each rank's shards, between the steps | FP32: these are the [[term master weights]] |
# | the parameters that the ranks collect, for both passes | FP16, so half the bytes are sent |
# | the input of the model, and what its layers compute from it | FP16 |
# | the output of the model | FP32 (`output_dtype`) |
# | the gradients, when the ranks average them | FP32 (`reduce_dtype`) |
#
# You give modules to `fully_shard`. The policy casts at the entry and at the exit of each of these
# *modules*. It has no list of operations as autocast has, so a softmax or a norm inside runs in
# FP16 too. To keep a norm in FP32, give it a policy of its own ([[deep ranks]]).
#
# What if you leave out `reduce_dtype`?

# %% tags=["question"]
predict("ranks.mean_without_reduce_dtype")

# %%
for param_dtype, (first, second), low, full in ranks[0].reports["reduce"]:
    print(f"param_dtype {param_dtype}, gradients {first:.3g} and {second:.3g}:")
    print(f"    mean in {param_dtype} {low:.4g}, in float32 {full:.4g}")

# %% [markdown]
# BF16 has no 257, so the sum becomes 256 and the mean 128: rank 1's gradient is lost. That is what
# PyTorch 2.13 gives you if you leave out `reduce_dtype`. PyTorch 2.15 then follows each parameter's
# `grad_dtype`. Unless you set that, it is the parameter's own dtype, here FP32 ([its
# source](https://github.com/pytorch/pytorch/blob/v2.15.0/torch/distributed/fsdp/_fully_shard/_fsdp_api.py)).
# Write the dtype down, and both versions do the same.
#
# FP32 in this exchange costs twice the bytes of a 16-bit format. Start with FP32. DDP averages
# gradients in the dtype that they have, which is FP32 for FP32 parameters.
#
# ## Accumulate, and exchange once
#
# With [[term gradient accumulation]] over four micro-batches, DDP exchanges gradients four times for one
# step. Three of these exchanges are wasted. `model.no_sync()` is there to leave them out: the gradients
# then add up on each rank. (For a small model, one exchange is one all-reduce.) Suppose you write it
# like this, with `no_sync()` around the first three calls of `backward()`:
#
# ```python
# for number, batch in enumerate(micro_batches):
#     loss = mse_loss(model(batch), batch) / 4
#     with model.no_sync() if number < 3 else nullcontext():
#         loss.backward()
# ```
#
# The next cell counts the all-reduces of three loops: without `no_sync()`, with this one, and with one
# that opens the region before the forward pass.

# %%
loops = {
    "without no_sync()": "plain",
    "no_sync() around backward": "no_sync too late",
    "no_sync() around forward and backward": "no_sync",
}
print("all-reduces after each of four micro-batches:")
for words, name in loops.items():
    print(f"{words:38}", *ranks[0].reports["all-reduces"][name])

# %% [markdown]
# Your own loop makes all four exchanges. DDP decides in the *forward* pass whether the coming
# backward pass will exchange gradients, so `no_sync()` must surround both passes.
#
# In FSDP2, `model.set_requires_gradient_sync(False)` leaves the exchange out. For the scaler,
# nothing changes from [[lesson training_loops]]: one `step` and one `update`, after the last
# micro-batch. Only then has an inf of any micro-batch reached all ranks. If you step earlier, the
# ranks can skip different steps.
#
# To take home: `amp_lessons/amp/distributed/train.py` is a whole script with DDP, FSDP2,
# accumulation and a scaler. The same file runs on two CPU cores (the first command), and on two
# machines with 8 GPUs each. For that, start the second command on both machines. The `--rdzv`
# options are how the two find each other (`c10d` is PyTorch's own way); `HOST` is the name of one
# of them.
#
# ```
# torchrun --nproc-per-node 2 -m amp_lessons.amp.distributed.train --parallel ddp --precision fp16
# torchrun --nnodes 2 --nproc-per-node 8 --rdzv-id 12 --rdzv-backend c10d \
#     --rdzv-endpoint HOST:29500 -m amp_lessons.amp.distributed.train --parallel fsdp2
# ```
#
# ## When something goes wrong
#
# | what you see | likely cause | what to do |
# |---|---|---|
# | The scales or the weights of two ranks differ | The scalers saw different gradients | Find what changes gradients after the exchange, or what only one rank loads |
# | A rank hangs | It waits for an exchange that another rank never starts | Don't put `backward()` behind an `if` that can differ between ranks |
# | Small gradients of some ranks are lost under FSDP2 | The ranks add them up in 16 bits | `reduce_dtype=torch.float32` |
# | Accumulation is as slow as without `no_sync()` | The forward pass is outside of it | Put forward and backward inside |
#
# ## Recap
#
# 1. DDP's scalers agree because they see equal gradients: DDP averages them during `backward()`.
# 2. If one rank's gradients change after the exchange, the ranks can train different models, without an
#    error.
# 3. Under FSDP2 each rank has other gradients, and the ranks share the check for inf.
# 4. FSDP2's policy casts modules, not operations. Set `reduce_dtype` to FP32.
# 5. To exchange once, put the forward and the backward pass of all micro-batches but the last under
#    `no_sync()`.
#
# ## Three questions

# %% tags=["question"]
ask(
    "ranks.why_all_ranks_skip",
    "ranks.no_sync_too_late",
    "ranks.reduce_dtype_left_out",
)

# %% [markdown]
# **Next:** [[exercises ranks|the exercises]]: ranks that agree, an accumulation with few exchanges, a
# norm over all ranks, and a policy for FSDP2. None of them starts a second process. Then [[lesson fp8]] trains with eight bits.
# Optional: [[deep ranks]], on a model that is sharded by half, a norm in FP32 under FSDP2, and averages
# in FP16.
