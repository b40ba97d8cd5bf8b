# %% statement points=2 minutes=15
# # One submodule in FP32
#
# Write `keep_float32(module)`. It returns a callable: a function or a module. Called in whatever
# region, this runs `module` in float32, and returns the float32 result.
#
# - The arguments are positional: floating-point tensors of 16 or 32 bits, indices, numbers.
# - Autocast is off while `module` runs. After the call it is as before, even if `module` raises.
# - Gradients flow through to the inputs, and the module's parameters stay as they are.
# - The callable may be called inside a CPU region of either dtype, or outside any.

# %% answer
def keep_float32(module):
    """Return a callable that runs `module` with autocast off and its inputs in float32."""

    ### BEGIN SOLUTION
    def in_float32(value):
        is_number = isinstance(value, torch.Tensor) and value.is_floating_point()
        return value.float() if is_number else value

    def run(*args):
        with torch.autocast("cpu", enabled=False):
            return module(*[in_float32(arg) for arg in args])

    return run
    ### END SOLUTION

# %% hints
# - You need two things: a nested region, and a cast. What does each do without the other?
# - `torch.autocast("cpu", enabled=False)` turns autocast off for its block only.
# - Cast each argument that is a tensor of floating point, and leave all others as they are.

# %% probe
from amp_lessons.exercises.autocast_regions.harness import among, differs, telling
from amp_lessons.exercises.autocast_regions.harness_calls import kept_module, module_cases

probe = Probe(module_cases, play=kept_module)

# %% judge
judge = Judge(same=within(1e-5), asked_for="a callable", tell=telling(within(1e-5)))

# %% passed
# A disabled subregion also turns off the casts that you need: cast the inputs yourself.

# %% right as_a_module
def keep_float32(module):
    class Float32(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = module

        @torch.autocast("cpu", enabled=False)
        def forward(self, *args):
            wide = next(self.inner.parameters()).dtype
            low = (torch.float16, torch.bfloat16)
            return self.inner(*[a.to(wide) if getattr(a, "dtype", 0) in low else a for a in args])

    return Float32()

# %% right state_by_hand
def keep_float32(module):
    def run(x, *rest):
        before = torch.is_autocast_enabled("cpu")
        torch.set_autocast_enabled("cpu", False)
        try:
            low = (torch.float16, torch.bfloat16)
            rest = [y.float() if getattr(y, "dtype", None) in low else y for y in rest]
            return module(x.to(torch.float32), *rest)
        finally:
            torch.set_autocast_enabled("cpu", before)

    return run

# %% rule module-cast
# The submodule's parameters are not float32 any more. Cast the input, and leave the module alone.
breaks = differs("dtype of the parameters")
swap("return module(", "return module.to(args[0].dtype)(")
swap("module(*", "module.double()(*") & swap("value.float()", "value.double()")

# %% rule not-run
# Your callable doesn't give the submodule's result. Call `module` in it, and return what it gives.
def breaks(seen, right):
    never = among("autocast in the module", "run")(seen, right)
    return never or among("dtype of the result", "no")(seen, right)
swap("return module(*[in_float32(arg) for arg in args])", "return in_float32(args[0])")
swap("return module(", "module(")

# %% rule indices-cast
# You cast a tensor of indices. Cast only those for which `is_floating_point()` is true.
def breaks(seen, right):
    took, wanted = (str(noted(entry, "dtypes that the module took")) for entry in (seen, right))
    return took != "None" and "int64" in wanted and "int64" not in took
swap(" and value.is_floating_point()", "")
swap("value.is_floating_point()", "value.dim() > 0")

# %% rule still-autocast
# Autocast was on while the submodule ran, so its matrix product was computed in 16 bits. Open a
# region around the call: `torch.autocast("cpu", enabled=False)`.
breaks = among("autocast in the module", "on")
unwrap("with torch.autocast")
swap('"cpu", enabled=False', '"cuda", enabled=False')
unwrap("with torch.autocast") & swap("for arg in args])", "for arg in args]).float()")

# %% rule region-changed
# After your call autocast is {got}. A `with` block restores the state by itself.
breaks = differs("autocast after the call")
unwrap("with torch.autocast") & put('torch.set_autocast_enabled("cpu", False)', before="return mod")
put('torch.set_autocast_dtype("cpu", torch.float32)', before="with torch.autocast")

# %% rule result-cast-back
# The submodule computed in float32, and you returned its result as {got}. Return it as it is.
breaks = differs("dtype of the result")
swap("for arg in args])", "for arg in args]).to(args[0].dtype)")

# %% rule graph-cut
# No gradient reaches the input: `.detach()`, `.data` and `no_grad` cut the graph. Leave them out.
breaks = differs("gradient for the input")
swap("value.float()", "value.detach().float()")
swap("with torch.autocast", "with torch.no_grad(), torch.autocast")

# %% rule input-not-cast
# The submodule took {got} and not {wanted}. Cast each floating-point input, outside a region too.
breaks = differs("dtypes that the module took")
swap("value.float() if is_number else value", "value")
swap("[in_float32(arg) for arg in args]", "[in_float32(args[0]), *args[1:]]")

# %% rule copy-run
# You ran a copy of the module, so no gradient reaches its parameters. Call `module` itself.
breaks = differs("gradient for the parameters")
put("module = __import__('copy').deepcopy(module)", before="def in_float32")

# %% rule lost-by-an-error
# When the submodule raises an error, autocast is not as it was before the call: the line that
# restores it is never reached. Use a `with` block, or `try` and `finally`.
breaks = differs("autocast after the error")
(unwrap("with torch.autocast") & put('was = torch.is_autocast_enabled("cpu")',
    before="return mod") & put('torch.set_autocast_enabled("cpu", False)', before="return mod") &
    swap("return module", "result = module") &
    put('torch.set_autocast_enabled("cpu", was); return result', after="result ="))

# %% wrong returned-none
drop("return run")

# %% wrong wrong-type
swap("return run", "return torch.float32")
