# %% statement points=2 minutes=10
# # Predict the scale
#
# Write `predict_scale(found_inf, init_scale, growth_factor, backoff_factor, growth_interval)`. It
# computes the scale after each `update` from the rule, without a GradScaler and without training.
#
# `found_inf` is a list of bools, one for each step: did a gradient hold an inf or a NaN? Return a
# list of as many numbers. They must be those of torch's scaler, whose scale is an FP32 number: the
# check goes up to the largest scales, and down to zero in a run that only overflows.

# %% answer
def predict_scale(found_inf, init_scale, growth_factor, backoff_factor, growth_interval):
    """The scale after each update, as a list of floats."""
    ### BEGIN SOLUTION
    scale, clean_steps, scales = torch.tensor(init_scale), 0, []
    for bad in found_inf:
        if bad:
            scale, clean_steps = scale * backoff_factor, 0
        else:
            clean_steps += 1
        if clean_steps == growth_interval:
            clean_steps = 0
            if scale * growth_factor <= torch.finfo(torch.float32).max:
                scale *= growth_factor
        scales.append(float(scale))
    return scales
    ### END SOLUTION

# %% hints
# - You need the scale, and the number of clean steps since the last overflow or growth.
# - What happens to a growth that FP32 can't hold? Compare with `torch.finfo(torch.float32).max`.

# %% probe
from amp_lessons.exercises.grad_scaler.harness import play_list, scale_cases

own = ("amp_lessons.amp.scaling.scaler_log", "torch.amp.grad_scaler")
probe = Probe(scale_cases, play=play_list, watch=True, own=own)

# %% judge
judge = Judge(same=within(1e-6), asked_for="a list of numbers")

# %% passed
# In the curve of a scale, each fall is a skipped step, and each rise is an interval without one.

# %% right accumulated
def predict_scale(found_inf, init_scale, growth_factor, backoff_factor, growth_interval):
    from itertools import accumulate

    def update(state, bad):
        scale, clean = state
        if bad:
            return scale * backoff_factor, 0
        if clean + 1 < growth_interval:
            return scale, clean + 1
        grown = scale * growth_factor
        return grown if grown <= 3.4028e38 else scale, 0

    start = torch.tensor(init_scale), 0
    return [scale for scale, _ in accumulate(found_inf, update, initial=start)][1:]

# %% right one_tensor
def predict_scale(found_inf, init_scale, growth_factor, backoff_factor, growth_interval):
    scales = torch.full((len(found_inf) + 1,), init_scale)
    clean = 0
    for step, bad in enumerate(found_inf):
        clean = 0 if bad else clean + 1
        factor = backoff_factor if bad else growth_factor if clean == growth_interval else 1.0
        clean %= growth_interval
        new = scales[step] * factor
        scales[step + 1] = new if new.isfinite() else scales[step]
    return scales[1:]

# %% rule library-called
# You let a part of torch's scaler do the work. Compute the scale from the rule, with two variables.
def breaks(seen, right):
    return any(op["op"].startswith("aten::_amp_") for op in seen.get("ops", ()))

# %% program calls_the_kernel
def predict_scale(found_inf, init_scale, *settings):
    scale, clean, scales = torch.full((1,), init_scale), torch.zeros(1, dtype=torch.int32), []
    for bad in found_inf:
        torch._amp_update_scale_(scale, clean, torch.tensor([float(bad)]), *settings)
        scales.append(scale.item())
    return scales

# %% wrong ready-made

# %% program with_the_course_package
def predict_scale(found_inf, init_scale, growth_factor, backoff_factor, growth_interval):
    from amp_lessons.amp.scaling import simulate_records

    settings = init_scale, growth_factor, backoff_factor, growth_interval
    return [record.scale for record in simulate_records(found_inf, *settings)]

# %% program runs_a_scaler
def predict_scale(found_inf, init_scale, growth_factor, backoff_factor, growth_interval):
    scaler = torch.amp.GradScaler("cpu", init_scale, growth_factor, backoff_factor, growth_interval)
    weight = torch.ones(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.0)
    scaler.scale(weight)
    scales = []
    for bad in found_inf:
        weight.grad = torch.tensor([torch.inf if bad else 0.0])
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    return scales

