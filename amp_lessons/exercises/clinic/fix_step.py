# %% statement points=2 minutes=10
# # Case 12: a loop that worked with Adam
#
# For months this loop trained with Adam. Somebody tries SGD, and the weights explode in one step.

# %% demo
def stepped(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        optimizer.step()


for kind in (torch.optim.Adam, torch.optim.SGD):
    model = network()
    optimizer = kind(model.parameters(), lr=0.02)
    stepped(model, optimizer, scaler(2.0**12), cross_entropy, some_batches(1))
    largest = max(p.abs().max().item() for p in model.parameters())
    print(kind.__name__, "largest weight after one step:", largest)

# %% text
# Fix it. Call your version `fix_step` and keep the arguments. It has to work with SGD and with
# Adam. In some of the check's runs the loss has a weight of $2^{-24}$, so its gradients need the
# scale.


# %% answer
def fix_step(model, optimizer, scaler, loss_fn, batches):
    """Train on each batch once, in FP16 with the scaler, with any optimizer."""
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
# - By how much are the gradients too large when `optimizer.step()` reads them?
# - Adam divides by the size of the gradients. What does that do to a factor that all of them share?
# - Which call divides the gradients, looks for inf, and then calls `optimizer.step()` for you?

# %% probe
from amp_lessons.exercises.clinic.harness_loops import play_step, step_cases

probe = Probe(step_cases, play_step)

# %% judge
judge = Judge(same=within(5e-3))

# %% passed
# With a scaler, only `scaler.step` steps. Adam can hide a forgotten division until a batch
# overflows.


# %% right unscaled_first
def fix_step(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x).float(), y)
        optimizer.zero_grad(set_to_none=False)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()


