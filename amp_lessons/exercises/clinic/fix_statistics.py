# %% statement points=3 minutes=20
# # Case 16: a validation loss of NaN
#
# The training loss looks fine, and all weights are finite. In `eval()` mode the model gives NaN.

# %% demo
def with_norm(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
batches = some_batches(6)
batches[2][0][0, 0] = 3e5  # FP16 ends at 65504
with_norm(model, torch.optim.SGD(model.parameters(), lr=0.1), scaler(), cross_entropy, batches)
x, y = some_batches(1)[0]
print("weights finite:", all(p.isfinite().all().item() for p in model.parameters()))
print(f"train mode: {cross_entropy(model(x), y).item():.4f}")
print("eval mode: ", cross_entropy(model.eval()(x), y).item())

# %% text
# Fix it. Call your version `fix_statistics` and keep the arguments. The model is the one above, and
# it comes in train mode, with statistics from earlier training.
#
# A batch whose forward pass overflows leaves the running statistics of the BatchNorm as they were.
# Every other batch moves them as usual, even if its gradients overflow. The scaler still sees each
# batch: it skips a step that overflows and lowers its scale. All matrix products run in FP16.

# %% answer
def fix_statistics(model, optimizer, scaler, loss_fn, batches):
    """Train on each batch once, in FP16 with the scaler; keep the running statistics finite."""
    ### BEGIN SOLUTION
    for x, y in batches:
        before = [buffer.clone() for buffer in model.buffers()]
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if not loss.isfinite():
            for buffer, old in zip(model.buffers(), before, strict=True):
                buffer.copy_(old)
    ### END SOLUTION

# %% text
# That was the last exercise of the course. Now try a model of your own. `amp-lessons explain` shows
# what autocast does to it, and `amp-lessons bench` shows what you gain.

# %% hints
# - `eval()` uses numbers that train mode doesn't use. Print `dict(model.named_buffers())`.
# - When are they updated, and can a skipped step take that back?
# - Keep a copy before the forward pass. Put it back after `backward()`, which needs the buffers.

# %% probe
from amp_lessons.exercises.clinic.harness_loops import play_statistics, statistics_cases

probe = Probe(statistics_cases, play_statistics)

# %% judge
judge = Judge(same=within(2e-3), pairs=False)
CALLS = "calls of loss_fn with a finite loss"

# %% passed
# A skipped step protects the weights only. The forward pass has already updated the buffers.

# %% right whole_state_kept
def fix_statistics(model, optimizer, scaler, loss_fn, batches):
    from copy import deepcopy

    for x, y in batches:
        kept = deepcopy(model.state_dict())
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x).float(), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if not all(buffer.isfinite().all() for buffer in model.buffers()):
            model.load_state_dict(kept)

# %% right looked_at_first
def fix_statistics(model, optimizer, scaler, loss_fn, batches):
    norm = model[1]
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            hidden = model[0](x)
            norm.momentum = 0.1 if hidden.isfinite().all() else 0.0
            mean, var = norm.running_mean.clone(), norm.running_var.clone()
            loss = loss_fn(model[1:](hidden), y)
        scaler.scale(loss).backward()
        if not norm.running_mean.isfinite().all() or not norm.running_var.isfinite().all():
            norm.running_mean, norm.running_var = mean, var
        norm.momentum = 0.1
        scaler.step(optimizer)
        scaler.update()

# %% rule another-precision
# The first layer or the head runs in FP32, so nothing overflows there. Keep the whole forward pass
# in a region with `dtype=torch.float16`.
def breaks(seen, right):
    return "float32" in (noted(seen, "dtype from the layers") or "")
swap("loss = loss_fn(model(x), y)", "loss = loss_fn(model[1:](hidden), y)") & put(
    "hidden = model[0](x)", before="with torch.autocast")

# %% rule input-cut-off
# You cut large numbers off or replace inf, so the batch no longer overflows. The scaler makes a
# step with numbers that nobody measured, and they move the statistics. Let the batch overflow.
def breaks(seen, right):
    layers = "dtype from the layers"
    in_fp16 = noted(seen, layers) == noted(right, layers)
    return in_fp16 and noted(seen, CALLS) == noted(right, "batches") > noted(right, CALLS)
put("x = x.clamp(-65504, 65504)", before="with torch.autocast")
of("looked_at_first", swap("hidden = model[0](x)", "hidden = model[0](x).nan_to_num()"))
put("x = x.half().nan_to_num().float()", before="with torch.autocast")