# %% wrong scale-before-update
# You list the scale that each step used. The task asks for the scale after its update.
move("scales.append", before="if bad")
of("one_tensor", swap("scales[1:]", "scales[:-1]"))

# %% wrong starts-with-the-first-scale
# Your list begins with `init_scale`. The first number is the scale after the first update.
swap("0, []", "0, [init_scale]")
of("accumulated", swap("[1:]", ""))

# %% wrong counter-kept
# You don't set the count to 0 at an overflow. Growth takes `growth_interval` clean steps in a row.
swap("scale, clean_steps = scale * backoff_factor, 0", "scale *= backoff_factor")
of("accumulated", swap("scale * backoff_factor, 0", "scale * backoff_factor, clean"))

# %% wrong every-nth-step
# Your scale grows in each `growth_interval`-th step. Count from the last overflow or growth.
swap("clean_steps == growth_interval", "not bad and (len(scales) + 1) % growth_interval == 0")
of("one_tensor", swap("clean == growth_interval else", "(step + 1) % growth_interval == 0 else"))

# %% wrong growth-without-reset
# You keep the counter after a growth. The next growth needs `growth_interval` clean steps again.
drop("clean_steps = 0")
drop("clean_steps = 0") & swap("== growth_interval", ">= growth_interval")
of("accumulated", swap("else scale, 0", "else scale, clean + 1"))

# %% wrong one-step-late
# Your growth comes one step late. The last clean update of the interval also grows the scale.
swap("== growth_interval", "> growth_interval")
of("accumulated", swap("clean + 1 <", "clean <"))

# %% wrong growth-every-step
# Your scale grows in every clean step. It has to wait for `growth_interval` of them.
swap("clean_steps == growth_interval", "not bad")
of("one_tensor", swap("growth_factor if clean == growth_interval else 1.0", "growth_factor"))

# %% wrong factors-ignored
# You double and halve, whatever the factors are. Use `growth_factor` and `backoff_factor`.
put("growth_factor, backoff_factor = 2.0, 0.5", before="scale, clean_steps, scales")
of("one_tensor", swap("backoff_factor if", "0.5 if") & swap("else growth_factor", "else 2.0"))

# %% wrong kept-in-64-bits
# You keep the scale in 64 bits. In FP32, 1e-50 is 0, and stays 0. Round it to FP32 in each step.
swap("torch.tensor(init_scale)", "init_scale")
of("accumulated", swap("torch.tensor(init_scale)", "torch.tensor(init_scale).double()"))
(swap("torch.tensor(init_scale)", "init_scale") &
    swap("append(float(scale))", "append(torch.tensor(scale).item())"))

# %% wrong floor-of-one
# You stop the scale at 1. GradScaler has no lower limit: its scale goes on to 0.5 and down to 0.
put("scale = max(scale, 1.0)", before="scales.append")
of("accumulated", swap("scale * backoff_factor, 0", "max(1.0, scale * backoff_factor), 0"))

# %% wrong no-ceiling
# You let the scale grow beyond the largest FP32 number. A growth to infinity is left out.
unwrap("if scale * growth")
of("accumulated", swap("grown if grown <= 3.4028e38 else scale", "grown"))
of("one_tensor", swap("new if new.isfinite() else scales[step]", "new"))

# %% wrong cut-at-the-top
# You cut a growth off at the top of FP32. GradScaler leaves such a growth out altogether.
unwrap("if scale * growth") & put("scale = min(scale, 3.4028235e38)", before="scales.append")
unwrap("if scale * growth") & put("scale = min(scale, 2.0**127)", before="scales.append")
of("accumulated", swap("grown if grown <= 3.4028e38 else scale", "min(grown, 2.0**127)"))

# %% wrong limit-on-the-old-scale
# You look at the scale before it grows. What counts is whether FP32 holds the scale after that.
swap("scale * growth_factor <= torch.finfo(torch.float32).max", "scale < 2.0**127")
of("accumulated", swap("grown <= 3.4028e38", "scale < 2.0**127"))

# %% wrong changed-argument
swap("for bad in found_inf:", "while found_inf:") & put("bad = found_inf.pop(0)", before="if bad")
