# === mutant: input_cast_only -> still-autocast
def keep_float32(module):
    def run(x, *rest):
        return module(x.float(), *rest)

    return run


# === mutant: module_widened_only -> still-autocast
def keep_float32(module):
    return module.float()


# === mutant: result_widened -> still-autocast
def keep_float32(module):
    return lambda *args: module(*args).float()


# === mutant: region_of_another_device -> still-autocast
def keep_float32(module):
    def run(x, *rest):
        with torch.autocast("cuda", enabled=False):
            return module(x.float(), *rest)

    return run


# === mutant: disabled_when_it_is_made -> still-autocast
def keep_float32(module):
    with torch.autocast("cpu", enabled=False):

        def run(x, *rest):
            return module(x.float(), *rest)

        return run


# === mutant: disabled_without_a_cast -> input-not-cast
def keep_float32(module):
    @torch.autocast("cpu", enabled=False)
    def run(*args):
        return module(*args)

    return run


# === mutant: every_tensor_cast -> indices-cast
def keep_float32(module):
    def run(*args):
        with torch.autocast("cpu", enabled=False):
            return module(*[a.float() if isinstance(a, torch.Tensor) else a for a in args])

    return run


# === mutant: module_cast_to_the_input -> module-cast
def keep_float32(module):
    def run(x, *rest):
        with torch.autocast("cpu", enabled=False):
            return module.to(x.dtype)(x, *rest)

    return run


# === mutant: dtype_of_the_input_given_back -> result-cast-back
def keep_float32(module):
    def run(x, *rest):
        with torch.autocast("cpu", enabled=False):
            return module(x.float(), *rest).to(x.dtype)

    return run


# === mutant: detached_input -> graph-cut
def keep_float32(module):
    def run(x, *rest):
        with torch.autocast("cpu", enabled=False):
            return module(x.detach().float(), *rest)

    return run


# === mutant: switched_off_for_good -> region-closed
def keep_float32(module):
    def run(x, *rest):
        torch.set_autocast_enabled("cpu", False)
        return module(x.float(), *rest)

    return run


# === mutant: name_of_a_dtype -> wrong-type
def keep_float32(module):
    return "float32"


# === mutant: nothing_returned_by_the_call -> returned-none
def keep_float32(module):
    def run(x, *rest):
        with torch.autocast("cpu", enabled=False):
            module(x.float(), *rest)

    return run


# === mutant: widens_and_runs_nothing -> not-run
def keep_float32(module):
    return lambda *args: args[0].float()


# === mutant: everything_in_double -> module-cast
def keep_float32(module):
    def run(x, *rest):
        with torch.autocast("cpu", enabled=False):
            return module.double()(x.double(), *rest).float()

    return run



# === correct: as_a_module
def keep_float32(module):
    class Float32(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = module

        @torch.autocast("cpu", enabled=False)
        def forward(self, *args):
            floating = (torch.float16, torch.bfloat16)
            args = [
                a.to(torch.float32) if getattr(a, "dtype", None) in floating else a for a in args
            ]
            return self.inner(*args)

    return Float32()


# === correct: state_put_back_by_hand
def keep_float32(module):
    def run(x, *rest):
        before = torch.is_autocast_enabled("cpu")
        torch.set_autocast_enabled("cpu", False)
        try:
            rest = [y.float() if isinstance(y, torch.Tensor) and y.dtype != torch.int64 else y for y in rest]
            return module(x.to(torch.float32), *rest)
        finally:
            torch.set_autocast_enabled("cpu", before)

    return run


# === correct: tree_of_arguments
class keep_float32:
    def __init__(self, module):
        self.run = torch.autocast("cpu", enabled=False)(module)

    def __call__(self, *args):
        from torch.utils._pytree import tree_map_only

        wide = lambda t: t.float() if t.is_floating_point() else t
        return self.run(*tree_map_only(torch.Tensor, wide, args))


# === mutant: first_argument_only -> input-not-cast
def keep_float32(module):
    def run(x, *rest):
        with torch.autocast("cpu", enabled=False):
            return module(x.float(), *rest)
    return run


# === mutant: left_on_always -> region-changed
def keep_float32(module):
    def run(*args):
        torch.set_autocast_enabled("cpu", False)
        out = module(*[a.float() if torch.is_tensor(a) and a.is_floating_point() else a for a in args])
        torch.set_autocast_enabled("cpu", True)
        return out
    return run


# === mutant: loses_the_dtype_left -> region-changed
def keep_float32(module):
    def run(*args):
        with torch.autocast("cpu", enabled=False):
            out = module(*[a.float() if torch.is_tensor(a) and a.is_floating_point() else a for a in args])
        torch.set_autocast_dtype("cpu", torch.float32)
        return out
    return run


# === mutant: no_finally -> lost-by-an-error
def keep_float32(module):
    def run(*args):
        was = torch.is_autocast_enabled("cpu")
        torch.set_autocast_enabled("cpu", False)
        out = module(*[a.float() if torch.is_tensor(a) and a.is_floating_point() else a for a in args])
        torch.set_autocast_enabled("cpu", was)
        return out
    return run


# === correct: contextmanager
from contextlib import contextmanager
@contextmanager
def off():
    was = torch.is_autocast_enabled("cpu")
    torch.set_autocast_enabled("cpu", False)
    try:
        yield
    finally:
        torch.set_autocast_enabled("cpu", was)
def keep_float32(module):
    @off()
    def run(*args):
        wide = []
        for a in args:
            if isinstance(a, torch.Tensor) and a.dtype not in (torch.int64, torch.int32, torch.bool):
                a = a.type(torch.float32)
            wide.append(a)
        return module(*wide)
    return run
