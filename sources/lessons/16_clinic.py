# %% [markdown]
# # Lesson 16: The clinic
#
# The training runs, and nothing complains. Three hours later the loss is where it was. Or there is
# a message, and the first answer that you find on the web makes it go away, and the model gets
# worse. In this lesson you find out what is wrong before you change anything.
#
# **You will be able to** look up a message, read a run that gives no message by three numbers, and
# tell a cure from a change that only hides the fault.
#
# **Time** [[minutes]] minutes. **Needs** [[lesson training_loops]] and the lessons before it; no GPU.
#
# In a hurry? [The table by symptom](#Faults-by-what-you-see) stands near the end of this page.

# %%
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from amp_lessons import ScalerLog, ask, autoencoder, load_digits, lookup, plots, predict
from amp_lessons.amp.errors import as_text
from amp_lessons.lessons import broken_runs
from amp_lessons.lessons.experiments import raised

device = "cuda" if torch.cuda.is_available() else "cpu"
digits = load_digits().to(device)
GradScaler = torch.amp.GradScaler

# %% [markdown]
# ## If there is a message, look it up
#
# A colleague loads a large model in FP16, to save memory. They freeze it and train a small adapter
# beside it, with autocast and a GradScaler. The adapter was loaded in FP16 too. Here are the
# adapter and one training step.

# %%
adapter = nn.Linear(64, 10).half().to(device)
optimizer, scaler = torch.optim.SGD(adapter.parameters(), lr=0.1), GradScaler(device)
with torch.autocast(device, dtype=torch.float16):
    loss = cross_entropy(adapter(digits.train_images[:100]), digits.train_labels[:100])
scaler.scale(loss).backward()
message = raised(lambda: scaler.step(optimizer))
print(message)

# %% [markdown]
# The web has several answers to this message. After each of them the program runs.

# %% tags=["question"]
predict("myths_and_clinic.which_cure")

# %%
print("\n".join(as_text(lookup(message)[0])))

# %% [markdown]
# `lookup` knows more than 100 messages and symptoms. It takes what you have: a line, a whole
# traceback, or a page of a log. In a terminal, type `amp-lessons lookup` and paste. It needs no
# network and doesn't start PyTorch. [[home|Your home page]] has a box for it.
#
# Two habits help. Read the *last* line of a traceback first, since the lines above say how the
# program got there. (Under `torchrun` it is the last line of the worker that failed.) And before
# you believe a cure, ask what it changes: the message, or the numbers.
#
# ## If there is no message, look at three numbers
#
# More than half of the faults in [the table below](#Faults-by-what-you-see) give no message. For
# those, look at the loss, at the number of skipped steps, and at the scale.
#
# First a healthy run: the digit painter of [[lesson amp_in_20_minutes]], with SGD in FP16. The loss
# that you see is the squared error per pixel. As there, the sum of the errors is divided by 100
# million for the backward pass. The gradients are clipped at a norm of 0.001.

# %%
healthy = broken_runs.examine(broken_runs.healthy, device)
print(healthy)
title, label = "A healthy run", "loss"
plots.scaled_training(
    {"mixed precision": healthy.errors}, healthy.records, title=title, ylabel=label
)

# %% [markdown]
# The loss falls, and the scale stays where it is. In a long run the scale doubles from time to time
# and falls again after a skipped step. About one skipped step in 2,000 is the price of looking for
# a larger scale, with the default settings. That is healthy too.
#
# Now four more runs. Each differs from the healthy one in a few lines, and none of them raises an
# exception. You see only what a log would show you.

# %%
loops = {name: getattr(broken_runs, f"run_{name}") for name in "abcd"}
runs = {name: broken_runs.examine(loop, device) for name, loop in loops.items()}
for name, run in runs.items():
    print(f"run {name}: {run}")

# %%
curves = {"mixed precision": healthy.errors, "run a": runs["a"].errors, "run c": runs["c"].errors}
plots.training(curves, title="Three of the five runs", ylabel="loss")

# %% [markdown]
# Run a stands still, and run c hardly falls. (Run b is NaN from the start, and run d is inf after
# two steps, so they aren't in the figure.)
#
# ## Run a: a loss that stands still
#
# The gradients of run a are neither zero nor inf: their norm is 0.00008, as in the first step of
# the healthy run.

# %% tags=["question"]
predict("myths_and_clinic.frozen_run")

# %% [markdown]
# Here is the loop of run a beside the healthy one. Lines with a minus are only in run a, lines with
# a plus only in the healthy run. `fp16_region` opens an autocast region.

