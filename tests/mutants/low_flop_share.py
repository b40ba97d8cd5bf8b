# === mutant: no_autocast -> always-zero
def low_flop_share(model, x, region):
    low = total = 0

    class Count(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal low, total
            out = func(*args, **(kwargs or {}))
            if func.overloadpacket in flop_registry:
                n = flop_registry[func.overloadpacket](*args, **(kwargs or {}), out_val=out)
                total += n
                low += n * (out.dtype == region)
            return out

    with Count():
        model(x)
    return low / total


# === mutant: of_the_parameters -> always-zero
def low_flop_share(model, x, region):
    sizes = [(p.numel(), p.dtype) for p in model.parameters()]
    return sum(n for n, d in sizes if d == region) / sum(n for n, _ in sizes)


# === mutant: how_many_products -> counts-ops
def low_flop_share(model, x, region):
    dtypes = []

    class Count(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if func.overloadpacket in flop_registry:
                dtypes.append(out.dtype)
            return out

    with torch.autocast("cpu", dtype=region), Count():
        model(x)
    return dtypes.count(region) / len(dtypes)


# === mutant: all_ops_alike -> counts-every-op
def low_flop_share(model, x, region):
    dtypes = []

    class Count(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if isinstance(out, torch.Tensor):
                dtypes.append(out.dtype)
            return out

    with torch.no_grad(), torch.autocast("cpu", dtype=region), Count():
        model(x)
    return dtypes.count(region) / len(dtypes)


# === mutant: hooks_on_layers -> modules-only
def low_flop_share(model, x, region):
    counted = []

    def hook(module, args, output):
        flops = 2 * module.weight.numel() * (output.numel() // module.weight.shape[0])
        counted.append((flops, output.dtype))

    layers = [m for m in model.modules() if isinstance(m, (nn.Linear, nn.Conv1d))]
    handles = [m.register_forward_hook(hook) for m in layers]
    with torch.autocast("cpu", dtype=region):
        model(x)
    for h in handles:
        h.remove()
    return sum(n for n, d in counted if d == region) / sum(n for n, d in counted)


# === mutant: what_goes_in -> inputs-before-the-cast
def low_flop_share(model, x, region):
    counted = []

    def hook(module, args, output):
        flops = 2 * module.weight.numel() * (output.numel() // module.weight.shape[0])
        counted.append((flops, args[0].dtype))

    layers = [m for m in model.modules() if isinstance(m, (nn.Linear, nn.Conv1d))]
    handles = [m.register_forward_hook(hook) for m in layers]
    with torch.autocast("cpu", dtype=region):
        model(x)
    for h in handles:
        h.remove()
    return sum(n for n, d in counted if d == region) / sum(n for n, d in counted)


# === mutant: amp_means_float16 -> one-format-only
def low_flop_share(model, x, region):
    low = total = 0

    class Count(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal low, total
            out = func(*args, **(kwargs or {}))
            if func.overloadpacket in flop_registry:
                n = flop_registry[func.overloadpacket](*args, **(kwargs or {}), out_val=out)
                total += n
                low += n if out.dtype == torch.float16 else 0
            return out

    with torch.autocast("cpu", dtype=region), Count():
        model(x)
    return low / total


# === mutant: in_percent -> percent
def low_flop_share(model, x, region):
    low = total = 0

    class Count(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal low, total
            out = func(*args, **(kwargs or {}))
            if func.overloadpacket in flop_registry:
                n = flop_registry[func.overloadpacket](*args, **(kwargs or {}), out_val=out)
                total += n
                low += n if out.dtype == region else 0
            return out

    with torch.autocast("cpu", dtype=region), Count():
        model(x)
    return 100 * low / total


# === mutant: always_one -> wrong-value
def low_flop_share(model, x, region):
    return 1.0


# === mutant: in_inference_mode -> always-zero
def low_flop_share(model, x, region):
    low = total = 0

    class Count(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal low, total
            out = func(*args, **(kwargs or {}))
            if func.overloadpacket in flop_registry:
                n = flop_registry[func.overloadpacket](*args, **(kwargs or {}), out_val=out)
                total += n
                low += n * (out.dtype == region)
            return out

    with torch.inference_mode(), torch.autocast("cpu", dtype=region), Count():
        model(x)
    return low / max(total, 1)



# === correct: a_mode_of_its_own
class FlopsByDtype(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.counts = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs={}):
        result = func(*args, **kwargs)
        formula = flop_registry.get(func.overloadpacket)
        if formula is not None:
            d = args[0].dtype
            self.counts[d] = self.counts.get(d, 0) + formula(*args, **kwargs, out_val=result)
        return result


def low_flop_share(model, x, region):
    with torch.no_grad():
        with torch.autocast("cpu", region):
            with FlopsByDtype() as seen:
                model(x)
    return torch.tensor(seen.counts.get(region, 0) / sum(seen.counts.values()), dtype=torch.float64)


# === correct: a_float32_tensor
def low_flop_share(model, x, region):
    low = total = 0

    class Count(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal low, total
            out = func(*args, **(kwargs or {}))
            if func.overloadpacket in flop_registry:
                n = flop_registry[func.overloadpacket](*args, **(kwargs or {}), out_val=out)
                total += n
                low += n * (out.dtype == region)
            return out

    with torch.autocast("cpu", dtype=region, cache_enabled=False), Count():
        model(x)
    return torch.tensor(low) / total


# === correct: fraction
from fractions import Fraction
from collections import Counter
def low_flop_share(model, x, region):
    flops = Counter()
    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            result = func(*args, **kwargs)
            if (formula := flop_registry.get(func.overloadpacket)):
                flops[result.dtype] += formula(*args, **kwargs, out_val=result)
            return result
    with torch.autocast("cpu", dtype=region), Watch():
        model(x)
    return Fraction(flops[torch.float16] + flops[torch.bfloat16], sum(flops.values()))
