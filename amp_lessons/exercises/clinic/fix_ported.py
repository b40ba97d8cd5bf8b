# %% statement points=2 minutes=10
# # Case 11: a port to torch.amp
#
# PyTorch deprecated `torch.cuda.amp`, so somebody ported this program. The old line was
# `scaler = torch.cuda.amp.GradScaler(scale, growth_interval=interval)`. The new line raises no
# error.

# %% demo
def ported(model, optimizer, batches, loss_fn, scale, interval):
    scaler = torch.amp.GradScaler(scale, growth_interval=interval)
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            outputs = model(x).float()
        scaler.scale(loss_fn(outputs, y)).backward()
        scaler.step(optimizer)
        scaler.update()
    return scaler


model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
used = ported(model, optimizer, some_batches(2), cross_entropy, scale=1024.0, interval=3)
print("asked for a scale of 1024.0, got", used.get_scale())

# %% text
# Fix it. Call your version `fix_ported` and keep the arguments. The first batch is scaled by
# `scale`. After `interval` good steps in a row the scale doubles, and after an overflow it halves.
# Return the scaler. The caller saves its state.
#
# The check runs your program as if the machine had no GPU.

# %% answer
def fix_ported(model, optimizer, batches, loss_fn, scale, interval):
    """Train on each batch once, in FP16, with a scaler that starts at `scale`; return it."""
    ### BEGIN SOLUTION
    scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=interval)
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            outputs = model(x).float()
        scaler.scale(loss_fn(outputs, y)).backward()
        scaler.step(optimizer)
        scaler.update()
    return scaler
    ### END SOLUTION

# %% hints
# - Print `help(torch.amp.GradScaler)`. Which parameter comes first?
# - What is the default of that parameter, and what happens with it on a machine without a GPU?
# - Pass every value by its name, and name the device too.

# %% probe
from amp_lessons.exercises.clinic.harness_loops import play_ported, ported_cases

probe = Probe(ported_cases, play_ported)

# %% judge
judge = Judge(same=within(2e-3), asked_for="the scaler")

# %% passed
# `torch.amp.GradScaler` takes the device first. Pass the scale by its name: `init_scale=1024.0`.

# %% right all_by_position
def fix_ported(model, optimizer, batches, loss_fn, scale, interval):
    scaler = torch.amp.GradScaler("cpu", scale, 2.0, 0.5, interval)
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
    return scaler