# %% wrong statistics-poisoned
# NaN is still in the running statistics. Nothing puts the old ones back, or your copy holds NaN
# too. Make it before the forward pass, and clone: `state_dict()` and `buffers()` give the tensors
# themselves. FP32 for the BatchNorm alone doesn't help, as the layer before it overflows. Nor does
# a momentum of 0, as 0 times NaN is NaN.
put("model[1].momentum = 0.0 if x.abs().max() > 65504 else 0.1", before="with torch.autocast") & (
    drop("if not loss.isfinite()"))
drop("if not loss.isfinite()")
swap("buffer.clone()", "buffer")
of("whole_state_kept", swap("deepcopy(model.state_dict())", "model.state_dict()"))
of("whole_state_kept", swap("deepcopy(model.state_dict())", "dict(model.state_dict())"))
move("before =", before="scaler.scale(")
swap("loss = loss_fn(model(x), y)", "hidden = model[0](x)\n"
    "            with torch.autocast('cpu', enabled=False):\n"
    "                hidden = model[1](hidden.float())\n"
    "            loss = loss_fn(model[2:](hidden), y)") & drop("if not loss.isfinite()")

# %% wrong nan-replaced
# You replace NaN in the statistics, or start them again. What the good batches had told them is
# lost. Put back the values from before the batch.
swap("buffer.copy_(old)", "buffer.nan_to_num_(0.0, 0.0, 0.0)")
swap("for buffer, old in zip(model.buffers(), before, strict=True):\n    buffer.copy_(old)",
    "model[1].reset_running_stats()")
of("looked_at_first", swap("= mean, var", "= torch.zeros(8), torch.ones(8)"))
(drop("if not loss.isfinite()") & put("for buffer in model.buffers(): buffer.nan_to_num_()",
    after="scaler.update()"))
(drop("if not loss.isfinite()") & put("if not model[1].running_mean.isfinite().all():\n"
    "    model[1].reset_running_stats()", after="for x, y"))

# %% wrong put-back-at-every-skip
# You put the statistics back whenever the scaler skips a step. It also skips one whose gradients
# alone overflow. That forward pass was fine, and its batch should count. Look at the loss instead.
(swap("if not loss.isfinite():", "if scaler.get_scale() < scale:") &
    put("scale = scaler.get_scale()", before="optimizer.zero_grad"))
of("whole_state_kept", swap("all(buffer.isfinite().all() for buffer in model.buffers())",
    "all(p.grad.isfinite().all() for p in model.parameters())"))
swap("not loss.isfinite()", "any(p.grad.isnan().any() or p.grad.isinf().any() "
    "for p in model.parameters())")

# %% wrong variance-forgotten
# You put back one of the two running statistics. An overflow spoils the mean and the variance, so
# put back both.
swap("buffer.copy_(old)", "if old is before[0]: buffer.copy_(old)")
of("looked_at_first", swap("norm.running_mean, norm.running_var = mean, var",
    "norm.running_mean = mean"))
of("looked_at_first", swap("norm.running_mean, norm.running_var = mean, var",
    "norm.running_var = var"))
of("whole_state_kept", swap("not all(buffer.isfinite().all() for buffer in model.buffers())",
    "loss != loss") & swap("load_state_dict(kept)", "get_buffer('1.running_mean').copy_(kept["
    "'1.running_mean'])"))
of("whole_state_kept", swap("load_state_dict(kept)", "get_buffer('1.running_mean').copy_(kept["
    "'1.running_mean'])"))

# %% wrong spoiled-features-only
# You put back only the elements that are not finite. So the batch moves the statistics of the other
# features, although its forward pass overflowed. Put back all of them.
swap("buffer.copy_(old)", "buffer.copy_(torch.where(buffer.isfinite(), buffer, old))")
of("looked_at_first", swap("norm.running_mean, norm.running_var = mean, var",
    "bad = ~norm.running_var.isfinite()\n"
    "            norm.running_mean[bad], norm.running_var[bad] = mean[bad], var[bad]") &
    swap("0.1 if hidden.isfinite().all() else 0.0", "0.1"))

# %% wrong input-looked-at
# You decide by the size of the input. A product can overflow although the input fits into FP16:
# the weights count too. Look at the loss, the layer's output or the statistics.
swap("not loss.isfinite()", "x.abs().max() > 65504")
of("whole_state_kept", swap("not all(buffer.isfinite().all() for buffer in model.buffers())",
    "not x.half().isfinite().all()"))