# %% right looked_at_by_hand
def fix_step(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        model.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            scaled = scaler.scale(loss_fn(model(x), y))
        scaled.backward()
        scaler.unscale_(optimizer)
        if all(p.grad.isfinite().all() for p in model.parameters()):
            optimizer.step()
        scaler.update()


# %% wrong not-unscaled
# You scale the loss and call `optimizer.step()` yourself. Nothing divides the gradients by the
# scale or skips a step that overflows. Call `scaler.step(optimizer)` and `scaler.update()`.
swap("scaler.step(optimizer)\nscaler.update()", "optimizer.step()")
of(
    "looked_at_by_hand",
    drop("scaler.unscale_") & drop("if all(") & swap("scaler.update()", "optimizer.step()"),
)
swap(
    "scaler.step(optimizer)\nscaler.update()",
    "if all(p.grad.isfinite().all() for p in model.parameters()): optimizer.step()",
)

# %% wrong stepped-twice
# You make two steps for each batch: `scaler.step(optimizer)` already calls `optimizer.step()`.
# Leave your own call out.
put("optimizer.step()", after="scaler.step")
of(
    "unscaled_first",
    swap("scaler.step(optimizer)", "optimizer.step() if scaler.step(optimizer) is None else None"),
)

# %% wrong stepped-before-the-scaler
# `optimizer.step()` comes before `scaler.step(optimizer)`, so you make a step with gradients that
# nobody has divided by the scale, and then another one. Leave your own call out.
put("optimizer.step()", before="scaler.step")
of("unscaled_first", put("optimizer.step()", before="scaler.unscale_"))

# %% wrong divided-by-hand
# You divide by the scale yourself. But nobody looks for inf, so a batch that overflows puts NaN
# into the weights, and the scale never moves. `scaler.step` and `scaler.update` do all of this.
swap(
    "scaler.step(optimizer)\nscaler.update()",
    "for p in model.parameters(): p.grad /= scaler.get_scale()\noptimizer.step()",
)
swap(
    "scaler.step(optimizer)\nscaler.update()",
    "scaler.unscale_(optimizer)\noptimizer.step()\nscaler._per_optimizer_states.clear()",
)

# %% wrong bad-steps-skipped-by-hand
# You divide by the scale and skip a step with an inf, as the scaler does. But the scale stays: it
# doesn't fall after an overflow, and it doesn't grow. Let `scaler.update()` move it.
swap(
    "scaler.step(optimizer)\nscaler.update()",
    "for p in model.parameters(): p.grad /= scaler.get_scale()\n"
    "if all(p.grad.isfinite().all() for p in model.parameters()): optimizer.step()",
)
of("looked_at_by_hand", swap("scaler.update()", "scaler.update(scaler.get_scale())"))

# %% wrong rate-divided
# You divide the learning rate by the scale. For plain SGD that helps while no batch overflows. Adam
# already cancels the scale, so its steps are too small now. Divide the gradients: `scaler.step`.
put("for group in optimizer.param_groups: group['lr'] /= scaler.get_scale()", before="for x, y") & (
    swap("scaler.step(optimizer)\nscaler.update()", "optimizer.step()")
)
of(
    "unscaled_first",
    put("optimizer.param_groups[0]['lr'] *= 1 / scaler.get_scale()", before="for x, y")
    & swap(
        "scaler.unscale_(optimizer)\nscaler.step(optimizer)\nscaler.update()", "optimizer.step()"
    ),
)

# %% wrong clipped-to-tame-it
# You clip gradients that still carry the scale. That hides the explosion: almost every gradient is
# above your limit, so the limit decides how far a step goes. Call `scaler.step(optimizer)`.
swap(
    "scaler.step(optimizer)\nscaler.update()",
    "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\noptimizer.step()",
)
of(
    "unscaled_first",
    swap(
        "scaler.unscale_(optimizer)\nscaler.step(optimizer)\nscaler.update()",
        "norm = torch.cat([p.grad.flatten() for p in model.parameters()]).norm()\n"
        "for p in model.parameters(): p.grad *= min(1.0, 1 / (norm.item() + 1e-6))\n"
        "optimizer.step()",
    ),
)

swap(
    "scaler.step(optimizer)\nscaler.update()",
    "torch.nn.utils.clip_grad_value_(model.parameters(), 1.0)\noptimizer.step()",
)

# %% wrong gradients-replaced
# You replace NaN and inf in the gradients and make a step all the same. A batch that overflows has
# no gradients worth using. Let `scaler.step(optimizer)` skip it.
of(
    "looked_at_by_hand",
    swap(
        "if all(p.grad.isfinite().all() for p in model.parameters()):\n    optimizer.step()",
        "for p in model.parameters(): p.grad.nan_to_num_(0.0, 0.0, 0.0)\noptimizer.step()",
    ),
)
put("for p in model.parameters(): p.grad[~p.grad.isfinite()] = 0.0", before="scaler.step")
put("for p in model.parameters(): p.grad.nan_to_num_(0.0, 0.0, 0.0)", before="scaler.step")

# %% wrong scaler-bypassed
# Your gradients aren't scaled: `backward()` starts from the plain loss, from one that you divide
# again, or from one scaled by 1. So small gradients become zero in FP16. Use the scaler that you
# get: call `scaler.scale(loss).backward()`, and let `scaler.step` divide.
swap(
    "scaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()",
    "(scaler.scale(loss) / scaler.get_scale()).backward()\noptimizer.step()",
)
of(
    "unscaled_first",
    swap(
        "scaler.scale(loss).backward()\nscaler.unscale_(optimizer)\n"
        "scaler.step(optimizer)\nscaler.update()",
        "loss = scaler.scale(loss)\nloss.div(scaler.get_scale()).backward()\noptimizer.step()",
    ),
)

# %% wrong update-without-step
# `scaler.update()` needs to know whether the gradients hold an inf, and `scaler.step` finds that
# out. Did you leave it out, put it after the update, or keep `optimizer.step()` in its place?
move("scaler.update()", before="scaler.step")
of("looked_at_by_hand", move("scaler.update()", before="scaler.unscale_"))