# %%
print(broken_runs.compared(broken_runs.run_a))

# %% [markdown]
# One region is around the whole loop, so the forward pass uses the FP16 copies of the first weights
# in every step. How would you find that without a healthy loop beside it? Print a weight before and
# after a step: it moves. Then, still in the loop, compute the loss of one batch twice in evaluation
# mode and FP16 autocast, the second time with
# `torch.autocast(device, dtype=torch.float16, cache_enabled=False)`. If the two differ, your
# forward pass doesn't use the weights as they are now.
#
# ## Run b: a scale that sinks

# %% tags=["question"]
predict("myths_and_clinic.every_step_skipped")

# %%
print(broken_runs.compared(broken_runs.run_b))
with torch.autocast(device, dtype=torch.float16):
    for largest in (1, 255, 65_535):
        features = autoencoder().to(device)[0](largest * digits.train_images[:600])
        print(f"pixels up to {largest:6,}: largest feature {features.abs().max().item():,.0f}")

# %% [markdown]
# The pictures of run b were loaded as 16-bit integers, from 0 to 65,535. Divide them by 65,535 when
# you load them. To find such a place in a large model, put a forward hook on each module
# (`register_forward_hook`) and stop at the first output that isn't finite.
#
# ## Run c: a loss that falls too slowly
#
# Run c does learn, but its loss goes from 0.245 to 0.235 where the healthy run reaches 0.015. No
# step was skipped, and the scale is what it was. Both loops clip the gradients at 0.001, which is
# more than ten times their true norm. So clipping should change nothing.
#
# Run c doesn't call `unscale_`. So `step` unscales, and that is after the clipping.

# %% tags=["question"]
predict("myths_and_clinic.too_small_by")

# %%
print(broken_runs.compared(broken_runs.run_c))
model = autoencoder().to(device)
error = broken_runs.squared_error(model, digits.train_images[:600])
(65_536 * error / broken_runs.BIG).backward()
norm = nn.utils.clip_grad_norm_(model.parameters(), broken_runs.MAX_NORM).item()
print(
    f"norm: true {norm / 65_536:.1e}, scaled {norm:.2f}; clipped to {broken_runs.MAX_NORM}",
    end=", ",
)
print(f"{norm / broken_runs.MAX_NORM:,.0f} times too small")

# %% [markdown]
# Clipping sees a norm of about 5, and brings it down to 0.001. So the update is about 5,000 times
# too small. Adam can hide this fault. It divides each gradient by its own typical size, so a factor
# that all gradients share nearly drops out. With Adam, a learning rate of 0.001 and a limit of 1,
# this run even ends lower than the healthy one. If you log the norm that `clip_grad_norm_` returns,
# you see the fault: 5 in place of 0.00008.
#
# ## Run d: a loss that explodes

# %% tags=["question"]
predict("myths_and_clinic.explodes")

# %%
print(broken_runs.compared(broken_runs.run_d))

# %% [markdown]
# `optimizer.step()` takes gradients that are 65,536 times too large, and nobody looks for inf.
#
# The three numbers tell the four runs apart. They tell you where to look first; other causes can
# look the same.
#
# | loss | skipped steps | scale | look first for |
# |---|---|---|---|
# | the same in every step | none | stays | an autocast region around the whole loop; gradients of zero, if their norm is 0 |
# | NaN or inf | all | sinks | an overflow in the forward pass: inputs, activations, a mask |
# | falls, but far too slowly | none | stays | gradients changed before `unscale_`; then the learning rate |
# | explodes within a few steps | none, since nothing checks | stays, since nothing updates it | `optimizer.step()` in place of `scaler.step(optimizer)`; then the learning rate |
# | falls as it should | none, or a few | stays, or moves around one value | nothing: this is a healthy run |
#
# ## Let a monitor name the line
#
# `amp_lessons.monitor` watches a loop of yours and names the line where a number broke. It also notices
# when the scaler's calls come in a wrong order. Here it watches the five runs again.

# %%
import amp_lessons

pictures = digits.train_images[:600]
for name, loop in {"healthy": broken_runs.healthy, **loops}.items():
    model, scaler = autoencoder().to(device), GradScaler(device)
    rate = broken_runs.BIG / pictures.numel()
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    with amp_lessons.monitor(model, scaler) as seen:
        loop(model, optimizer, scaler, pictures)
    print(f"run {name}:", seen.alarms[0].title if seen.alarms else "no alarm")
    if seen.faults:
        print("    line:", seen.faults[0].place.code)

