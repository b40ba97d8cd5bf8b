# %% statement points=2 minutes=15
# # A sum that keeps its small terms
#
# Write `kahan_sum(values)`. It returns the sum of an FP16 tensor without leaving FP16, and still
# right to within two ulp.
#
# If you add one value after the other, each addition rounds, and what it rounds away is lost. The
# idea is to keep that loss in a second variable, and to put it back with the next value.
#
# `values` has one dimension. All values have the same sign, and the sum doesn't overflow. Return an
# FP16 tensor without dimensions.
#
# Every tensor in your function stays in `torch.float16`, so no `.float()`. Don't call `sum()` or
# another reduction, and don't take the values out of torch with `.item()`, `.tolist()` or NumPy.
# Constants such as `0.0` are fine.

# %% answer
def kahan_sum(values):
    """The sum of a float16 tensor of shape (n,), as a float16 tensor of shape ()."""
    ### BEGIN SOLUTION
    total = torch.zeros((), dtype=values.dtype)
    lost = torch.zeros((), dtype=values.dtype)
    for value in values:
        wanted = value - lost
        new = total + wanted
        lost = (new - total) - wanted
        total = new
    return total
    ### END SOLUTION

# %% hints
# - Each addition rounds. While the total is larger than the value, you can compute exactly, in
#   FP16, what was rounded away. You need the old total, the new total and the value.
# - After `new = total + value`, the part that arrived is `new - total`. The error is
#   `(new - total) - value`.
# - Subtract that error from the next value before you add it. That is Kahan summation.

# %% probe
from amp_lessons.exercises.how_numbers_break.stage import values_to_add

probe = Probe(values_to_add, watch=True)

# %% judge
import re


judge = Judge(same=within_ulps(2), asked_for="a float16 tensor without dimensions", pairs=False)

# %% passed
# Two FP16 numbers hold what one cannot. Optimizers that keep weights in BF16 use the same idea.

# %% right zeros_made_in_float32_first
def kahan_sum(values):
    total = torch.tensor(0.0).half()
    lost = torch.full((), 0.0).to(values.dtype)
    for i in torch.arange(len(values)):
        wanted = values[i] - lost
        new = total + wanted
        lost = (new - total) - wanted
        total = new
    return total

# %% right halves_added_up
def kahan_sum(values):
    while len(values) > 1:
        if len(values) % 2:
            values = torch.cat([values, torch.zeros(1, dtype=values.dtype)])
        values = values[::2] + values[1::2]
    return values[0]

# %% right kahan_with_other_signs
def kahan_sum(values):
    total, rest = values[0], values[0] - values[0]
    for i in range(1, values.shape[0]):
        wanted = values[i] + rest
        before = total
        total = before + wanted
        rest = wanted - (total - before)
    return total

# %% rule left-fp16
# You left FP16 on the way: an operation gave a wider type, or you took the values out of torch with
# `item()`, `tolist()` or NumPy. In real code a wider accumulator is the right answer, and hardware
# has one. Here the point is to do without.
WIDE = {"float32", "float64"}
ARITHMETIC = {f"aten::{name}" for name in ("add", "sub", "mul", "div", "sum", "rsub", "add_")}
def leaves(op):
    """To make a zero in float32 and store it in FP16 is harmless, and so is a comparison."""
    if op["op"] == "aten::_local_scalar_dense":
        return op["dtype"] == "float"
    if op["op"] in ("tolist", "numpy", "__array__"):
        return True
    from_half = "float16" in op["takes"]
    if from_half and op["op"] == "aten::_to_copy":
        return op["dtype"] != "float16"
    return op["dtype"] in WIDE and (from_half or op["op"] in ARITHMETIC)
def breaks(seen, right):
    return any(leaves(op) for op in seen.get("ops", ()))
