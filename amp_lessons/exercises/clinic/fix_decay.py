# %% statement points=3 minutes=15
# # Case 5: weight decay that does nothing
#
# This program does weight decay by hand: it adds `decay` times the weight to each gradient, as
# plain SGD does with its own `weight_decay`. It worked in FP32. In FP16 the weights don't shrink.

# %% demo
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

# %% text
# Fix it. Call your version `fix_decay` and keep the arguments. All parameters decay, biases too. If
# the scaler skips a step, the weights don't decay in that step either.

# %% answer
def fix_decay(model, optimizer, scaler, loss_fn, batches, decay):
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

# %% hints
# - How large is a gradient here, before `step()`, compared with `decay * weight`?
# - `step()` divides the gradients by the scale. What happens to a term that you add before?
# - Which call of the scaler divides the gradients earlier, so that you can change them?

# %% probe
from amp_lessons.exercises.clinic.harness import plain_loop
from amp_lessons.exercises.clinic.harness_cases import decay_cases

probe = Probe(decay_cases, plain_loop)

# %% judge
judge = Judge(same=within(1e-2))

# %% passed
# Call `unscale_` first. Then clipping, decay, noise and logs all see the true gradients.

# %% right in_the_loss
def fix_decay(model, optimizer, scaler, loss_fn, batches, decay):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss + 0.5 * decay * sum((p**2).sum() for p in model.parameters())).backward()
        scaler.step(optimizer)
        scaler.update()

# %% right times_the_scale
def fix_decay(model, optimizer, scaler, loss_fn, batches, decay):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        for parameter in model.parameters():
            parameter.grad += decay * scaler.get_scale() * parameter.detach()
        scaler.step(optimizer)
        scaler.update()

# %% right after_the_step
def fix_decay(model, optimizer, scaler, loss_fn, batches, decay):
    rate = optimizer.param_groups[0]["lr"]
    for x, y in batches:
        optimizer.zero_grad()
        before = [p.detach().clone() for p in model.parameters()]
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scale = scaler.get_scale()
        scaler.update()
        if scaler.get_scale() >= scale:
            with torch.no_grad():
                for p, old in zip(model.parameters(), before, strict=True):
                    p -= rate * decay * old

# %% wrong decay-before-unscale
# You add the decay to gradients that still carry the scale. `step()` then divides the sum, so the
# decay is too small. Call `scaler.unscale_(optimizer)` before you change gradients.
drop("scaler.unscale_")
move("scaler.unscale_", before="scaler.step")

# %% wrong decay-without-effect
# The decay doesn't reach the step. After `step()` it comes too late, because `zero_grad()` clears
# it. And `grad.add(...)` without the underscore changes no gradient.
swap("grad.add_(", "grad.add(")
move("with torch.no_grad()", after="scaler.step")

# %% wrong divided-twice
# You divide the gradients by the scale yourself, and `step()` divides them once more. Call
# `scaler.unscale_(optimizer)` instead: `step()` knows of that.
swap("scaler.unscale_(optimizer)", "for p in model.parameters(): p.grad /= scaler.get_scale()")
(swap("grad.add_(parameter, alpha=decay)",
    "grad.div_(scaler.get_scale()).add_(decay * parameter)") & (drop("scaler.unscale_")))

# %% wrong decay-in-skipped-steps
# Your weights shrink even if the scaler skips the step. A skipped step has to leave them as they
# were. Add the decay to the unscaled gradients: then the scaler decides about both.
swap("grad.add_(parameter, alpha=decay)", 'mul_(1 - decay * optimizer.param_groups[0]["lr"])')
of("after_the_step", unwrap("if scaler.get_scale()"))
(swap("grad.add_(parameter, alpha=decay)", 'mul_(1 - decay * optimizer.param_groups[0]["lr"])') &
    move("with torch.no_grad()", after="scaler.step"))

# %% wrong biases-left-out
# Only the weight matrices decay. That is common, but this program decays the biases too.
swap("for parameter in model.parameters():", "for parameter in (model[0].weight, model[2].weight):")
wrap("if parameter.ndim > 1:", "parameter.grad.add_")

# %% wrong wrong-sign
# Your decay has the wrong sign: the weights grow. Add `decay` times the weight to the gradient.
swap("alpha=decay", "alpha=-decay")
of("times_the_scale", swap("parameter.grad +=", "parameter.grad -="))

# %% wrong decay-doubled
# Your decay is twice too strong. In the loss, the squared weight needs a factor of 0.5.
of("in_the_loss", swap("0.5 * ", ""))
swap("alpha=decay", "alpha=2 * decay")

# %% wrong rate-left-out
# You don't multiply the decay by the learning rate, as SGD does.
of("after_the_step", swap("rate * decay", "decay"))
swap("alpha=decay", 'alpha=decay / optimizer.param_groups[0]["lr"]')

# %% wrong scaled-after-unscale
# You multiply the decay by the scale, but `unscale_()` has divided the gradients already, so the
# decay is far too large. After `unscale_()`, add `decay` times the weight.
swap("alpha=decay", "alpha=decay * scaler.get_scale()")
of("times_the_scale", put("scaler.unscale_(optimizer)", before="for parameter in"))

# %% wrong scale-read-once
# You multiply the decay by a scale that you read only once. The scaler changes its scale during the
# run. Read it in each batch, or call `scaler.unscale_(optimizer)` and add `decay` times the weight.
of("times_the_scale", swap("scaler.get_scale()", "scale") & put("scale = scaler.get_scale()",
    before="for x, y"))
of("times_the_scale", swap("decay * scaler.get_scale()", "decay") &
    put("decay = decay * scaler.get_scale()", before="for x, y"))

# %% wrong step-past-the-scaler
swap("scaler.step(optimizer)", "optimizer.step()")
swap("scaler.step(optimizer)\nscaler.update()", "scaler.update()\noptimizer.step()")