# %% [markdown]
# Look at the line of code under each alarm: that is where you begin. `_to_copy` is a cast, here to FP16. Run a raises no alarm, because
# each of its numbers is finite and each call stands in its place. For such a run you still need the
# three numbers. In a loop of your own, `print(seen)` shows the whole report, with a cure for each alarm.
#
# ## One broken batch, and one skipped step
#
# The next network classifies digits and has a BatchNorm layer. In step 20 one batch is broken: its
# pixels are 100,000 times too large. The scaler finds NaN in the gradients and skips that step.
# Training goes on for 39 more steps.


# %%
torch.manual_seed(0)
layers = nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10)
model = nn.Sequential(*layers).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler, losses = ScalerLog(GradScaler(device)), []
for step in range(60):
    rows = slice(20 * (step % 50), 20 * (step % 50) + 20)
    images = digits.train_images[rows] * (100_000 if step == 20 else 1)
    optimizer.zero_grad()
    with torch.autocast(device, dtype=torch.float16):
        loss = cross_entropy(model(images), digits.train_labels[rows])
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    losses.append(loss.item())

# %%
print("skipped:", [record.step for record in scaler.records if record.skipped])
print("training loss:", {step: round(losses[step], 2) for step in (0, 19, 20, 21, 40, 59)})

# %% tags=["question"]
predict("myths_and_clinic.after_the_skip")

# %%
model.eval()
with torch.no_grad(), torch.autocast(device, dtype=torch.float16):
    loss = cross_entropy(model(digits.validation_images), digits.validation_labels)
print(f"validation loss: {loss.item():.2f}")
for name, tensor in (("weight", model[0].weight), ("running mean", model[1].running_mean)):
    print(f"{name:12}: {tensor.isfinite().sum().item():5} of {tensor.numel()} numbers are finite")

# %% [markdown]
# In the forward pass of step 20, BatchNorm's running statistics became NaN, and `eval()` uses them.
# So check the buffers of a model too (`model.buffers()`), not only its parameters. And look at
# inputs before they reach the model. Once the statistics are lost, `reset_running_stats()` and 5
# forward passes of 20 pictures in training mode, with `momentum = None` (a plain mean of all
# batches), bring them back: here to a validation loss of 0.48, without any change of the weights.
#
# ## Eight positions in BF16
#
# BF16 has almost FP32's range, so it overflows about as rarely as FP32, and it needs no scaler.
# What it lacks is digits. Many language models turn each position of a text into angles, and
# compute them with a matrix product: position times frequency.

# %% tags=["question"]
predict("myths_and_clinic.many_positions")

# %%
positions, frequencies = torch.arange(65_536.0, 65_544.0), torch.tensor([1.0, 0.1, 0.01])
with torch.autocast("cpu", dtype=torch.bfloat16):
    angles = positions[:, None] @ frequencies[None, :]
    again = positions[:, None].float() @ frequencies[None, :].float()
    with torch.autocast("cpu", enabled=False):
        outside = positions[:, None] @ frequencies[None, :]
for name, values in (("autocast", angles), (".float()", again), ("enabled=False", outside)):
    print(f"{name:13}", [len(column.unique()) for column in values.T], "different angles")

# %% [markdown]
# From 65,536 on, BF16's numbers are 512 apart, so eight positions became one. (Each column is a
# frequency.) `.float()` doesn't help, because autocast casts the operands of the product again. The
# cure is a region with `enabled=False`: the angles stay in FP32
# ([transformers#29285](https://github.com/huggingface/transformers/pull/29285) did this for Llama).
# Their sine and cosine lie between −1 and 1, so those can be rounded to BF16. On a GPU, TF32 must
# be off for this product, since TF32 has 11 significant bits.
#
# ## A deprecation warning
#
# `torch.cuda.amp.GradScaler(1024.)` is deprecated. Somebody reads the warning in a hurry and writes
# `torch.amp.GradScaler(1024.)` instead.

# %% tags=["question"]
predict("myths_and_clinic.ported_scale")

# %%
scaler = GradScaler(1024.0)
print(f"scale: {scaler.get_scale():,.0f}")

