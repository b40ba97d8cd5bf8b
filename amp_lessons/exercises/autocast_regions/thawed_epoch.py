# %% statement points=2 minutes=10
# # Fix the frozen loop
#
# This loop runs without an error and its weights move, but its loss stands still.

# %% demo
def frozen_epoch(model, loss_fn, optimizer, batches):
    losses = []
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for x, y in batches:
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


torch.manual_seed(0)
model = Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batch = torch.arange(12.0).reshape(3, 4) / 12, torch.ones(3, 1)
before = model.weight.tolist()
losses = frozen_epoch(model, nn.functional.mse_loss, optimizer, [batch] * 5)
print("weights before:", *[f"{w:.3f}" for w in before[0]])
print("weights after: ", *[f"{w:.3f}" for w in model.weight.tolist()[0]])
print("losses:        ", *[f"{loss:.3f}" for loss in losses])

# %% text
# Write `thawed_epoch(model, loss_fn, optimizer, batches)`: the same loop, fixed. It goes through
# `batches`, a list of pairs (x, y), once, and trains in bfloat16 autocast. It returns the list of
# the losses: one for each batch, as it was before that batch's step.

# %% answer
def thawed_epoch(model, loss_fn, optimizer, batches):
    """Train on each batch once; return the losses as a list of numbers."""
    ### BEGIN SOLUTION
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
    ### END SOLUTION

# %% hints
# - Print one weight and the loss after each step. Which of the two stands still?
# - The 16-bit copies of the weights live until the outermost region ends. When does it end here?
# - Swap the two outer lines: the loop goes outside, the region inside.

# %% probe
from amp_lessons.exercises.autocast_regions import harness

probe = Probe(harness.epoch_cases, play=harness.one_epoch)

# %% judge
judge = Judge(same=within(1e-3), asked_for="a list of losses", tell=harness.telling(within(1e-3)))

# %% passed
# The cast cache lives as long as the outermost region: close it before the weights change.

# %% right one_region_entered_each_time
def thawed_epoch(model, loss_fn, optimizer, batches):
    region = torch.autocast("cpu", dtype=torch.bfloat16)
    losses = []
    for x, y in batches:
        with region:
            losses.append(loss_fn(model(x), y))
        losses[-1].backward()
        optimizer.step()
        optimizer.zero_grad()
    return torch.stack(losses).detach()

# %% right cache_cleared_and_region_disabled
def thawed_epoch(model, loss_fn, optimizer, batches):
    losses = []
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for x, y in batches:
            loss = loss_fn(model(x), y)
            with torch.autocast("cpu", enabled=False):
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                torch.clear_autocast_cache()
            losses.append(loss.item())
    return losses

# %% rule parameters-cast
breaks = harness.differs("dtype of the parameters")

# %% rule stale-cache
breaks = harness.differs("weights that the model computed with")
wrap('with torch.autocast("cpu", dtype=torch.bfloat16):', "for x, y")

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
(unwrap("with torch.autocast") & put("torch.clear_autocast_cache()", after="optimizer.step()") &
    wrap('with torch.autocast("cpu", dtype=torch.bfloat16):', "for x, y"))

# %% rule step-inside
breaks = harness.among("autocast in the optimizer's step", "on")

# %% rule steps-miscounted
breaks = harness.differs("optimizer steps")
swap("in batches", "in batches[1:]")
move("optimizer.step()", after="for x, y")

# %% rule losses-missing
# Your list holds {got} losses for {batches} batches. Append one for each batch, inside the loop.
def breaks(seen, right):
    got, losses = (harness.noted(entry, "losses") for entry in (seen, right))
    return got and len(got) != len(losses) and {"got": len(got), "batches": len(losses)}
move("losses.append", after="for x, y")
put("losses.append(loss.item())", before="return losses")

# %% wrong losses-after-the-step
# Your losses were measured after the step. Keep the loss that you called `backward()` on.
put('with torch.autocast("cpu", dtype=torch.bfloat16): loss = loss_fn(model(x), y)',
    before="losses.append")
(drop("losses.append") & put("region = torch.autocast('cpu', torch.bfloat16)", before="for x, y") &
    put("losses.append(region(lambda: loss_fn(model(x), y))())", after="optimizer.step()"))

# %% wrong wrong-type
swap("return losses", "return loss.item()")
swap("losses.append(loss.item())", "yield loss.item()") & drop("return") & drop("losses = []")

# %% wrong returned-none
drop("return losses")