swap("value - lost", "value.float() - lost")
swap("for value in values", "for value in values.tolist()")
put("return torch.tensor(__import__('math').fsum(values.tolist())).half()", before="lost = torch")
put("return torch.tensor(values.numpy().astype('float64').sum()).half()", before="lost = torch")
put("return ((values * 1024).long().sum() / 1024).half()", before="lost = torch")

# %% rule reduction-called
# You called a reduction such as `sum()`. It adds in float32 inside and rounds once at the end, so
# it doesn't have this problem. Add one value after the other.
PICKS = (
    "(.*_)?(select|slice|unbind|index|gather|split|narrow|take|chunk|strided|squeeze|expand|unfold|"
    "zeros|like|empty|full|nonzero|max|min|argmax|argmin|amax|amin|scalar_dense|sizes|flatten)"
)
def breaks(seen, right):
    for op in seen.get("ops", ()):
        name = op["op"].removeprefix("aten::")
        if name in ("cumsum", "logcumsumexp") or (op["shrinks"] and not re.fullmatch(PICKS, name)):
            return True
    return False
put("return values.sum()", before="lost = torch")
put("return torch.vdot(values, torch.ones_like(values))", before="lost = torch")
put("return values.cumsum(0)[-1]", before="lost = torch")
put("return torch.diag(values).trace()", before="lost = torch")

# %% wrong no-compensation
# You add one value after the other, and what each addition rounds away is gone. Once the total is
# 2048 times as large as a value, adding the value may do nothing. Keep what was lost in a second
# variable.
swap("value - lost", "value")
drop("lost = (new")
of("kahan_with_other_signs", swap(" + rest", ""))

# %% wrong compensation-sign
# Your compensation has the wrong sign: it doubles each loss instead of making up for it. If the
# loss is `(new - total) - value`, subtract it from the next value. If it is
# `value - (new - total)`, add it.
swap("value - lost", "value + lost")
swap("(new - total) - wanted", "wanted - (new - total)")
of("kahan_with_other_signs", swap("+ rest", "- rest"))

# %% wrong compensation-after-update
# You updated the total before you computed the loss, so the difference of the new and the old total
# is 0. Keep the old total until the loss is known.
move("total = new", before="lost = (new")
of("zeros_made_in_float32_first", move("total = new", after="new = total"))
of("kahan_with_other_signs", drop("before = total") & swap("before", "total", nth=0))

# %% wrong compensation-incomplete
# `new - total` is what was really added. The loss is the difference between that and what should
# have been added: `(new - total) - value`.
swap("(new - total) - wanted", "new - total")
of("zeros_made_in_float32_first", swap("lost = (new - total) - wanted", "lost = new - total"))

# %% wrong loss-against-the-value
# You compare what arrived with the value alone. But you added the value and the last loss together,
# so compare it with their sum, as it was added.
swap("- wanted", "- value")
of("kahan_with_other_signs", swap("rest = wanted", "rest = values[i]"))

# %% wrong losses-put-back-again
# You add up all losses and put the whole sum back with every value. Each loss must come back only
# once: keep the loss of the last addition alone.
swap("(new - total) - wanted", "lost + ((new - total) - wanted)")
of("zeros_made_in_float32_first", swap("lost = (new", "lost += (new"))
of("kahan_with_other_signs", swap("rest = wanted", "rest = rest + wanted"))

# %% wrong losses-added-at-the-end
# You add up the losses and put them back once, at the end. Their sum is an FP16 number too: when it
# is large, small losses no longer change it. Put each loss back with the next value.
(swap("value - lost", "value") & swap("lost = (new", "lost += (new") & swap("return total",
    "return total - lost"))

# %% program neumaier proof
def kahan_sum(values):
    total = torch.zeros((), dtype=torch.float16)
    lost = torch.zeros((), dtype=torch.float16)
    for v in values:
        new = total + v
        larger = abs(total) >= abs(v)
        lost = lost + (((total - new) + v) if larger else ((v - new) + total))
        total = new
    return total + lost

# %% wrong wrong-value
swap("return total", "return total[None]")