# %% [markdown]
# The first parameter of `torch.amp.GradScaler` is the device. So the 1024 was taken for one, and
# the scale kept its default.
#
# ## Messages that you meet on a GPU
#
# The cells of this lesson raise none of these, so they are quoted and not run. Each row links to a
# thread in which somebody met it.
#
# | message | why | cure | name in `lookup` |
# |---|---|---|---|
# | `"_amp_foreach_non_finite_check_and_unscale_cuda" not implemented for 'BFloat16'` ([pytorch#127176](https://github.com/pytorch/pytorch/issues/127176)) | a scaler with BF16 parameters; on a CPU the same program runs | FP32 parameters; no scaler with BF16 autocast | `unscale-bf16-gradients` |
# | `Current CUDA Device does not support bfloat16` ([nanoGPT#277](https://github.com/karpathy/nanoGPT/issues/277)) | BF16 autocast on a T4, V100 or older GPU, in older versions of PyTorch | FP16 with a scaler | `cuda-device-without-bfloat16` |
# | `Your setup doesn't support bf16/gpu` ([alpaca#133](https://github.com/tatsu-lab/stanford_alpaca/issues/133)) | `bf16=True` in Transformers, and it finds no GPU; in older versions also on a T4 or V100 | look at `torch.cuda.is_available()`; on an old GPU `fp16=True`, and FP32 trainable weights | `trainer-no-bf16` |
# | `FlashAttention only supports Ampere GPUs or newer` ([flash-attention#762](https://github.com/Dao-AILab/flash-attention/issues/762)) | the flash-attn package on a T4 or V100 | PyTorch's own `scaled_dot_product_attention` | `flash-attention-needs-ampere` |
#
# ## Faults by what you see
#
# The first four are only in this lesson. [[deep clinic]] triggers and fixes 26 of the others, and
# cites a source for the remaining 4. For the cause, the wrong cures and more links, type the last
# column's name in a terminal, as in `amp-lessons lookup unscale-fp16-gradients`.
#
# | what you see | pitfall | what to do | name in `lookup` |
# |---|---|---|---|
# | The loss explodes on the first step: weights move 65536 times too far | [Run d: a loss that explodes](#Run-d%3A-a-loss-that-explodes) | let only the scaler step: `scaler.step(optimizer)`, then `scaler.update()` | `optimizer-step-beside-scaler` |
# | eval() gives NaN while train() is fine, and the weights are finite | [One broken batch, and one skipped step](#One-broken-batch%2C-and-one-skipped-step) | reset with `reset_running_stats()` and re-estimate on clean batches | `batchnorm-poisoned-statistics` |
# | Long contexts fail in BF16: rotary positions collapse to one value | [Eight positions in BF16](#Eight-positions-in-BF16) | compute the angles in FP32 inside `torch.autocast(device, enabled=False)`, and cast cosine and sine afterwards | `rotary-positions-collapse` |
# | GradScaler(1024.) still starts at a scale of 65536 | [A deprecation warning](#A-deprecation-warning) | pass both by name: `torch.amp.GradScaler(device="cuda", init_scale=1024.0)` | `init-scale-passed-as-device` |
# | `No inf checks were recorded for this optimizer.` | [1. An optimizer without gradients](deep/16_clinic_deep.ipynb#Pitfall-1%3A-An-optimizer-without-gradients) | call `backward` first, on a loss that depends on the optimizer's parameters | `no-inf-checks-for-this-optimizer` |
# | `No inf checks were recorded prior to update.` | [2. An update without a step](deep/16_clinic_deep.ipynb#Pitfall-2%3A-An-update-without-a-step) | call `update()` once per optimizer step, right after `scaler.step(optimizer)` | `no-inf-checks-prior-to-update` |
# | `unscale_() has already been called on this optimizer since the last update().` | [3. unscale_ has already been called](deep/16_clinic_deep.ipynb#Pitfall-3%3A-unscale_-has-already-been-called) | unscale and clip once, after the last micro-batch | `unscale-already-called` |
# | `unscale_() is being called after step().` | [4. unscale_ is being called after step](deep/16_clinic_deep.ipynb#Pitfall-4%3A-unscale_-is-being-called-after-step) | keep this order: `scale(loss).backward()`, `unscale_`, clip, `step`, `update` | `unscale-after-step` |
# | The loss is frozen, or a KL term is exactly 0, and there is no error | [5. The loss is frozen](deep/16_clinic_deep.ipynb#Pitfall-5%3A-The-loss-is-frozen) | open a new region for each forward pass | `stale-autocast-cache` |
# | `Attempting to unscale FP16 gradients.` | [6. FP16 parameters with a scaler](deep/16_clinic_deep.ipynb#Pitfall-6%3A-FP16-parameters-with-a-scaler) | keep trainable parameters in FP32, and let autocast make the 16-bit copies | `unscale-fp16-gradients` |
# | Gradients are missing after a no_grad pass in the same autocast region | [7. Gradients missing after a no_grad pass](deep/16_clinic_deep.ipynb#Pitfall-7%3A-Gradients-missing-after-a-no_grad-pass) | open one region for each pass, or call `torch.clear_autocast_cache()` between them | `gradients-missing-after-no-grad` |
# | `mat1 and mat2 must have the same dtype, but got Half and Float` | [8. Expected the same dtype](deep/16_clinic_deep.ipynb#Pitfall-8%3A-Expected-the-same-dtype) | open the autocast region around this call too, or cast the tensor that crosses the border: `x.to(layer.weight.dtype)` | `mat1-mat2-same-dtype` |
# | `scatter(): Expected self.dtype to be equal to src.dtype` | [9. scatter and index_copy_ refuse](deep/16_clinic_deep.ipynb#Pitfall-9%3A-scatter-and-index_copy_-refuse) | cast the source, `src.to(buffer.dtype)`, or make the buffer from the source: `src.new_zeros(shape)` | `scatter-self-src-dtype` |
# | A dtype mismatch in the backward of your own autograd.Function | [10. A custom Function without its decorators](deep/16_clinic_deep.ipynb#Pitfall-10%3A-A-custom-Function-without-its-decorators) | decorate the methods: `@torch.amp.custom_fwd(device_type="cuda")` on `forward`, `@torch.amp.custom_bwd(device_type="cuda")` on `backward` | `custom-function-backward` |
# | `binary_cross_entropy and BCELoss are unsafe to autocast.` | [11. BCELoss under autocast](deep/16_clinic_deep.ipynb#Pitfall-11%3A-BCELoss-under-autocast) | drop the sigmoid and use `binary_cross_entropy_with_logits` | `bce-unsafe-to-autocast` |
# | `Detected call of lr_scheduler.step() before optimizer.step()` | [12. lr_scheduler.step before optimizer.step](deep/16_clinic_deep.ipynb#Pitfall-12%3A-lr_scheduler.step-before-optimizer.step) | compare `scaler.get_scale()` before and after `update()`, and step the schedule only if it did not fall | `scheduler-before-optimizer` |
# | The loss scale keeps falling, below 1 and down to 0, and each step is skipped | [13. The scale sinks to nothing](deep/16_clinic_deep.ipynb#Pitfall-13%3A-The-scale-sinks-to-nothing) | run the block that overflows in FP32, or the model in BF16 | `scale-keeps-falling` |
# | With clipping the model hardly moves, and gradient norms are in the tens of thousands | [14. Clipped before unscale_](deep/16_clinic_deep.ipynb#Pitfall-14%3A-Clipped-before-unscale_) | call `scaler.unscale_(optimizer)` first, then clip, then `scaler.step(optimizer)` | `clip-before-unscale` |
# | `Closure use is not currently supported if GradScaler is enabled.` | [15. Closures and LBFGS](deep/16_clinic_deep.ipynb#Pitfall-15%3A-Closures-and-LBFGS) | use BF16 or FP32 with optimizers that need a closure | `closure-with-scaler` |
# | Gradients are too large with gradient accumulation | [16. Accumulation without division](deep/16_clinic_deep.ipynb#Pitfall-16%3A-Accumulation-without-division) | divide each loss by the number of micro-batches: `scaler.scale(loss / parts).backward()` | `accumulation-without-division` |
# | Two optimizers, as in a GAN: wrong gradients after the other one overflowed | [17. Two optimizers and two updates](deep/16_clinic_deep.ipynb#Pitfall-17%3A-Two-optimizers-and-two-updates) | use one scaler for both, and call `update()` once, after both steps | `two-optimizers-two-updates` |
# | Adam with FP16 weights gives NaN or inf after one step | [18. Adam in pure FP16 divides by zero](deep/16_clinic_deep.ipynb#Pitfall-18%3A-Adam-in-pure-FP16-divides-by-zero) | keep parameters and optimizer state in FP32, and let autocast make the FP16 copies | `adam-eps-zero-in-fp16` |
# | The log of a probability is -inf or NaN: an entropy, a KL divergence or a loss | [19. log of p plus 1e-8](deep/16_clinic_deep.ipynb#Pitfall-19%3A-log-of-p-plus-1e-8) | use `log_softmax`, `logsigmoid` or a loss with logits | `log-of-a-probability` |
# | `value cannot be converted to type at::Half without overflow` | [20. A mask of minus 1e9](deep/16_clinic_deep.ipynb#Pitfall-20%3A-A-mask-of-minus-1e9) | use the limit of the tensor's own dtype: `scores.masked_fill(mask, torch.finfo(scores.dtype).min)` | `value-cannot-be-converted-to-half` |
# | BatchNorm in FP16 gives zeros, and its running variance is inf | [21. BatchNorm in half precision](deep/16_clinic_deep.ipynb#Pitfall-21%3A-BatchNorm-in-half-precision) | keep the BatchNorm and its buffers in FP32: leave the model in FP32, and let autocast cast | `batchnorm-in-fp16` |
# | rms_norm returns FP32 where it returned FP16, or the reverse | [22. RMSNorm has another dtype than before](deep/16_clinic_deep.ipynb#Pitfall-22%3A-RMSNorm-has-another-dtype-than-before) | ask `amp-lessons policy rms_norm`, and assert the dtype that you rely on | `rms-norm-dtype-changed` |
# | AMP gives no speed-up, or training is slower than in FP32 | [23. No speed-up](deep/16_clinic_deep.ipynb#Pitfall-23%3A-No-speed-up) | profile one step to see what it waits for | `no-speed-up` |
# | AMP saves no memory, or needs more than FP32 | [24. Memory unchanged](deep/16_clinic_deep.ipynb#Pitfall-24%3A-Memory-unchanged) | train with larger batches, or save memory with another technique than autocast | `more-memory-under-autocast` |
# | Autocast on a CPU is slower than FP32 | [25. Autocast on a CPU is slow](deep/16_clinic_deep.ipynb#Pitfall-25%3A-Autocast-on-a-CPU-is-slow) | use BF16 where the CPU has instructions for it, else FP32 | `cpu-autocast-slow` |
# | Your own activation checkpointing recomputes in FP32 | [26. Recomputed in another dtype](deep/16_clinic_deep.ipynb#Pitfall-26%3A-Recomputed-in-another-dtype) | use `torch.utils.checkpoint`, which restores the region | `recomputed-outside-autocast` |
# | Compiled gradients differ from eager ones: inf where eager gives 65536 | [27. A compiled backward ignores an inner region](deep/16_clinic_deep.ipynb#Pitfall-27%3A-A-compiled-backward-ignores-an-inner-region) | set `torch._functorch.config.backward_pass_autocast = "off"` before you compile | `compiled-gradients-differ` |
# | `Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64.` | [28. The scaler on MPS needs float64](deep/16_clinic_deep.ipynb#Pitfall-28%3A-The-scaler-on-MPS-needs-float64) | install PyTorch 2.8 or later, and convert NumPy data to float32 | `mps-float64` |
# | `Got unsupported ScalarType BFloat16` | [29. NumPy has no bfloat16](deep/16_clinic_deep.ipynb#Pitfall-29%3A-NumPy-has-no-bfloat16) | convert first: `x.float().numpy()`, or `x.detach().float().cpu().numpy()` for a prediction on a GPU | `numpy-bfloat16` |
# | Validation is fine, but the exported or served model gives inf or NaN | [30. Trained in one precision, evaluated in another](deep/16_clinic_deep.ipynb#Pitfall-30%3A-Trained-in-one-precision%2C-evaluated-in-another) | validate in the precision that you serve in, on the same kind of inputs | `evaluated-in-another-precision` |
#
# ## Recap
#
# 1. Look up a message before you follow the first answer. Ask of each cure whether it changes the
#    message or the numbers.
# 2. Without a message, look at the loss, the skipped steps and the scale. Together they point to a
#    part of the loop.
# 3. If the loss is the same in every step, to the last bit, although the weights move, the forward
#    pass doesn't use the weights that you update.
# 4. The scaler protects parameters and the optimizer's state. It doesn't protect buffers, such as
#    BatchNorm's statistics.
# 5. Before you change anything, find a number that shows the fault, and look at it again after the
#    change.
#
# ## Three questions

# %% tags=["question"]
ask(
    "myths_and_clinic.no_inf_checks",
    "myths_and_clinic.scale_is_a_sixteenth",
    "myths_and_clinic.update_after_each_optimizer",
)

# %% [markdown]
# **Next:** [[exercises clinic|the cases]], the last exercises of the course. Each is a broken
# program; fix it so that it ends with the right loss, scale and dtypes. Then [[lesson
# interview_room]]. Optional: [[deep clinic]], to look things up.
