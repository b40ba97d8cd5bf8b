# === mutant: function_mode -> looked-above
def count_casts(work):
    from torch.overrides import TorchFunctionMode

    class Counter(TorchFunctionMode):
        number = 0

        def __torch_function__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            if func.__name__ in ("to", "half", "bfloat16"):
                self.number += result.dtype in (torch.float16, torch.bfloat16)
            return result

    with Counter() as counter:
        work()
    return counter.number


# === mutant: nothing_seen -> looked-above
def count_casts(work):
    casts = []
    work()
    return len(casts)


# === mutant: to_copy_only -> inference-missed
def count_casts(work):
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counter(TorchDispatchMode):
        number = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if func is torch.ops.aten._to_copy.default and args[0].dtype == torch.float32:
                self.number += out.dtype in (torch.float16, torch.bfloat16)
            return out

    with Counter() as counter:
        work()
    return counter.number


# === mutant: every_to_copy -> every-copy-counted
def count_casts(work):
    from torch.utils._python_dispatch import TorchDispatchMode

    names = []

    class Names(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            names.append(str(func))
            return func(*args, **(kwargs or {}))

    with Names():
        work()
    return sum("_to_copy" in name for name in names)


# === mutant: every_change_of_dtype -> every-copy-counted
def count_casts(work):
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counter(TorchDispatchMode):
        number = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if func.overloadpacket in (torch.ops.aten._to_copy, torch.ops.aten.to):
                self.number += out.dtype != args[0].dtype
            return out

    with Counter() as counter:
        work()
    return counter.number


# === mutant: every_16_bit_result -> results-counted
def count_casts(work):
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counter(TorchDispatchMode):
        number = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if isinstance(out, torch.Tensor) and isinstance(args[0], torch.Tensor):
                self.number += out.dtype in (torch.float16, torch.bfloat16)
            return out

    with Counter() as counter:
        work()
    return counter.number


# === mutant: half_is_the_only_half -> one-format-only
def count_casts(work):
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counter(TorchDispatchMode):
        number = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if func.overloadpacket in (torch.ops.aten._to_copy, torch.ops.aten.to):
                self.number += args[0].dtype == torch.float32 and out.dtype == torch.float16
            return out

    with Counter() as counter:
        work()
    return counter.number


# === mutant: kinds_of_casts_not_casts -> wrong-value
def count_casts(work):
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = set()

    class Kinds(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if func.overloadpacket in (torch.ops.aten._to_copy, torch.ops.aten.to):
                if args[0].dtype == torch.float32 and out.dtype in (torch.float16, torch.bfloat16):
                    seen.add(tuple(out.shape))
            return out

    with Kinds():
        work()
    return len(seen)


# === mutant: nothing_returned -> returned-none
def count_casts(work):
    work()


# === mutant: a_list_of_casts -> wrong-type
def count_casts(work):
    work()
    return ["float16"]


# === correct: schema_names_and_a_list
def count_casts(work):
    from torch.utils._python_dispatch import TorchDispatchMode

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


# === correct: by_the_size_of_an_element
def count_casts(work):
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counter(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.total = torch.zeros((), dtype=torch.int64)

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **({} if kwargs is None else kwargs))
            name = func.overloadpacket.__name__
            if name in ("_to_copy", "to") and args[0].dtype is torch.float32:
                self.total += int(out.is_floating_point() and out.element_size() == 2)
            return out

    counter = Counter()
    with counter:
        work()
    return int(counter.total)


# === correct: any_op_that_narrows
def count_casts(work):
    from torch.utils._python_dispatch import TorchDispatchMode

    count = 0

    class Narrowing(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal count
            out = func(*args, **(kwargs or {}))
            if args and all(isinstance(t, torch.Tensor) for t in (args[0], out)):
                low = out.dtype in (torch.float16, torch.bfloat16)
                count += args[0].dtype == torch.float32 and low
            return out

    with Narrowing():
        work()
    return torch.tensor(count)


# === mutant: warm_up_first -> ran-twice
from torch.utils._python_dispatch import TorchDispatchMode
def count_casts(work):
    class C(TorchDispatchMode):
        n = 0
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if func.overloadpacket in (torch.ops.aten._to_copy, torch.ops.aten.to):
                self.n += args[0].dtype == torch.float32 and out.dtype in (torch.float16, torch.bfloat16)
            return out
    work()
    with C() as c:
        work()
    return c.n


# === mutant: from_any_float -> any-source-counted
from torch.utils._python_dispatch import TorchDispatchMode
def count_casts(work):
    low = (torch.float16, torch.bfloat16)
    class C(TorchDispatchMode):
        n = 0
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if func.overloadpacket in (torch.ops.aten._to_copy, torch.ops.aten.to):
                self.n += args[0].dtype not in low and out.dtype in low
            return out
    with C() as c:
        work()
    return c.n


# === mutant: cache_cleared_off -> region-of-your-own
from torch.utils._python_dispatch import TorchDispatchMode
def count_casts(work):
    class C(TorchDispatchMode):
        n = 0
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if func.overloadpacket in (torch.ops.aten._to_copy, torch.ops.aten.to):
                self.n += args[0].dtype == torch.float32 and out.dtype in (torch.float16, torch.bfloat16)
            return out
    with torch.autocast("cpu"), C() as c:
        work()
    return c.n


# === correct: numpy_and_counter
from collections import Counter
import numpy as np
from torch.utils._python_dispatch import TorchDispatchMode
def count_casts(work):
    seen = Counter()
    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            name = func.name().split(".")[0]
            if name in {"aten::to", "aten::_to_copy"}:
                seen[args[0].dtype, out.dtype] += 1
            return out
    with Log():
        work()
    return np.int64(seen[torch.float32, torch.float16] + seen[torch.float32, torch.bfloat16])