# %% wrong copy-too-old
# You put back statistics from the beginning of the run, so the batches since then are lost. Make
# a new copy before each forward pass.
move("before =", before="for x, y")
of("whole_state_kept", put("first = {k: v.clone() for k, v in model.named_buffers()}",
    before="for x, y") & swap("model.load_state_dict(kept)",
    "model.load_state_dict(first, strict=False)"))

# %% wrong statistics-frozen
# The statistics never move: you put the old ones back after good batches too, you set the momentum
# to 0, or you switched off their tracking. Then `eval()` uses statistics that don't fit the new
# weights. Put them back only after a bad batch.
put("model[1].track_running_stats = False", before="for x, y")
swap("if not loss.isfinite():", "if True:")
put("model[1].momentum = 0.0", before="for x, y")
of("looked_at_first", swap("0.1 if hidden.isfinite().all() else 0.0", "0.0"))

# %% wrong trained-in-eval-mode
# You train in `eval()` mode, so the BatchNorm uses its running statistics and never updates them.
# Stay in train mode.
put("model.eval()", before="for x, y") & drop("if not loss.isfinite()")
put("model[1].eval()", before="for x, y")
of("whole_state_kept", put("model.train(False)", before="for x, y"))

# %% wrong put-back-before-backward
# You write into the statistics before `backward()`. The BatchNorm saved them for its backward pass,
# and autograd refuses tensors that were changed since, so `backward()` raises the error. Wait until
# after `backward()`, then put the old values back.
move("if not loss.isfinite()", before="scaler.scale(")
of("whole_state_kept", move("if not all(", before="scaler.scale("))
put("for buffer in model.buffers(): buffer.nan_to_num_()", before="scaler.scale(")
put("if not loss.isfinite():\n    for buffer in model.buffers(): buffer.nan_to_num_(0.0)",
    before="scaler.scale(")
put("if loss.isnan(): model[1].reset_running_stats()", before="scaler.scale(")

# %% wrong batch-left-out
put("if not loss.isfinite():\n    for buffer, old in zip(model.buffers(), before):\n"
    "        buffer.copy_(old)\n    continue", before="scaler.scale(")
of("looked_at_first", swap("norm.momentum = 0.1 if hidden.isfinite().all() else 0.0",
    "if not hidden.isfinite().all(): continue"))

# %% wrong left-out-too-late
# You leave the batch out after its forward pass. By then NaN is in the statistics. Put the old ones
# back, and let the scaler see the batch, so that it lowers its scale.
swap("if not loss.isfinite():\n    for buffer, old in zip(model.buffers(), before, strict=True):\n"
    "        buffer.copy_(old)", "pass") & put("if not loss.isfinite(): continue",
    before="scaler.scale(")
of("whole_state_kept", drop("if not all(") &
    wrap("if loss.isfinite():", "scaler.scale(", to="scaler.update()"))

# %% wrong statistics-moved-twice
# You run a forward pass in train mode to see whether the batch overflows. So each good batch moves
# the statistics twice. Put them back after that pass too, or run it in `eval()` mode.
put("with torch.no_grad(), torch.autocast('cpu', dtype=torch.float16): model(x)",
    after="before =")
of("whole_state_kept", put("with torch.autocast('cpu', torch.half): model(x).isfinite().all()",
    before="optimizer.zero_grad"))

# %% wrong estimated-again
# You estimate the statistics again after the training. That helps a model that you already have,
# and costs another pass over the data. Here each good batch moves them once, during the training.
(drop("if not loss.isfinite()") & put("model[1].reset_running_stats()\n"
    "with torch.no_grad(), torch.autocast('cpu', dtype=torch.float16):\n"
    "    for x, y in batches:\n        if x.abs().max() < 2e4: model(x)", after="for x, y"))
(drop("if not loss.isfinite()") & put("torch.optim.swa_utils.update_bn("
    "[b for b in batches if b[0].abs().max() < 2e4], model)", after="for x, y"))
of("whole_state_kept", drop("if not all(") & put("model[1].reset_running_stats()\n"
    "for x, y in batches:\n    if model[0](x).abs().max() < 65504:\n"
    "        with torch.no_grad(), torch.autocast('cpu', torch.half): model(x)", after="for x, y"))
