# %% statement points=2 minutes=15
# # Count the casts
#
# Write `count_casts(work)`: how many casts from float32 to float16 or bfloat16 happen while
# `work()` runs, including those that autocast inserts?
#
# - `work` takes no arguments, and what it returns doesn't matter. It may do anything: run layers
#   with the cache or without, frozen, under `no_grad` or in `inference_mode`, run a backward pass,
#   copy tensors, cast them by hand.
# - Call it once, and return a whole number.
# - Only casts from float32 to 16 bits count. Filling a 16-bit tensor with `copy_` doesn't count.
#
# [[deep autocast_regions]] shows a `TorchDispatchMode`. In `inference_mode`, a cast has another
# name there.

# %% given
from torch.utils._python_dispatch import TorchDispatchMode

# %% answer
def count_casts(work):
    """Count the casts from float32 to a 16-bit float while work() runs."""
    ### BEGIN SOLUTION
    casts = (torch.ops.aten._to_copy, torch.ops.aten.to)
    low = (torch.float16, torch.bfloat16)

    class Counter(TorchDispatchMode):
        number = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            if func.overloadpacket in casts:
                self.number += args[0].dtype == torch.float32 and result.dtype in low
            return result

    with Counter() as counter:
        work()
    return counter.number
    ### END SOLUTION

# %% hints
# - Autocast inserts its casts below Python. Where could you watch what really runs?
# - A `TorchDispatchMode` gets each operation as `func`, with its arguments. Call it, and look at
#   the dtypes of `args[0]` and of the result.
# - `func.overloadpacket` names the operation: `aten._to_copy`, or `aten.to` in `inference_mode`.

# %% probe
from amp_lessons.exercises.autocast_regions.harness_calls import works

WATCHES = ("amp.policy.regions", "lessons.myths.proofs:operations", "amp.explain")
probe = Probe(works, own=tuple(f"amp_lessons.{room}" for room in WATCHES))

# %% judge
judge = Judge(asked_for="a whole number")

# %% passed
# You can count what autocast does. The cache shows as casts that don't happen.

# %% right names_in_a_list
def count_casts(work):
    found = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if func._schema.name in ("aten::_to_copy", "aten::to"):
                found.append((args[0].dtype, out.dtype))
            return out

    with Watch():
        work()
    low = (torch.float16, torch.bfloat16)
    return sum(a == torch.float32 and b in low for a, b in found)

