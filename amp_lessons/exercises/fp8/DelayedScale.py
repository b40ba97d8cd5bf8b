# %% statement points=3 minutes=20
# # Repair a history of scales
#
# This class casts the tensors of one layer to E4M3 with delayed scaling. It has four faults.

# %% demo
class BrokenScale:
    def __init__(self, length):
        self.history = [0.0] * length

    def cast(self, x):
        scale = 448 / max(self.history)
        q = (x * scale).clamp(-448, 448).to(torch.float8_e4m3fn)
        self.history = [*self.history[1:], (q.float() / scale).abs().max().item()]
        return q, scale


try:
    BrokenScale(4).cast(torch.randn(8))
except ZeroDivisionError as error:
    print("ZeroDivisionError:", error)

# %% text
# Write the class `DelayedScale`, with the same two methods. `cast(x)` returns a pair `(q,
# scale)`: `q` is `x` times the scale in `torch.float8_e4m3fn`, cut off at 448, and `scale` is a
# number. `x` is a float32 tensor with one dimension. Leave it as it is.
#
# - A tensor *counts* if its largest magnitude, its amax, is finite and not zero.
# - The scale is 448 divided by the largest amax of the last `length` tensors that counted, before
#   `x`.
# - If none has counted yet, take the amax of `x` itself. If `x` doesn't count either, the scale is
#   1.
# - The amax is that of `x`, and not of what was stored.

# %% answer
class DelayedScale:
    """Casts to E4M3 with the scale of earlier tensors."""

    def __init__(self, length):
        ### BEGIN SOLUTION
        self.length = length
        self.history = []
        ### END SOLUTION

    def cast(self, x):
        """(q, scale): x times the scale, as float8_e4m3fn, and the scale."""
        ### BEGIN SOLUTION
        amax = x.abs().max().item()
        counts = 0 < amax < float("inf")
        known = self.history or ([amax] if counts else [])
        scale = 448 / max(known) if known else 1.0
        if counts:
            self.history = [*self.history, amax][-self.length :]
        return (x * scale).clamp(-448, 448).to(torch.float8_e4m3fn), scale
        ### END SOLUTION

# %% hints
# - What was cut off can't show that it was too large. Where does the broken class measure amax?
# - What does the broken class remember before the first tensor, and after a tensor of zeros?
# - Find amax of `x`, then the scale from the history, and change the history last.

# %% probe
from amp_lessons.exercises.fp8.harness import delayed_cases, play_delayed

probe = Probe(delayed_cases, play=play_delayed, own=("amp_lessons.amp.numbers.float8",))

# %% judge
judge = Judge(same=within(1e-4), asked_for="a pair (q, scale) from cast", pairs=False)

# %% passed
# A history must see what came in, and only what says something. Transformer Engine once had one of
# these faults: modules that didn't run left zeros in theirs.

# %% right a_deque_of_tensors
class DelayedScale:
    def __init__(self, length):
        from collections import deque

        self.past = deque(maxlen=length)

    def cast(self, x):
        own = x.abs().amax()
        good = torch.isfinite(own) and own > 0
        if self.past:
            top = torch.stack(list(self.past)).max()
        else:
            top = own if good else torch.tensor(448.0)
        if good:
            self.past.append(own)
        scale = 448 / top
        return torch.clamp(x * scale, min=-448, max=448).to(torch.float8_e4m3fn), scale

# %% right a_ring_of_numbers
class DelayedScale:
    def __init__(self, length):
        self.ring, self.place = torch.zeros(length, dtype=torch.float64), 0

    def cast(self, x):
        amax = max(x.max().item(), -x.min().item())
        useful = amax > 0 and amax != float("inf")
        top = self.ring.max().item()
        if top == 0:
            top = amax if useful else 448.0
        if useful:
            self.ring[self.place % len(self.ring)] = amax
            self.place += 1
        return (x * (448 / top)).clamp(-448.0, 448.0).to(torch.float8_e4m3fn), 448 / top

# %% rule x-changed
# You changed `x` itself, and the caller still needs it. Write `x * scale`, not `x *= scale`.
def breaks(seen, right):
    return noted(seen, "x") == "changed"
swap("(x * scale)", "x.mul_(scale)")
of("a_ring_of_numbers", swap("(x * (448 / top))", "x.mul_(448 / top)"))

# %% rule another-q
# Your `q` isn't what was asked for: it is a {what}. It has the shape of `x` and the dtype
# `torch.float8_e4m3fn`.
def breaks(seen, right):
    what = noted(seen, "q")
    return what not in (None, noted(right, "q"), "not x times the scale") and {"what": what}
swap(".to(torch.float8_e4m3fn)", "")
of("a_ring_of_numbers", swap("torch.float8_e4m3fn", "torch.float8_e5m2"))

# %% rule no-pair
# `cast` returned a {what}. Return `(q, scale)`: without the scale nobody can bring `q` back.
def breaks(seen, right):
    what = noted(seen, "cast returned")
    return what is not None and {"what": what}
swap("(torch.float8_e4m3fn), scale", "(torch.float8_e4m3fn)")
of("a_ring_of_numbers", swap("e4m3fn), 448 / top", "e4m3fn)"))

# %% wrong amax-after-the-cast
# You measure amax on what was stored. What was cut off at the old amax can't show a larger one, so
# after a jump the scale never comes down. Measure the amax of `x`.
(swap("return (x * scale).clamp(-448, 448).to(torch.float8_e4m3fn), scale", "return q, scale") &
    put("q = (x * scale).clamp(-448, 448).to(torch.float8_e4m3fn)\n"
        "amax = (q.float() / scale).abs().max().item()", before="if counts"))
