# %% statement points=2 minutes=10
# # Where the region ends
#
# Write `autocast_step(model, loss_fn, optimizer, x, y)`: one training step in bfloat16 autocast.
# Each part of the step belongs either inside or outside the region.
#
# - `model` takes `x`, of shape (batch, inputs). `loss_fn(prediction, y)` gives a scalar.
# - The parameters may still hold gradients of an earlier step. They must not count.
# - Return the loss as it was before the step, as a number or a tensor.
# - You need no scaler: bfloat16 has almost the range of float32.

# %% answer
def autocast_step(model, loss_fn, optimizer, x, y):
    """Take one training step in bfloat16 autocast; return the loss before the step."""
    ### BEGIN SOLUTION
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()
    ### END SOLUTION

# %% hints
# - Of `zero_grad`, forward pass, loss, `backward` and `step`: which choose dtypes for the others?
# - The backward pass follows the dtypes of the forward pass, and the step works on float32.
# - The region holds two calls: the model's and the loss function's.

# %% probe
from amp_lessons.exercises.autocast_regions import harness

probe = Probe(harness.step_cases, play=harness.some_steps)

# %% judge
judge = Judge(same=within(1e-3), asked_for="the loss", tell=harness.telling(within(1e-3)))

# %% passed
# The region holds the forward pass and the loss. Backward and the step stay outside.

# %% right decorated_forward_in_a_closure
def autocast_step(model, loss_fn, optimizer, x, y):
    @torch.autocast("cpu")
    def forward():
        return loss_fn(model(x).float(), y)

    def closure():
        loss = forward()
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        return loss.detach()

    return optimizer.step(closure)

# %% right two_regions_and_a_scaler
def autocast_step(model, loss_fn, optimizer, x, y):
    scaler = torch.amp.GradScaler("cpu")
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        prediction = model(x)
    with torch.amp.autocast("cpu", torch.bfloat16):
        loss = loss_fn(prediction, y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return loss

# %% rule parameters-cast
breaks = harness.differs("dtype of the parameters")

# %% rule stale-cache
breaks = harness.differs("weights that the model computed with")
(unwrap("with torch.autocast") & put('torch.autocast("cpu", dtype=torch.bfloat16).__enter__()',
    before="loss = "))

# %% rule forward-outside-too
breaks = harness.among("autocast in the forward pass", "and")

# %% rule no-autocast
breaks = harness.among("autocast in the forward pass", "off")

# %% rule other-dtype
breaks = harness.among("autocast in the forward pass", "float16")

# %% rule loss-outside
breaks = harness.among("autocast in the loss function", "off")

# %% rule region-left-open
breaks = harness.differs("autocast after the call")

# %% rule backward-inside
breaks = harness.among("autocast in the backward pass", "on")
wrap('with torch.autocast("cpu", dtype=torch.bfloat16):', "optimizer.zero_grad()", to="return")

# %% rule step-inside
breaks = harness.among("autocast in the optimizer's step", "on")

# %% rule steps-miscounted
breaks = harness.differs("optimizer steps")

# %% wrong gradients-of-before
# When your function is called, the gradients of an earlier step may still be there, and
# `backward()` adds to them. Call `optimizer.zero_grad()` before `backward()`, not at the end.
move("optimizer.zero_grad()", before="return")
drop("optimizer.zero_grad()") & put("model.zero_grad(set_to_none=False)", after="optimizer.step()")

# %% wrong loss-after-the-step
# You returned the loss of the new weights. Return the loss that you called `backward()` on.
put('with torch.autocast("cpu", dtype=torch.bfloat16): loss = loss_fn(model(x), y)',
    before="return")
of("decorated_forward_in_a_closure", swap("return optimizer.step(closure)",
    "optimizer.step(closure)\n    return forward().item()"))

# %% wrong returned-none
drop("return loss")

# %% wrong wrong-type
swap("loss.item()", "[loss.item()]")
swap("loss.item()", "(loss.item(), x)")
