# %% statement points=2 minutes=15
# # A sum that keeps its small terms
#
# Write `kahan_sum(values)`: the sum of an FP16 tensor, without leaving FP16, to within two ulp.
#
# If you add one value after the other, each addition rounds, and what it rounds away is lost. The
# idea is to keep that loss in a second variable, and to put it back with the next value.
#
# `values` has one dimension and at most 1,000 elements, in any order. All values have the same
# sign, and the sum doesn't overflow. Return an FP16 tensor without dimensions.
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
# - The old total, the new total and the value give exactly what an addition rounded away.
# - After `new = total + value`, what arrived is `new - total`. The error: `(new - total) - value`.
# - Subtract that error from the next value before you add it. That is Kahan summation.

# %% probe
from amp_lessons.exercises.how_numbers_break.harness import values_to_add

probe = Probe(values_to_add, watch=True)

# %% judge
judge = Judge(same=within_ulps(2), asked_for="a float16 tensor without dimensions", pairs=False)

# %% passed
# Two FP16 numbers hold what one cannot. Some optimizers that keep weights in BF16 use this idea.

# %% right pairs_with_their_losses
def kahan_sum(values):
    lost = torch.zeros_like(values)
    while len(values) > 1:
        if len(values) % 2:
            values, lost = (torch.cat([x, x.new_zeros(1)]) for x in (values, lost))
        a, b = values[::2], values[1::2]
        values = a + b
        arrived = values - a
        lost = lost[::2] + lost[1::2] + ((a - (values - arrived)) + (b - arrived))
    return values[0] + lost[0]

# %% right two_numbers_for_one
def kahan_sum(values):
    def exactly(a, b):
        total = a + b
        arrived = total - a
        return total, (a - (total - arrived)) + (b - arrived)

    high = low = values.new_zeros(())
    for value in values:
        high, lost = exactly(high, value)
        high, low = exactly(high, low + lost)
    return high + low

# %% right kahan_with_other_signs
def kahan_sum(values):
    total, rest = torch.tensor(0.0).half(), torch.full((), 0.0).to(values.dtype)
    for i in torch.arange(len(values)):
        wanted = values[i] + rest
        before = total
        total = before + wanted
        rest = wanted - (total - before)
    return total

# %% rule left-fp16
# You left FP16: on the way, {how}. In real code that is right. Here the point is to do without.
NAMES = {"_to_copy": "a conversion", "_local_scalar_dense": "`item()`"}
ARITHMETIC = {f"aten::{name}" for name in ("add", "sub", "mul", "div", "sum", "rsub", "add_")}
def leaves(op):
    """A zero made in float32 and stored in FP16 is harmless, and so is a comparison."""
    if op["op"] == "aten::_local_scalar_dense":
        return op["dtype"] == "float"
    if "::" not in op["op"]:  # a way out of torch, such as `tolist`
        return True
    from_half = "float16" in op["takes"]
    if from_half and op["op"] == "aten::_to_copy":
        return op["dtype"] != "float16"
    return op["dtype"] in ("float32", "float64") and (from_half or op["op"] in ARITHMETIC)
def breaks(seen, right):
    for op in filter(leaves, seen.get("ops", ())):
        name = op["op"].removeprefix("aten::")
        gave = f" gave {op['dtype']}" if op["op"] != name else " took the values out of torch"
        return {"how": NAMES.get(name, f"`{name}`") + gave}
swap("value - lost", "value.float() - lost")
swap("for value in values", "for value in values.tolist()")
put("return torch.tensor(values.numpy().astype('float64').sum()).half()", before="lost = torch")

# %% rule reduction-called
# You called a reduction such as `sum()`, which adds in float32. Add one value after the other.
import re
PICKS = (
    "(.*_)?(select|slice|unbind|index|gather|split|narrow|take|chunk|strided|squeeze|expand|unfold|"
    "zeros|like|empty|full|nonzero|max|min|argmax|argmin|amax|amin|scalar_dense|sizes|flatten)"
)
SUMS = ("cumsum", "logcumsumexp", "convolution", "mm", "bmm", "addmm", "mv", "dot", "baddbmm")
def breaks(seen, right):
    for op in seen.get("ops", ()):
        name = op["op"].removeprefix("aten::")
        if name in SUMS or (op["shrinks"] and not re.fullmatch(PICKS, name)):
            return True
    return False
