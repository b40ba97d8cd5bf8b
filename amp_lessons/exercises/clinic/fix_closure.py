# %% statement points=3 minutes=15
# # Case 6: a trainer with a closure
#
# This trainer works with optimizers that need a closure too. With the scaler it trains nothing.

# %% demo
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
print("largest change of a weight:", (model[0].weight - before).abs().max().item())

# %% text
# Fix it. Call your version `fix_closure` and keep the arguments. The optimizer is plain SGD. In all
# but one of the check's runs the loss has a weight of $2^{-24}$, as above, and needs the scale.

# %% answer
def fix_closure(model, optimizer, scaler, loss_fn, batches):
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
# - How often does the program run the forward pass for one batch?
# - Which gradients does the optimizer use in the end? Has the scaler checked those?
# - SGD needs no closure. Which calls of the usual loop are left without one?

# %% probe
from amp_lessons.exercises.clinic.harness import plain_loop
from amp_lessons.exercises.clinic.harness_cases import closure_cases

probe = Probe(closure_cases, plain_loop)

# %% judge
judge = Judge(same=within(1e-2))

# %% passed
# With a scaler, don't use a closure. Its calls are separate: it checks the gradients between them.

# %% right called_before
def fix_closure(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:

        def closure(x=x, y=y):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            scaler.scale(loss).backward()
            return loss

        closure()
        scaler.step(optimizer)
        scaler.update()

# %% right closure_that_does_nothing
def fix_closure(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.float16):
            scaled = scaler.scale(loss_fn(model(x).float(), y))
        scaled.backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer, lambda loss=scaled: loss)
        scaler.update()
        model.zero_grad()

# %% wrong loss-called-twice
# You call `loss_fn` more than once for a batch. Keep the loss in a variable and use it again.
put('with torch.autocast("cpu", torch.half): loss_fn(model(x), y)', before="optimizer.zero_grad()")
of("called_before", put("closure()", after="closure()"))

# %% wrong closure-behind-the-scaler
# The scaler checks one set of gradients. Then `optimizer.step` calls your closure, and nobody
# scales or checks the new ones. Run forward and backward before `step`, and pass no closure.
of("called_before", swap("scaler.scale(loss)", "loss") & swap("        closure()\n",
    "        scaler.scale(closure())\n") & swap("scaler.step(optimizer)",
    "scaler.step(optimizer, closure)"))
(wrap("def closure():", "optimizer.zero_grad()", to="with torch") &
    swap("scaler.scale(loss).backward()", "    loss.backward()\n            return loss\n"
    "        scaler.scale(closure())") & swap("step(optimizer)", "step(optimizer, closure)"))

# %% wrong closure-by-name
# A scaler refuses a closure that it is given by name. Forward and backward come before `step()`.
of("called_before", swap("step(optimizer)", "step(optimizer, closure=closure)"))
swap("scaler.step(optimizer)", "scaler.step(optimizer, closure=lambda: loss)")

# %% wrong closure-not-unscaled
# Your closure scales its loss. But it runs inside `optimizer.step()`, after the scaler has
# unscaled, so its gradients carry the scale. Call it before, and don't pass it.
of("called_before", swap("step(optimizer)", "step(optimizer, closure)"))
of("called_before", swap("scaler.step(optimizer)",
    "scaler.unscale_(optimizer); scaler.step(optimizer, closure)"))

# %% wrong divided-and-not-scaled
# You call `backward()` on the plain loss. `scaler.scale(loss)` returns a new tensor, so `step()`
# divides gradients that were never multiplied. Write `scaler.scale(loss).backward()`.
swap("scaler.scale(loss).backward()", "scaler.scale(loss)\n        loss.backward()")
of("called_before", swap("scaler.scale(loss)", "loss") & swap("        closure()\n",
    "        scaler.scale(closure())\n"))