of("a_ring_of_numbers", swap("= amax", "= min(amax, top)", nth=2))
of("a_ring_of_numbers", put("q = (x * (448 / top)).clamp(-448.0, 448.0).to(torch.float8_e4m3fn)\n"
    "amax = q.float().abs().max().item() / (448 / top)", before="if useful:"))
of("a_deque_of_tensors", swap("self.past.append(own)", "self.past.append(torch.minimum(own, top))"))

# %% wrong current-scaling
# Your scale knows the amax of `x` itself, so it is never late. That is current scaling, and it
# needs one more pass over the tensor. Take the scale from the tensors before, and add amax
# afterwards.
move("if counts", before="known =")
of("a_deque_of_tensors", move("if good", before="if self.past"))
of("a_ring_of_numbers", swap("top = self.ring.max().item()",
    "top = max(self.ring.max().item(), amax if useful else 0)"))

# %% wrong first-scale-is-one
# Your first scale is 1. Tensors of another size than 1 are then lost: here even gradients of 1e-7.
# While there is no history, take the amax of `x` itself.
swap("self.history or ([amax] if counts else [])", "self.history")
of("a_deque_of_tensors", swap("own if good else torch.tensor(448.0)", "torch.tensor(448.0)"))

# %% wrong first-tensor-forgotten
# The first tensor gives its own scale, but you don't add it to the history. So the second one
# finds no past either.
put("if counts and not self.history and not hasattr(self, 'seen'): self.seen, counts = 1, False",
    after="scale =")
of("a_deque_of_tensors", swap("if good:", "if good and seen:") & put(
    "seen = hasattr(self, 'first')\nif good: self.first = own", before="if good and"))

# %% wrong zeros-remembered
# A tensor of zeros goes into your history, and pushes out an amax that says something. An expert
# without tokens does that. Leave the history as it is.
swap("if counts:", "if amax < float('inf'):") & swap(
    "known = self.history or", "known = [a for a in self.history if a] or")
of("a_ring_of_numbers", swap("if useful:", "if amax != float('inf') and amax == amax:"))

# %% wrong inf-remembered
# An inf or a NaN goes into your history. Then the scale is 0 or NaN until it has left again. Add
# an amax only if it is finite.
swap("0 < amax < float(\"inf\")", "amax > 0")
of("a_deque_of_tensors", swap("torch.isfinite(own) and own > 0", "own > 0"))
swap("0 < amax < float(\"inf\")", "amax != 0")
of("a_deque_of_tensors", swap("torch.isfinite(own) and own > 0", "own != 0"))
of("a_ring_of_numbers", swap("amax > 0 and amax != float(\"inf\")", "amax != 0"))

# %% wrong nan-remembered
# A NaN goes into your history, and every scale after it is NaN. A comparison such as `amax != inf`
# is True for NaN. Ask `math.isfinite`.
swap("0 < amax < float(\"inf\")", "amax not in (0, float('inf'))")
of("a_deque_of_tensors", swap("torch.isfinite(own) and own > 0", "not own.isinf() and own != 0"))
of("a_ring_of_numbers", swap("amax > 0 and", "amax != 0 and"))

# %% wrong last-one-only
# You take the scale from the last tensor alone. After a small one, the next large one is cut off.
# Take the largest amax that you remember.
swap("max(known)", "known[-1]")
of("a_deque_of_tensors", swap("torch.stack(list(self.past)).max()", "self.past[-1]"))

# %% wrong average-of-the-past
# You take the average of the amaxes, so everything above it is cut off. Take the largest.
swap("max(known)", "(sum(known) / len(known))")
of("a_deque_of_tensors", swap("torch.stack(list(self.past)).max()",
    "torch.stack(list(self.past)).mean()"))

# %% wrong never-forgets
# Your history never forgets, so one spike keeps the scale low for the whole training. Keep the last
# `length` amaxes.
swap("[-self.length :]", "")
of("a_deque_of_tensors", swap("maxlen=length", ""))

# %% wrong one-too-many
# You remember one amax too many. `length` tensors count, and a list of them ends at `[-length:]`.
swap("[-self.length :]", "[-self.length - 1 :]")
of("a_deque_of_tensors", swap("maxlen=length", "maxlen=length + 1"))

# %% wrong sign-forgotten
# You took the largest value and not the largest *magnitude*. Take `abs()` first.
swap("x.abs().max()", "x.max()")
of("a_deque_of_tensors", swap("x.abs().amax()", "x.amax()"))
of("a_ring_of_numbers", swap("max(x.max().item(), -x.min().item())", "x.max().item()"))

# %% wrong shared-history
# All your objects share one history, so layers mix up their scales. A list in the class, or as a
# default argument, exists once. Make a new one in `__init__`.
(put("past = []", before="def __init__") & swap("self.history = []", "self.history = self.past") &
    swap("self.history = [*self.history, amax][-self.length :]", "self.history.append(amax)") &
    swap("self.history or", "self.history[-self.length :] or"))
of("a_deque_of_tensors", swap("self, length)", "self, length, past=[])") & swap(
    "self.past = deque(maxlen=length)", "self.past, self.length = past, length") & swap(
    "list(self.past)", "self.past[-self.length :]"))

# %% wrong reciprocal
# You return the reciprocal of the scale. `q` is `x` times the scale.
swap("(torch.float8_e4m3fn), scale", "(torch.float8_e4m3fn), 1 / scale")
of("a_ring_of_numbers", swap("e4m3fn), 448 / top", "e4m3fn), top / 448"))

# %% wrong ready-made
# %% program the_courses_own
class DelayedScale:
    def __init__(self, length):
        from amp_lessons.amp.numbers import DelayedScale

        self.inner = DelayedScale(length)

    def cast(self, x):
        scale = self.inner.next(x)
        return (x * scale).clamp(-448, 448).to(torch.float8_e4m3fn), scale
