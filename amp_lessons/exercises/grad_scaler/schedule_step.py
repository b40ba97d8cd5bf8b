# %% statement points=2 minutes=10
# # A scheduler that knows about skips
#
# A learning rate schedule should count the steps that the optimizer really made. Write
# `schedule_step(scaler, optimizer, scheduler)`, the end of a training step.
#
# When it is called, the scaled loss has already gone backward, and the scale is above 0. Step and
# update with the scaler, so that it is ready for the next step. Step the scheduler if the optimizer
# stepped, and only then. Return True if the optimizer stepped, and False if it didn't.

# %% answer
def schedule_step(scaler, optimizer, scheduler):
    """Finish a step; True if the optimizer and the scheduler have stepped."""
    ### BEGIN SOLUTION
    before = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    stepped = scaler.get_scale() >= before
    if stepped:
        scheduler.step()
    return stepped
    ### END SOLUTION

# %% hints
# - Read `scaler.get_scale()` before the step, and again after the update.
# - The scale can be lower than before, the same, or higher. Only one of the three is a skip.
# - Step the scheduler last, after `update`, below an `if`.

# %% probe
from amp_lessons.exercises.grad_scaler.harness_network import play_schedule, schedule_cases

probe = Probe(schedule_cases, play=play_schedule)

# %% judge
judge = Judge(same=within(1e-5), asked_for="True or False")

# %% passed
# A schedule counts the steps of the optimizer. With a scaler, an iteration is not always one.

# %% right gradients_asked
def schedule_step(scaler, optimizer, scheduler):
    scaler.unscale_(optimizer)
    grads = [p.grad for group in optimizer.param_groups for p in group["params"]]
    real = all(g.isfinite().all() for g in grads)
    if real:
        scaler.step(optimizer)
        scheduler.step()
    scaler.update()
    return real

# %% right tensor_of_bool
def schedule_step(scaler, optimizer, scheduler):
    scales = [scaler.get_scale()]
    scaler.step(optimizer)
    scaler.update()
    scales.append(scaler.get_scale())
    stepped = torch.tensor(scales).diff()[0] >= 0
    if stepped:
        scheduler.step()
    return stepped

# %% wrong scheduler-runs-ahead
# Your scheduler steps in every iteration, also when the scaler skipped. If you compare scales, read
# one before the step and one after `update`, because only `update` changes it.
move("before =", after="scaler.update()")
unwrap("if stepped")
move("scaler.update()", after="stepped =")

# %% wrong growth-taken-for-skip
# You take every change of the scale for a skip. It also grows. A skip is a scale that fell.
swap(">= before", "== before")
of("tensor_of_bool", swap(">= 0", "== 0"))

# %% wrong only-growth-counts
# You take a step for real only if the scale grew. Most leave it as it is. A skip makes it fall.
swap(">= before", "> before")
of("tensor_of_bool", swap(">= 0", "> 0"))

# %% wrong always-skipped
# Your scheduler never steps. `scaler.step` returns None for a real step too, so don't ask that.
(swap("scaler.step(optimizer)", "result = scaler.step(optimizer)") &
    swap("scaler.get_scale() >= before", "result is not None"))
of("tensor_of_bool", swap("torch.tensor(scales).diff()[0] >= 0", "scales[0] > 2.0**16"))

# %% wrong inverted
# Your scheduler steps after the skips, and stands still after the real steps.
swap(">= before", "< before")
of("tensor_of_bool", swap(">= 0", "< 0"))

# %% wrong scheduler-first
# Your scheduler steps first, so the first step uses the second rate. Step the optimizer before it.
move("scheduler.step()", before="scaler.step")
of("gradients_asked", move("scheduler.step()", before="scaler.step"))
(put("if optimizer.param_groups[0]['params'][-1].grad.isfinite().all(): scheduler.step()",
    before="scaler.step") & drop("if stepped"))

# %% wrong answer-inverted
# Your answer is the wrong way round. Return True after a real step, and False after a skip.
swap("return stepped", "return not stepped")
of("tensor_of_bool", swap("return stepped", "return bool(scales[1] < scales[0])"))

# %% wrong answer-missing
# Your function returns None. Return True after a real step, and False after a skip.
drop("return stepped")
swap("return stepped", "print(stepped)")

# %% wrong always-true
# You always return True. Return False after a skipped step.
swap("return stepped", "return True")
of("tensor_of_bool", swap("return stepped", "return scales[1] > 0"))

# %% wrong inf-only
of("gradients_asked", swap("g.isfinite().all()", "not g.isinf().any()"))
of("gradients_asked", swap("all(g.isfinite().all()", "not any(g.isinf().any()"))

# %% wrong nan-only
of("gradients_asked", swap("g.isfinite().all()", "not g.isnan().any()"))
of("gradients_asked", swap("all(g.isfinite().all()", "not any(g.isnan().any()"))

# %% wrong one-gradient-asked
of("gradients_asked", swap("for g in grads", "for g in grads[:1]"))
of("gradients_asked", put("grads = [optimizer.param_groups[0]['params'][0].grad]", before="real ="))

# %% wrong optimizer-stepped-directly
swap("step(optimizer)", "unscale_(optimizer)") & put("optimizer.step()", before="scaler.update")
(of("gradients_asked", move("scaler.step", before="if real")) &
    swap("scaler.step(optimizer)", "optimizer.step()"))

# %% wrong scaler-not-asked
swap("scaler.step(optimizer)", "optimizer.step()")
move("scaler.update()", before="scaler.step")

# %% wrong update-forgotten
wrap("if scaler.get_scale() < before:", "scaler.update()")
drop("scaler.update()") & put("scaler.unscale_(optimizer)", before="scaler.step")

# %% wrong no-update-after-skip
put("if any(scaler._found_inf_per_device(optimizer).values()): return False", after="scaler.step")
of("gradients_asked", move("scaler.update()", before="scheduler.step"))
of("gradients_asked", put("if not real: return False", before="if real"))
of("gradients_asked", move("scaler.step", before="if real") & move("scaler.up", before="sched"))