put("return values.sum()", before="lost = torch")
put("return values.cumsum(0)[-1]", before="lost = torch")

# %% rule with-dimensions
# Your result has the shape {shape}. Start from `torch.zeros(())`, or return `total[0]`.
def breaks(seen, right):
    value = seen.get("value")
    return {"shape": value["shape"]} if is_tensor(value) and value["shape"] else None
swap("return total", "return total[None]")

# %% rule only-added
# Your function only adds, so what an addition rounds away is gone. Less of it goes if you add in
# pairs, in parts, or small values first, and here that is still too much. Keep what was lost in a
# second variable, and put it back.
LESS = {f"aten::{name}" for name in ("sub", "sub_", "rsub", "neg", "neg_", "mul", "mul_")}
def breaks(seen, right):
    ran = {op["op"] for op in seen.get("ops", ())}
    adds = not ran & LESS and ran & {"aten::add", "aten::add_"}
    return adds and "value" in seen and not judge.same(right["value"], seen["value"])
of("pairs_with_their_losses", drop("lost = lost[") & swap("values[0] + lost[0]", "values[0]") &
    drop("arrived ="))
swap("value - lost", "value") & drop("lost = (new")
(swap("value - lost", "value") & drop("lost = (new") &
    swap("in values:", "in values[values.abs().argsort()]:"))

# %% program recursive_halves
def kahan_sum(values):
    if len(values) == 1:
        return values[0]
    middle = (len(values) + 1) // 2
    return kahan_sum(values[:middle]) + kahan_sum(values[middle:])

# %% program first_and_last
def kahan_sum(values):
    while len(values) > 1:
        middle = len(values) // 2
        rest = values[2 * middle :]
        values = torch.cat([values[:middle] + values[middle : 2 * middle], rest])
    return values[0]

# %% program in_parts
def kahan_sum(values):
    def added(parts):
        total = torch.zeros((), dtype=torch.float16)
        for part in parts:
            total += part
        return total

    return added([added(part) for part in values.split(int(len(values) ** 0.5))])

# %% wrong no-compensation
# What each of your additions rounds away is gone. Once the total is 2048 times as large as a value,
# adding the value may do nothing. Keep what was lost in a second variable.
swap("value - lost", "value")
drop("lost = (new")

# %% wrong compensation-sign
# Your compensation has the wrong sign, so it doubles each loss. Add its opposite.
swap("value - lost", "value + lost")
of("kahan_with_other_signs", swap("+ rest", "- rest"))

# %% wrong compensation-after-update
# You updated the total too early: its difference is 0. Keep the old one until the loss is known.
move("total = new", before="lost = (new")
of("kahan_with_other_signs", drop("before = total") & swap("before", "total", nth=0))

# %% wrong compensation-incomplete
# `new - total` is what arrived. For the loss, subtract what you added to the total.
swap("(new - total) - wanted", "new - total")
of("kahan_with_other_signs", swap("wanted - (total - before)", "before - total"))

# %% wrong first-value-twice
# You count the first value twice: the sum starts from it, and the loop adds it. Start from 0.
swap("torch.zeros((), dtype=values.dtype)", "values[0]", nth=1)
of("kahan_with_other_signs", swap("torch.tensor(0.0).half()", "values[0]"))

# %% wrong loss-against-the-value
# You compare what arrived with the value alone. What you added is the value and the last loss.
swap("- wanted", "- value")
of("kahan_with_other_signs", swap("rest = wanted", "rest = values[i]"))

# %% wrong losses-put-back-again
# You put the sum of all losses back with every value. Keep only the last, so each comes back once.
swap("(new - total) - wanted", "lost + ((new - total) - wanted)")
swap("lost = (new", "lost += (new")
of("kahan_with_other_signs", swap("rest = wanted", "rest = rest + wanted"))

# %% wrong losses-added-at-the-end
# You add up the losses and put them back once, at the end. Their sum is an FP16 number too: when it
# is large, small losses no longer change it. Put each loss back with the next value.
swap("value - lost", "value") & swap("lost = (", "lost += (") & swap("n total", "n total - lost")
of("kahan_with_other_signs", swap(" + rest", "") & swap("rest = wanted", "rest = rest + wanted") &
    swap("return total", "return total + rest"))