# %% right any_operation_that_narrows
def count_casts(work):
    count = torch.zeros((), dtype=torch.int64)

    class Narrowing(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if args and all(isinstance(t, torch.Tensor) for t in (args[0], out)):
                narrow = out.is_floating_point() and out.element_size() == 2
                count.add_(int(args[0].dtype is torch.float32 and narrow))
            return out

    with Narrowing():
        work()
    return count

# %% wrong looked-above
# You don't see the casts that autocast inserts, below Python's calls. A `TorchFunctionMode` or a
# patched `Tensor.to` sees only those written by hand. A `TorchDispatchMode` sees both.
(swap("TorchDispatchMode", "torch.overrides.TorchFunctionMode") &
    swap("torch_dispatch", "torch_function") & swap("func.overloadpacket in casts",
    'func.__name__ in ("to", "half", "bfloat16")'))
of("names_in_a_list", swap("TorchDispatchMode", "torch.overrides.TorchFunctionMode") &
    swap("torch_dispatch", "torch_function") & swap("func._schema.name", "func.__name__") &
    swap('"aten::to"', '"to", "half"'))

# %% wrong never-counted
# Your count is always 0. Is the mode active while `work()` runs, and does it count in
# `__torch_dispatch__`? Enter it with `with`, and call `work()` inside.
swap("with Counter() as counter:", "counter = Counter()\n    if True:")
swap("if func.overloadpacket in casts", "if func in casts")

# %% wrong inference-missed
# You missed casts in `inference_mode`: there a cast arrives as `aten::to`, in one of several
# overloads. `func.overloadpacket` is `torch.ops.aten.to` for all of them.
swap("(torch.ops.aten._to_copy, torch.ops.aten.to)", "(torch.ops.aten._to_copy,)")
of("names_in_a_list", swap('in ("aten::_to_copy", "aten::to")', '== "aten::_to_copy"'))
swap("func.overloadpacket in casts", "func in (casts[0].default, casts[1].dtype)")

# %% wrong copies-missed
# You counted `aten::to` only. Outside `inference_mode` a cast arrives as `aten::_to_copy`.
swap("(torch.ops.aten._to_copy, torch.ops.aten.to)", "(torch.ops.aten.to,)")
of("names_in_a_list", swap('in ("aten::_to_copy", "aten::to")', '== "aten::to"'))

# %% wrong every-copy-counted
# You counted casts in other directions too. A cast from 16 bits back to float32 doesn't count, and
# neither does one to integers or float64. Look at both dtypes: of `args[0]` and of the result.
swap("args[0].dtype == torch.float32 and result.dtype in low", "1")
swap(" and result.dtype in low", "")
of("names_in_a_list", swap("a == torch.float32 and b in low", "a != b"))

# %% wrong results-counted
# You counted all 16-bit results, and a matrix product has one too. A cast takes float32.
(swap("func.overloadpacket in casts", "isinstance(result, torch.Tensor)") &
    swap("args[0].dtype == torch.float32 and ", ""))
(swap("func.overloadpacket in casts", "args and isinstance(args[0], torch.Tensor)") &
    swap("args[0].dtype == torch.float32", "isinstance(result, torch.Tensor)"))
of("any_operation_that_narrows", swap("args[0].dtype is torch.float32 and narrow", "narrow"))

# %% wrong any-source-counted
# You counted casts from any dtype. Those from float64, integers or 16 bits don't count.
swap("args[0].dtype == torch.float32 and ", "")
swap("args[0].dtype == torch.float32", "args[0].dtype not in low")
of("names_in_a_list", swap("a == torch.float32 and b in low", "a != b and b in low"))

# %% wrong copy-counted
# You counted `copy_` too. It writes into a tensor that is there already, so it doesn't count.
(swap("func.overloadpacket in casts", "func.overloadpacket in (*casts, torch.ops.aten.copy_)") &
    swap("args[0].dtype", "[a.dtype for a in args if isinstance(a, torch.Tensor)][-1]"))
of("names_in_a_list", swap('"aten::to")', '"aten::to", "aten::copy_")') &
    swap("(args[0].dtype, out", "(args[func._schema.name[-1] == '_'].dtype, out"))

# %% wrong ran-twice
# You ran `work()` more than once, and a second run can differ from the first. Call it once.
put("work()", before="with Counter")
of("names_in_a_list", put("work()", before="with Watch"))

# %% wrong region-of-your-own
# You opened an autocast region around `work()`, so all layers are cast now. Run `work()` as it is.
swap("with Counter() as counter:", 'with torch.autocast("cpu"), Counter() as counter:')
wrap('with torch.autocast("cpu", dtype=torch.bfloat16):', "with Counter")

# %% wrong one-format-only
# You counted the casts to one 16-bit format. Autocast works with both: float16 and bfloat16.
swap("result.dtype in low", "result.dtype == torch.float16")
swap("result.dtype in low", "result.dtype == torch.bfloat16")
of("names_in_a_list", swap("(torch.float16, torch.bfloat16)", "(torch.half,)"))

# %% wrong kinds-not-casts
# You counted each kind of cast once, such as float32 to float16. Count every cast.
of("names_in_a_list", swap("found)", "set(found))"))
(swap("number = 0", "kinds = set()") & swap("self.number += args[0]", "if args[0]") & swap("in low",
    "in low: self.kinds.add(result.dtype)") & swap("counter.number", "len(counter.kinds)"))

# %% wrong tensors-not-casts
# You counted each tensor once, and it may be cast several times. Count every cast.
(swap("number = 0", "seen = {}") & swap("self.number += args[0]", "if args[0]") & swap("in low",
    "in low: self.seen[args[0].data_ptr()] = args[0]") & swap("counter.number",
    "len(counter.seen)"))
of("names_in_a_list", swap("args[0].dtype, out", "args[0], out") &
    swap("sum(a == torch.float32 and b in low for a, b in found)",
    "len({id(a) for a, b in found if a.dtype == torch.float32 and b in low})"))

# %% wrong returned-none
drop("return counter.number")

# %% wrong wrong-type
swap("return counter.number", "return [counter.number]")

# %% wrong ready-made

# %% program with_the_course_package
def count_casts(work):
    from amp_lessons.amp.policy.regions import casts

    with casts() as found:
        work()
    return len(found)
