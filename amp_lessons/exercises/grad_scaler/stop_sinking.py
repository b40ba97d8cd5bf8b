# %% statement points=2 minutes=10
# # An alarm for a sinking run
#
# A run whose scale sinks and sinks has a fault that no scale can fix, and goes on for hours without
# learning. Write `stop_sinking(log, patience)`, which finds the step at which to stop it.
#
# `log` is a list of pairs `(scale, skipped)`, one for each step: the scale after the step's
# `update`, and a bool, whether the scaler skipped the step. Stop the run at the first step
#
# - after which the scale is below 1, or
# - that is the last of `patience` skipped steps in a row. `patience` is at least 1.
#
# Return the number of this step, counted from 0. If the run needn't stop, return None.

# %% answer
def stop_sinking(log, patience):
    """The number of the step at which to stop the run, or None."""
    ### BEGIN SOLUTION
    in_a_row = 0
    for number, (scale, skipped) in enumerate(log):
        in_a_row = in_a_row + 1 if skipped else 0
        if scale < 1 or in_a_row == patience:
            return number
    return None
    ### END SOLUTION

# %% hints
# - What do you have to remember from one step to the next?
# - Count the skips in a row. Each clean step sets the count back to 0.
# - Either of the two reasons is enough. Return the step's number as soon as one of them holds.

# %% probe
from amp_lessons.exercises.grad_scaler.harness import sinking_cases

probe = Probe(sinking_cases)

# %% judge
judge = Judge(asked_for="the number of a step, or None")

# %% passed
# An alarm of a few lines ends a broken run after minutes. Then ask why its steps were skipped.

# %% right windows
def stop_sinking(log, patience):
    for end in range(1, len(log) + 1):
        window = [skipped for _, skipped in log[:end][-patience:]]
        if log[end - 1][0] < 1 or (len(window) == patience and all(window)):
            return end - 1

# %% right as_text
def stop_sinking(log, patience):
    low = [number for number, (scale, _) in enumerate(log) if scale < 1]
    skips = "".join(".x"[skipped] for _, skipped in log)
    start = skips.find("x" * patience)
    if start >= 0:
        low.append(start + patience - 1)
    return min(low, default=None)

# %% wrong not-in-a-row
# You count all skips of the run. A clean step between two skips sets the count back to 0.
swap("in_a_row + 1 if skipped else 0", "in_a_row + skipped")
of("windows", swap("log[:end][-patience:]]", "log[:end] if skipped]"))

# %% wrong one-skip-too-late
# You wait for one skip more than `patience`. The last of `patience` skips in a row stops the run.
swap("== patience", "> patience")
of("windows", swap("[-patience:]", "[-patience - 1 :]") & swap("== patience", "== patience + 1"))

# %% wrong scale-of-1-stops
# You stop the run at a scale of exactly 1. The limit is a scale below 1.
swap("scale < 1", "scale <= 1")
of("windows", swap("[0] < 1", "[0] <= 1"))

# %% wrong fall-taken-for-skip
# You look for falls of the scale. A scale of 0 can't fall, nor the first one. Use `skipped`.
swap("if skipped else", "if number and scale < log[number - 1][0] else")
of("windows", swap("[skipped for _, skipped in log[:end][-patience:]]",
    "[n and log[n][0] < log[n - 1][0] for n in range(end)][-patience:]"))

# %% wrong scale-ignored
# You count skips alone. A scale below 1 stops the run too, also if the skips are far apart.
swap("scale < 1 or ", "")
of("as_text", swap("if scale < 1", "if False"))

# %% wrong skips-ignored
# You look at the scale only. `patience` skips in a row stop the run too, at any scale.
swap(" or in_a_row == patience", "")
of("as_text", drop("if start"))

# %% wrong both-required
# You stop the run only where both reasons hold. Either is enough: join them with `or`.
swap("or in_a_row == patience", "and in_a_row >= patience")
of("windows", swap("or (len", "and (len"))

# %% wrong one-reason-first
# You look for one reason in the whole log before the other. Return the earlier of their two steps.
of("as_text", swap("min(low, default=None)", "low[0] if low else None"))
put("for n, (s, _) in enumerate(log):\n    if s < 1: return n", before="in_a_row = 0")
of("as_text", swap("low.append(start + patience - 1)", "return start + patience - 1"))

# %% wrong last-instead-of-first
# You return the last step at which a reason holds. The run has to stop at the first one.
(put("found = None", before="in_a_row = 0") & swap("return number", "found = number") &
    swap("== patience", ">= patience") & swap("return None", "return found"))
of("windows", swap("range(1, len(log) + 1)", "range(len(log), 0, -1)"))

# %% wrong start-of-the-row
# You return the step at which the row of skips began. The alarm can ring only at the last of them.
swap("return number", "return number if scale < 1 else number - patience + 1")
of("windows", swap("return end - 1", "return end - 1 if log[end - 1][0] < 1 else end - patience"))
of("as_text", swap("start + patience - 1", "start"))

# %% wrong zero-taken-for-none
# Where step 0 should stop the run, you return None, because 0 counts as False. Ask `is None`.
swap("return number", "return number or None")
of("as_text", swap("default=None)", "default=None) or None"))

# %% wrong counts-from-one
# Your number is one too high. The first step is number 0.
swap("enumerate(log)", "enumerate(log, 1)")
of("windows", swap("return end - 1", "return end"))

# %% wrong flag-returned
# You return whether the run should stop. The task asks for the number of the step, or None.
swap("return number", "return True") & swap("return None", "return False")
of("as_text", swap("min(low, default=None)", "bool(low)"))

# %% wrong none-forgotten
# Where the run needn't stop, you return a number. Return None there.
swap("return None", "return len(log)")
swap("return None", "return -1")
of("as_text", swap("default=None", "default=len(log)"))
