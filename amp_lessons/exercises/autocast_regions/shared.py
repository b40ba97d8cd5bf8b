# %% wrong parameters-cast
# The parameters are not float32 any more. With autocast you don't cast the model: autocast casts
# what each operation takes. The parameters, their gradients and the updates stay in float32.
put("model.bfloat16()", before="optimizer.zero_grad()")

# %% wrong stale-cache
# The weights move, and the model computes with 16-bit copies of older ones. Autocast keeps such
# copies until the outermost region ends, so every region must end before the weights change. A
# region around the loop doesn't, and `set_autocast_enabled` ends none.
(unwrap("with torch.autocast") & put('torch.set_autocast_enabled("cpu", True)', before="loss = ") &
    put('torch.set_autocast_enabled("cpu", False)', after="loss = "))

# %% wrong no-autocast
# Autocast was off while the model ran. Run it in `torch.autocast("cpu", dtype=torch.bfloat16)`.
swap("dtype=torch.bfloat16)", "enabled=False)")
swap('"cpu", dtype=torch.bfloat16', '"cuda"')

# %% wrong forward-outside-too
# The model ran inside the region, and outside it as well. A step has one forward pass, inside the
# region. Call `backward()` on the loss that came out of that one.
put("loss = loss_fn(model(x), y)", before="loss.backward()")

# %% wrong loss-outside
# The model ran inside the region, and the loss function outside it. Outside, nobody chooses a dtype
# for it: some operations raise, others compute in 16 bits. Call `loss_fn` inside too.
(swap("loss = loss_fn(model(x), y)", "prediction = model(x)") &
    put("loss = loss_fn(prediction.float(), y)", before="loss.backward()"))
(swap("loss = loss_fn(model(x), y)", "prediction = model(x)") &
    put("loss = loss_fn(prediction, y)", before="loss.backward()"))

# %% wrong backward-inside
# The backward pass ran inside the region. There, operations that belong to a float32 part are cast
# to 16 bits, with no message. Close the region before `backward()`.
move("loss.backward()", after="loss = ")

# %% wrong step-inside
# The optimizer's step ran inside a region. Its arithmetic belongs in float32. And a region that is
# open while the weights change keeps 16-bit copies of the old ones. Call `step()` outside.
wrap('with torch.autocast("cpu", dtype=torch.bfloat16):', "optimizer.step()")

# %% wrong other-dtype
# Your region runs in float16, which needs a `GradScaler`. Say `dtype=torch.bfloat16`.
swap("dtype=torch.bfloat16", "dtype=torch.float16")

# %% wrong steps-miscounted
# `optimizer.step()` ran {got} times for {wanted} batches. Each batch needs one step of its own.
drop("optimizer.step()")
put("optimizer.step()", after="optimizer.step()")

# %% wrong no-backward
# `backward()` never ran, so there are no gradients. Call `loss.backward()` after the region.
drop("loss.backward()")
swap("loss.backward()", "loss.backward")

# %% wrong copy-trained
# The parameters of `model` got no gradients: you trained a copy. Call the `model` you were given.
swap("loss_fn(model(x)", "loss_fn(__import__('copy').deepcopy(model)(x)")
put("import copy\nmodel = copy.deepcopy(model)", before="optimizer.zero_grad()")

# %% wrong still-scaled
# You scaled the loss, and nobody divided the gradients again: the step used gradients that are too
# large by the scale. bfloat16 needs no scaler. If you use one, call `scaler.step(optimizer)`.
swap("loss.backward()", 'torch.amp.GradScaler("cpu").scale(loss).backward()')
swap("loss.backward()", "(loss * 2**16).backward()")

# %% wrong zeroed-before-step
# You removed the gradients after `backward()` and before the step, so the step had nothing to work
# with. Call `optimizer.zero_grad()` before `backward()`, or after the step.
move("optimizer.zero_grad()", before="optimizer.step()")
put("model.zero_grad()", after="loss.backward()")

# %% wrong never-zeroed
# The gradients of one batch are still there when those of the next one come: `backward()` adds to
# them. Call `optimizer.zero_grad()` once for each batch, before `backward()`.
drop("optimizer.zero_grad()")
swap("optimizer.zero_grad()", "optimizer.zero_grad")

# %% wrong arguments-swapped
# You called the loss function with the target first. A loss need not be symmetric: this one
# looks at the prediction in another way than at the target. Call `loss_fn(prediction, y)`.
swap("loss_fn(model(x), y)", "loss_fn(y, model(x))")
swap("loss = loss_fn(model(x), y)", "prediction = model(x); loss = loss_fn(y, prediction)")

# %% wrong region-left-open
# Autocast was off before the call, and now it is {got}. A `with` block restores its state.
put('torch.set_autocast_enabled("cpu", True)', before="return loss")
