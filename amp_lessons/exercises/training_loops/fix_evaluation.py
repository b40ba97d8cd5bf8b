# %% statement points=1 minutes=10
# # Broken loop 6: the validation
#
# After each epoch this loop validates. Here it does so twice for one model, with different losses.

# %% demo
def with_validation(model, optimizer, scaler, loss_fn, epochs, validation):
    losses = []
    for batches in epochs:
        for x, y in batches:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        images, labels = validation
        losses.append(loss_fn(model(images), labels).item())
    return losses


model, optimizer, scaler = fresh()
model = torch.nn.Sequential(model[:2], torch.nn.Dropout(0.5), model[2:])
validation = (digits.validation_images, digits.validation_labels)
torch.manual_seed(0)
(once,) = with_validation(model, optimizer, scaler, cross_entropy, [[]], validation)
(again,) = with_validation(model, optimizer, scaler, cross_entropy, [[]], validation)
print(f"validation loss {once:.4f}, and again {again:.4f}")

# %% text
# That is not the only thing wrong with it. Fix it, call your version `fix_evaluation`, and keep the
# arguments. Return the validation loss after each epoch:
#
# - of the model in training, without dropout and with the statistics that batch norm has collected,
# - in the precision in which it is trained,
# - with nothing recorded for a backward pass.
#
# The check's model has dropout and batch norm, and it comes in training mode.

# %% answer
def fix_evaluation(model, optimizer, scaler, loss_fn, epochs, validation):
    """Train on each epoch in FP16; return the validation loss after each, a list of floats."""
    ### BEGIN SOLUTION
    losses = []
    images, labels = validation
    for batches in epochs:
        model.train()
        for x, y in batches:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        model.eval()
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
            losses.append(loss_fn(model(images), labels).item())
    return losses
    ### END SOLUTION

# %% hints
# - You need three switches: for dropout and batch norm, for autograd, and for the precision.
# - `model.eval()`, `torch.no_grad()` and `torch.autocast` are independent of each other.
# - Which of the three must be switched back before the next epoch?

# %% probe
from amp_lessons.exercises.training_loops.harness_plays import evaluation_cases, use_with_validation

probe = Probe(evaluation_cases, play=use_with_validation)

# %% judge
judge = Judge(same=within(1e-3), pairs=False)  # they would take over a second

# %% passed
# `eval()` is for dropout and batch norm, `no_grad()` for recording, autocast for the precision.

# %% right on_a_copy
import copy

def fix_evaluation(model, optimizer, scaler, loss_fn, epochs, validation):
    losses = []
    for batches in epochs:
        for x, y in batches:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x).float(), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        still = copy.deepcopy(model).eval()
        with torch.inference_mode(), torch.autocast("cpu", dtype=torch.float16):
            losses.append(loss_fn(still(validation[0]), validation[1]))
    return torch.stack(losses)

# %% rule parameters-in-16-bits
# You cast the model to 16 bits. Casting it back doesn't restore the bits that were rounded away, so
# your training loses small updates. Leave the model in float32 and run it under autocast.
def breaks(seen, right):
    refused = "unscale FP16 gradients" in seen.get("error", {}).get("message", "")
    return refused or noted(seen, "dtype of the parameters") not in (None, "float32")
unwrap("with torch.no_grad") & swap("model(images)", "model.half()(images.half())")
swap("model(images)", "model.half()(images)") & put("model.float()", after="with torch.no_grad")

# %% rule evaluated-in-train-mode
# You evaluate with {layers}. `model.eval()` switches dropout and batch norm;
# `no_grad()` only stops the recording.
def breaks(seen, right):
    passes = noted(seen, "forward passes in validation") or ""
    norm, drops = "batch norm learning from the validation images", "dropout dropping activations"
    left = {"with batch": norm, "with dropout": drops, "in training": f"{drops} and {norm}"}
    return next(({"layers": left[one]} for one in left if one in passes), None)
drop("model.eval")
swap("model.eval()", "model[2].eval()")

# %% rule left-in-eval-mode
# You train in eval mode, in all epochs or from the second on. Dropout is off there, and batch norm
# keeps its statistics. `eval()` lasts until `train()`: call `model.train()` before each epoch.
def breaks(seen, right):
    passes = noted(seen, "forward passes in training") or ""
    return "in eval mode" in passes or "with " in passes
drop("model.train")
drop("model.train") & move("model.eval", before="for batches")

# %% rule another-precision
def breaks(seen, right):
    passes = noted(seen, "forward passes in training")
    return bool(passes) and ", float16" not in passes

# %% rule evaluated-in-another-precision
# You train in FP16 and evaluate in something else, where an FP16 overflow won't show. Evaluate
# under `torch.autocast("cpu", dtype=torch.float16)` too.
def breaks(seen, right):
    passes = noted(seen, "forward passes in validation") or ""
    return "float32" in passes or "bfloat16" in passes
swap('with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):', "with torch.no_grad():")
swap(", dtype=torch.float16", "", nth=2)

# %% rule recorded-for-backward
# Your evaluation records everything for a backward pass that never comes. Use `torch.no_grad()`:
# `eval()` only switches dropout and batch norm, and `detach()` comes too late.
def breaks(seen, right):
    return ", recorded" in (noted(seen, "forward passes in validation") or "")
swap("with torch.no_grad(), ", "with ")
swap("with torch.no_grad(), ", "with ") & swap("model(images)", "model(images).detach()")

# %% wrong stale-weights
# One autocast region surrounds a whole epoch. Until it ends, it keeps the 16-bit copies of the
# weights that it made first, so later batches see old weights. Open a region for each forward pass.
(unwrap('with torch.autocast("cpu", dtype=torch.float16)') &
    wrap('with torch.autocast("cpu", dtype=torch.float16):', "for x, y"))
(of("on_a_copy", unwrap('with torch.autocast("cpu", dtype=torch.float16)')) &
    wrap('with torch.autocast("cpu", dtype=torch.half):', "for x, y"))
(unwrap('with torch.autocast("cpu", dtype=torch.float16)') &
    wrap('with torch.autocast("cpu", dtype=torch.float16):', "model.train()", to="with torch.no"))

# %% wrong validated-once
# You evaluate once, at the end. The task asks for a loss after each epoch.
move("with torch.no_grad", after="for batches") & move("model.eval", after="for batches")
wrap("if batches is epochs[-1]:", "model.eval", to="with torch.no_grad")
swap("return losses", "return losses[-1:]")

# %% wrong training-loss-returned
# You return losses of the training batches. The task asks for the loss of the validation images.
swap("loss_fn(model(images), labels).item()", "loss.item()")
put("losses.append(loss.item())", after="for x, y") & drop("with torch.no_grad")
put("losses.append(loss.item())", after="scaler.update") & drop("with torch.no_grad")