# %% right state_loaded
def fix_ported(model, optimizer, batches, loss_fn, scale, interval):
    device = next(model.parameters()).device.type
    scaler = torch.amp.GradScaler(device, growth_interval=interval)
    scaler.load_state_dict(scaler.state_dict() | {"scale": float(scale)})
    for x, y in batches:
        with torch.autocast(device, dtype=torch.float16):
            loss = loss_fn(model(x).float(), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return scaler

# %% rule scaler-not-returned
# Your function doesn't return the scaler. The caller saves its state, so end with `return scaler`.
def breaks(seen, right):
    return noted(seen, "returned") == "something else"
drop("return scaler")
swap("return scaler", "return scaler.get_scale()")

# %% wrong scale-never-arrives
# Your scale starts at 65536, the default, and not at the value that was asked for. The first
# parameter of `torch.amp.GradScaler` is the device. Write `init_scale=scale`.
swap('"cpu", init_scale=scale', "scale")
swap('"cpu", init_scale=scale', '"cpu"')
of("state_loaded", drop("scaler.load_state_dict"))

# %% wrong switched-off
# Nothing is scaled: your scaler is for CUDA, and without a GPU it switches itself off. It only
# warns. The model is on the CPU, so write `torch.amp.GradScaler("cpu", ...)`.
swap('"cpu", init', "init")
of("all_by_position", swap('GradScaler("cpu", ', 'GradScaler("cuda", '))
of("state_loaded", swap("GradScaler(device, growth_interval=interval)",
    'GradScaler("cuda", scale, growth_interval=interval)') & drop("scaler.load_state_dict"))
swap('torch.amp.GradScaler("cpu", init_scale=', "torch.cuda.amp.GradScaler(")

# %% wrong values-one-place-early
# You pass the old values in the old order, and each arrives one place too early: `scale` as the
# device, and 0.5 as the growth factor, which the scaler refuses. Begin with `"cpu"`.
of("all_by_position", swap('"cpu", scale', "scale"))
swap('"cpu", init_scale=scale, growth_interval=interval', "scale, 2, 0.5, interval")

# %% wrong values-hard-coded
# You wrote one scale or one interval into the program. Use the arguments `scale` and `interval`.
swap("init_scale=scale, growth_interval=interval", "init_scale=1024.0, growth_interval=3")
swap("init_scale=scale", "init_scale=1024.0")
swap("growth_interval=interval", "growth_interval=3")
of("all_by_position", swap("scale, 2.0, 0.5, interval", "1024, 2.0, 0.5, 3"))

# %% wrong scale-never-grows
# Your scale falls, but it doesn't grow. Either the interval isn't passed on, and the default is
# 2000 good steps, or you make a new scaler for each batch, and its count starts again. Make one
# scaler before the loop, with `growth_interval=interval`.
move("scaler = torch", before="optimizer.zero_grad()") & put("scale = scaler.get_scale()",
    after="scaler.update()")
swap(", growth_interval=interval", "")
of("state_loaded", swap(", growth_interval=interval", ""))
of("all_by_position", swap("scale, 2.0, 0.5, interval", "scale"))

# %% wrong interval-in-the-wrong-place
# The interval arrives as the growth factor, the parameter behind the scale. So the scale grows by
# that factor, and after 2000 steps at the earliest. Or it arrives as the backoff factor, and the
# scaler refuses it. Pass it by its name: `growth_interval=interval`.
of("all_by_position", swap("2.0, 0.5, interval", "2.0, interval"))
swap("growth_interval", "backoff_factor")

# %% wrong scale-and-interval-exchanged
# You exchanged the scale and the interval: the scale starts at the interval. The order is device,
# first scale, growth factor, backoff factor, interval. Pass the values by name.
swap("init_scale=scale, growth_interval=interval",
    "init_scale=interval, growth_interval=int(scale)")
of("all_by_position", swap("scale, 2.0, 0.5, interval", "interval, 2.0, 0.5, int(scale)"))

# %% wrong scale-never-moves
# Your scale is the same for every batch. Either you set it again each time, or you make a new
# scaler for each batch. Make one scaler before the loop, and call `scaler.update()` with no value.
swap("scaler.update()", "scaler.update(scale)")
move("scaler = torch", before="optimizer.zero_grad()")
put("scaler.update(scale)", after="scaler.update()")

# %% wrong set-after-the-first-batch
# You set the scale when the first batch is over, so that batch is scaled by 65536, the default.
# The scaler needs its first scale when it is made: `init_scale=scale`.
(swap("init_scale=scale, ", "") & put("first = True", before="for x, y") &
    put("if first: scaler.update(scale)\nfirst = False", after="scaler.update()"))
(swap("init_scale=scale, ", "") &
    put("if x is batches[0][0]: scaler.update(torch.tensor(scale))", after="scaler.update()"))

# %% wrong updated-before-the-first-scale
# You call `scaler.update(scale)` before the loop. A new scaler has no scale yet: the first call of
# `scaler.scale` makes it. Pass `init_scale=scale` when you make the scaler.
swap("init_scale=scale, ", "") & put("scaler.update(scale)", after="scaler = torch")
of("state_loaded", swap("scaler.load_state_dict(scaler.state_dict() | {\"scale\": float(scale)})",
    "scaler.update(new_scale=float(scale))"))

# %% wrong not-unscaled
swap("scaler.step(optimizer)\nscaler.update()", "optimizer.step()")
of("all_by_position", swap("scaler.unscale_(optimizer)\nscaler.step(optimizer)\nscaler.update()",
    "optimizer.step()"))

# %% wrong scaler-bypassed
(swap("scaler.scale(loss_fn(outputs, y))", "loss_fn(outputs, y)") &
    swap("scaler.step(optimizer)\nscaler.update()", "optimizer.step()"))
of("all_by_position", swap("scaler.scale(loss)", "loss") & swap("scaler.unscale_(optimizer)\n"
    "scaler.step(optimizer)\nscaler.update()", "optimizer.step()"))

# %% wrong bfloat16-region
swap(", dtype=torch.float16", "")
swap("torch.float16", "torch.bfloat16")
