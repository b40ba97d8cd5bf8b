# %% statement points=1 minutes=5
# # Broken loop 4: steps missing
#
# This loop loses steps in every epoch, not only in the first. Here it starts with a scale that is
# far too large. A later phase of a real run may also start with a scale that doesn't suit it.

# %% demo
def by_epoch(model, optimizer, loss_fn, epochs, init_scale):
    for batches in epochs:
        scaler = torch.amp.GradScaler("cpu", init_scale=init_scale)
        for x, y in batches:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        print(f"this epoch went from scale {init_scale:g} to {scaler.get_scale():g}")
    return scaler.get_scale()


last = by_epoch(*fresh()[:2], cross_entropy, [some_batches(5)] * 3, init_scale=2.0**30)

# %% text
# Fix it as `fix_epochs`, with the same arguments. Start with `init_scale`; return the last scale.
#
# The check's epochs are short. So that the scale can grow too, every scaler that you make during
# the check grows after 4 clean steps and not after 2000.

# %% answer
def fix_epochs(model, optimizer, loss_fn, epochs, init_scale):
    """Train on a list of epochs, each a list of batches; return the last scale, a float."""
    ### BEGIN SOLUTION
    scaler = torch.amp.GradScaler("cpu", init_scale=init_scale)
    for batches in epochs:
        for x, y in batches:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    return scaler.get_scale()
    ### END SOLUTION

# %% hints
# - How many steps are skipped in the first epoch, and how many in the second?
# - What does a scaler know after an epoch that a new one doesn't?
# - It knows two things: the scale, and how many clean steps there were since the scale changed.

# %% probe
from amp_lessons.exercises.training_loops.harness_plays import epoch_cases, use_by_epoch
from amp_lessons.exercises.training_loops.harness import never_in_float16

probe = Probe(epoch_cases, play=use_by_epoch)

# %% judge
judge = Judge(same=within(1e-3), pairs=False)  # they would take over a second

# %% passed
# One run, one scaler. The scale and the count of clean steps are what it has learned.

# %% right one_chain
from itertools import chain

def fix_epochs(model, optimizer, loss_fn, epochs, init_scale):
    scaler = torch.amp.GradScaler("cpu", init_scale=init_scale)
    for images, labels in chain.from_iterable(epochs):
        with torch.autocast("cpu", dtype=torch.half):
            loss = loss_fn(model(images), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return scaler.get_scale()

# %% right state_carried_over
def fix_epochs(model, optimizer, loss_fn, epochs, init_scale):
    state = None
    for batches in epochs:
        scaler = torch.amp.GradScaler("cpu", init_scale=init_scale)
        if state:
            scaler.load_state_dict(state)
        for x, y in batches:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        state = scaler.state_dict()
    return scaler.get_scale()

# %% rule another-precision
breaks = never_in_float16

# %% rule scale-not-a-float
def breaks(seen, right):
    scale = noted(seen, "scale returned")
    wrong = is_dict(seen.get("value")) and type(scale) not in (int, float)
    return wrong and {"got": describe(scale)}

# %% wrong scaler-each-epoch
# You make a new scaler for each epoch. It knows nothing of the scale that the last one found, so
# the first steps of every epoch are skipped again. One scaler lives as long as the run.
move("scaler =", before="for x, y")
of("state_carried_over", drop("if state"))

# %% wrong count-forgotten
# You make a new scaler for each epoch and hand it the last scale. But its count of clean steps
# starts again at 0, so the scale grows at other steps than it should. Keep one scaler, or carry its
# whole `state_dict()` over.
move("scaler =", before="for x, y") & put("init_scale = scaler.get_scale()", after="for x, y")
of("state_carried_over", swap("scaler.load_state_dict(state)",
    'scaler = torch.amp.GradScaler("cpu", state["scale"])'))

# %% wrong smallest-scale-kept
# You start each epoch with the smallest scale so far, and lose what it grew since. Keep one scaler.
(move("scaler =", before="for x, y") & put("init_scale = min(init_scale, scaler.get_scale())",
    after="scaler.update"))
of("state_carried_over", swap("state = None", "low = state = init_scale") &
    swap("scaler.load_state_dict(state)", 'scaler = torch.amp.GradScaler("cpu", low)') &
    put("low = min(low, scaler.get_scale())", after="scaler.update"))

# %% wrong scaler-each-batch
# You make a new scaler for each batch, so the scale can never come down. What overflows once
# overflows every time, and no step is taken. One scaler lives as long as the run.
move("scaler =", before="optimizer")
of("state_carried_over", drop("if state") & move("scaler =", before="with torch"))

# %% wrong scaler-bypassed
# Nothing is scaled any more, so the gradients of this small loss are zero in FP16. A few skipped
# steps at the beginning are the price of finding a scale; pay it once.
swap("init_scale=init_scale", "enabled=False")
swap("init_scale=init_scale", "init_scale=1.0")

# %% wrong first-scale-returned
# You return the scale of the beginning. The task asks for the last one: `scaler.get_scale()` after
# the last `update()`.
swap("return scaler.get_scale()", "return init_scale")
of("one_chain", swap("return scaler.get_scale()", "return first") &
    put("first = scaler.get_scale()", before="for images"))

# %% wrong init-scale-ignored
# For some values of `init_scale`, your scaler starts with another scale. Pass it on as it is.
swap(", init_scale=init_scale", "")
swap("init_scale=init_scale", "init_scale=2.0**16")
swap("init_scale=init_scale", "init_scale=min(init_scale, 2.0**16)")
