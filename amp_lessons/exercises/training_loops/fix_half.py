# %% statement points=1 minutes=5
# # Broken loop 5: a model in half
#
# "Mixed precision means half precision, so I cast the model."

# %% demo
def in_half(model, optimizer, scaler, loss_fn, batches):
    model.half()
    for x, y in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(x.half()), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


try:
    in_half(*fresh(), lambda logits, y: cross_entropy(logits.float(), y), some_batches(2))
except ValueError as error:
    print("ValueError:", error)

# %% text
# Fix it as `fix_half`, with the same arguments. Products run in FP16, parameters stay in float32.

# %% answer
def fix_half(model, optimizer, scaler, loss_fn, batches):
    """Train on each batch once, in mixed precision with FP16 and the scaler."""
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
# - Which dtype must the parameters have, so that an update of 0.0001 is not lost?
# - What makes the 16-bit copies of the weights if you don't?

# %% probe
from amp_lessons.exercises.harness import SMALL
from amp_lessons.exercises.training_loops.harness import loop_cases, never_in_float16, plain_loop

probe = Probe(partial(loop_cases, weight=SMALL, init_scale=2.0**16), play=plain_loop)

# %% judge
judge = Judge(same=within(1e-3))

# %% passed
# The model stays in float32. Autocast makes 16-bit copies of the weights in each forward pass.

# %% right half_inputs_under_autocast
def fix_half(model, optimizer, scaler, loss_fn, batches):
    model.float()
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x.half()).float(), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()

# %% right weights_cast_by_hand
def fix_half(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        halves = {name: p.half() for name, p in model.named_parameters()}
        loss = loss_fn(torch.func.functional_call(model, halves, x.half()).float(), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

# %% rule half-parameters
# The parameters are FP16, so their gradients are too, and the scaler refuses to unscale them: small
# ones would be zero again. Leave the model in float32; autocast makes the 16-bit copies.
def breaks(seen, right):
    return "unscale FP16 gradients" in seen.get("error", {}).get("message", "")
put("model.half()", before="for x, y")
swap("model(x)", "model.half()(x)")

# %% rule parameters-in-16-bits
# Nothing raises, but your parameters are {kept}. 16 bits lose small updates, and a cast back to
# float32 doesn't restore them. Leave the model in float32, use autocast, and keep the scaler.
def breaks(seen, right):
    kept = noted(seen, "dtype of the parameters")
    return {"kept": kept} if kept and kept != "float32" else None
put("model.half()\nmodel.float()", after="scaler.update")
swap("model(x)", "model.half()(x.half())") & put("model.float()", before="scaler.step")

# %% rule dtypes-mixed
# A layer got float32 and FP16 at once, its weights in one and its input in the other, and a linear
# layer refuses that. Under autocast you don't need to cast anything by hand.
def breaks(seen, right):
    return "same dtype" in seen.get("error", {}).get("message", "")
unwrap("with torch.autocast") & swap("model(x)", "model(x.half())")
unwrap("with torch.autocast") & swap("model(x)", "model.half()(x)")

# %% rule another-precision
breaks = never_in_float16
