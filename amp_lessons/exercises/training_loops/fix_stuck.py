# %% statement points=1 minutes=5
# # Broken loop 1: it stops learning
#
# An overflow can happen in any FP16 run and should cost one step. Here it costs all that follow.

# %% demo
def stuck(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        print(f"scale {scaler.get_scale():g}")


stuck(*fresh(), cross_entropy, some_batches(6, overflow=1))

# %% text
# Fix it. Call your version `fix_stuck` and keep the arguments. It doesn't need to print.

# %% answer
def fix_stuck(model, optimizer, scaler, loss_fn, batches):
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

# %% hints
# - Print a gradient after each update. When does it become finite again?
# - `backward()` adds to `.grad`. inf plus anything stays inf.
# - One call of `optimizer.zero_grad()` for each batch is enough. Where may it stand?

# %% probe
from amp_lessons.exercises.training_loops.harness import loop_cases, never_in_float16, plain_loop

probe = Probe(partial(loop_cases, init_scale=2.0), play=plain_loop)

# %% judge
judge = Judge(same=within(1e-3))

# %% passed
# A skipped step leaves its inf in `.grad`. Only `zero_grad()` takes it out.

# %% right after_the_step
def fix_stuck(model, optimizer, scaler, loss_fn, batches):
    for images, labels in batches:
        with torch.autocast(device_type="cpu", dtype=torch.half):
            scaled = scaler.scale(loss_fn(model(images), labels))
        scaled.backward()
        scaler.step(optimizer)
        scaler.update()
        model.zero_grad(set_to_none=False)

# %% rule another-precision
breaks = never_in_float16

# %% wrong never-zeroed
# Old gradients are still there when new ones are added. After one overflow they hold inf or NaN
# forever: every step is skipped. Before it you hardly notice, as new ones are larger by the scale.
of("after_the_step", drop("model.zero_grad"))

# %% wrong zeroed-before-step
of("after_the_step", move("model.zero_grad", before="scaler.step"))

# %% wrong zeroed-after-skips-only
# You remove the gradients only after a skipped step. So between two overflows old gradients are
# added to new ones. With a large scale they hardly count, with a small one they do.
(move("optimizer.zero_grad()", after="scaler.update") & wrap("if scaler.get_scale() < before:",
    "optimizer.zero_grad()") & put("before = scaler.get_scale()", before="scaler.update"))
wrap("if any(p.grad is not None and not p.grad.isfinite().all() for p in model.parameters()):",
    "optimizer.zero_grad()")

# %% wrong infinities-replaced
# You replace inf and NaN in the gradients. So the scaler steps with numbers that you made up, and
# never lowers its scale. Remove all gradients of the last batch instead, with `zero_grad()`.
(drop("optimizer.zero_grad()") & put("for p in model.parameters(): p.grad.nan_to_num_(0, 0, 0)",
    after="scaler.scale"))
(of("after_the_step", drop("model.zero_grad")) & put("for p in model.parameters(): "
    "p.grad = torch.where(p.grad.isfinite(), p.grad, 0.0)", after="scaled.backward"))
(drop("optimizer.zero_grad()") & put("for p in model.parameters(): p.grad.nan_to_num_()",
    after="scaler.scale"))

# %% wrong infinities-removed-alone
# You take inf and NaN out of the gradients and leave the rest there. So old gradients are added to
# new ones. Call `optimizer.zero_grad()` once for each batch.
(drop("optimizer.zero_grad()") & put("for p in model.parameters(): p.grad.nan_to_num_(0, 0, 0)",
    after="scaler.update"))
of("after_the_step", swap("model.zero_grad(set_to_none=False)",
    "for p in model.parameters(): p.grad[~p.grad.isfinite()] = 0.0"))

# %% wrong scale-set-back
# You set the scale back, or you make a scaler of your own. The scale falls because every step is
# skipped, and that is because inf stays in `.grad`. Remove the old gradients, and leave the scale
# to the given scaler's `update()`.
(swap("scaler.update()", "scaler.update(before)") & drop("optimizer.zero_grad") &
    put("before = scaler.get_scale()", before="for x, y"))
(of("after_the_step", drop("model.zero_grad")) & put("start = scaler.get_scale()", before="for im")
    & put("if scaler.get_scale() < start: scaler.update(start)", after="scaler.update"))
drop("optimizer.zero_grad") & swap("scaler.update()", "scaler.update(2.0**16)")
(of("after_the_step", swap("scaler.update()", "scaler.update(start)")) &
    put("start = scaler.get_scale()", before="for im"))
drop("optimizer.zero_grad()") & put('scaler = torch.amp.GradScaler("cpu")', before="for x, y")
drop("optimizer.zero_grad()") & put('scaler = torch.amp.GradScaler("cpu")', before="with torch")
(of("after_the_step", drop("model.zero_grad")) & put("if scaler.get_scale() < 2.0**16: "
    "scaler = torch.amp.GradScaler('cpu', init_scale=2.0**16)", before="with torch"))
put('scaler = torch.amp.GradScaler("cpu")', before="for x, y")
