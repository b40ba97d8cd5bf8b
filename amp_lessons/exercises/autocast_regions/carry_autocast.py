# %% statement points=2 minutes=15
# # Autocast in a thread
#
# A thread begins with autocast off, whatever the state of the thread that starts it.
#
# Write `carry_autocast(function)`. It returns a function that runs `function` in the CPU autocast
# state that held when and where `carry_autocast` was called: on or off, the dtype, and whether
# casts are cached. For example:
#
# ```python
# with torch.autocast("cpu", dtype=torch.float16):
#     task = carry_autocast(model)
#     output = pool.submit(task, x).result()  # in float16
# ```
#
# - What you return takes any arguments, returns what `function` returns, and passes its errors on.
# - It may be called in any thread, whether autocast is on or off there. After the call, that
#   thread's state is as it was before, even if `function` raises an error.
# - A later call sees the weights as they are then. No region is open in the thread in between.
# - Its calls may overlap: threads may call it at the same time, and `function` may call it again.

# %% answer
def carry_autocast(function):
    """Return a function that runs `function` in the autocast state of this thread, as it is now."""
    ### BEGIN SOLUTION
    state = {
        "enabled": torch.is_autocast_enabled("cpu"),
        "dtype": torch.get_autocast_dtype("cpu"),
        "cache_enabled": torch.is_autocast_cache_enabled(),
    }

    def carried(*args, **kwargs):
        with torch.autocast("cpu", **state):
            return function(*args, **kwargs)

    return carried
    ### END SOLUTION

# %% hints
# - A function defined inside `carry_autocast` remembers its variables. What should they hold?
# - The state has three parts: enabled, dtype, and whether casts are cached. torch has a function
#   to read each of them. Ask for `"cpu"` where a device can be given.
# - Read before `def`. Open a new region after it, in each call.

# %% probe
from amp_lessons.exercises.autocast_regions.harness import among, differs, telling
from amp_lessons.exercises.autocast_regions.harness_threads import carry_cases, carrying

probe = Probe(carry_cases, play=carrying)

# %% judge
judge = Judge(asked_for="a function", tell=telling(exactly))

# %% passed
# Autocast's state belongs to a thread. Read it in one, and in each call open a region in the other.

# %% right as_a_class
class Carried:
    def __init__(self, function):
        self.function = function
        self.on = torch.is_autocast_enabled("cpu")
        self.dtype = torch.get_autocast_dtype("cpu")
        self.cached = torch.is_autocast_cache_enabled()

    def __call__(self, *args, **kwargs):
        with torch.autocast("cpu", self.dtype, self.on, self.cached):
            return self.function(*args, **kwargs)

def carry_autocast(function):
    return Carried(function)

# %% right state_and_cache_by_hand
def carry_autocast(function):
    def get():
        on, dtype = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
        return on, dtype, torch.is_autocast_cache_enabled()

    def put(on, dtype, cached):
        torch.set_autocast_enabled("cpu", on)
        torch.set_autocast_dtype("cpu", dtype)
        torch.set_autocast_cache_enabled(cached)

    state = get()

    def carried(*args, **kwargs):
        before = get()
        put(*state)
        try:
            return function(*args, **kwargs)
        finally:
            put(*before)
            torch.clear_autocast_cache()

    return carried

# %% rule not-called-once
# The function should run once in each call of what you return. Until then, only read the state.
def breaks(seen, right):
    keys = ("before the call", "in the call", "in the two calls")
    return any(differs(f"runs {key}")(seen, right) for key in keys)
put("function(*args, **kwargs)", before="with torch.autocast")
put("function()", before="def carried")

# %% rule result-lost
# The function's result, or an argument, is lost. Take `*args` and `**kwargs`, return the result.
breaks = among("arguments and result", "lost:")
swap("return function(*args, **kwargs)", "function(*args, **kwargs)")
swap("return function(*args, **kwargs)", "return function(*args)")

# %% rule worker-left-changed
# After the call autocast is {got} in that thread. A `with` block in each call restores the state.
breaks = differs("autocast in the thread afterwards")
of("state_and_cache_by_hand", drop("put(*before)"))

# %% rule error-swallowed
# The function raised an error, and your callable did not pass it on. Leave the error alone.
breaks = among("the error", "lost")
(put("import contextlib", before="state") & wrap("with contextlib.suppress(Exception):",
    "with torch"))

# %% rule worker-changed-by-an-error
# When the function raises an error, the thread's state is not as it was: the lines that restore it
# are never reached. Use a `with` block, or `try` and `finally`.
breaks = differs("autocast after the error")
of("state_and_cache_by_hand", swap("try:", "if True:") & swap("return function(*args, **kwargs)",
    "result = function(*args, **kwargs)") & swap("finally:", "if True:") & put("return result",
    after="torch.clear_autocast_cache()"))

# %% rule one-region-for-all-calls
# Two calls that overlap don't leave the thread as it was. The state to go back to must belong to
# one call. A `torch.autocast` object keeps it in itself, so make a new one in each call.
def breaks(seen, right):
    inside = [noted(entry, "autocast in its calls") for entry in (seen, right)]
    return inside[0] == inside[1] and differs("autocast after the calls")(seen, right)
(put('region = torch.autocast("cpu", **state)', before="def carried") &
    swap('with torch.autocast("cpu", **state):', "with region:"))
swap("return carried", 'return torch.autocast("cpu", **state)(function)')

# %% rule casts-left-in-the-cache
# The second call computed with 16-bit copies of the first weights, from the cast cache. The end of
# a region empties it. Otherwise, call `torch.clear_autocast_cache()`.
breaks = differs("results with weights 1 and then 5")
of("state_and_cache_by_hand", drop("torch.clear_autocast_cache()"))

# %% wrong state-not-carried
# In your function autocast is on or off as it is in the thread that runs it. Read the state when
# `carry_autocast` is called, and open a region with it in each call.
unwrap("with torch.autocast")
move("state = {", before="with torch.autocast")
swap("**state", '**state | {"enabled": torch.is_autocast_enabled("cpu")}')

# %% wrong asked-about-cuda
# Autocast is off in your function, whatever the state was. `torch.is_autocast_enabled()` without a
# device asks about CUDA. Ask for the CPU: `torch.is_autocast_enabled("cpu")`.
swap('torch.is_autocast_enabled("cpu")', "torch.is_autocast_enabled()")
swap('torch.is_autocast_enabled("cpu")', 'torch.is_autocast_enabled("cuda")')

# %% wrong region-for-cuda
# You open a region for CUDA. It leaves the CPU's autocast on or off, as that thread has it. Open
# one for `"cpu"`.
swap('torch.autocast("cpu", **state)', 'torch.autocast("cuda", **state)')
of("as_a_class", swap('torch.autocast("cpu", self.dtype', 'torch.autocast("cuda", self.dtype'))

# %% wrong always-on
# You turn autocast on, whether it was on or not. Carry `torch.is_autocast_enabled("cpu")`.
swap('torch.is_autocast_enabled("cpu")', "True")
swap('"enabled": torch.is_autocast_enabled("cpu"),', "")
swap("return carried", 'return torch.autocast("cpu", dtype=torch.bfloat16)(function)')

# %% wrong off-not-carried
# You carry the state only if autocast was on. Off is a state too: the thread that runs the function
# may have a region open, and autocast must be off inside the function.
put('if not torch.is_autocast_enabled("cpu"): return function', before="state = {")
put('if not state["enabled"]: return function(*args, **kwargs)', before="with torch.autocast")

# %% wrong dtype-not-carried
# You don't carry the dtype: the function runs in the one that the thread has, or always in the
# same. Read `torch.get_autocast_dtype("cpu")` when `carry_autocast` is called.
swap('"dtype": torch.get_autocast_dtype("cpu"),', "")
swap('torch.get_autocast_dtype("cpu")', "torch.bfloat16")
swap('get_autocast_dtype("cpu")', 'get_autocast_dtype("cuda")')
swap("**state", '**state | {"dtype": torch.get_autocast_dtype("cpu")}')

# %% wrong cache-not-carried
# You don't carry whether casts are cached, the third part of the state. Read
# `torch.is_autocast_cache_enabled()` when `carry_autocast` is called.
swap('"cache_enabled": torch.is_autocast_cache_enabled(),', "")
swap("torch.is_autocast_cache_enabled()", "True")
swap("**state", '**state | {"cache_enabled": torch.is_autocast_cache_enabled()}')

# %% wrong last-state-wins
# Of two functions that you wrapped, the first runs in the state of the second: each call of
# `carry_autocast` overwrites it. Keep the state in a local variable.
put("global state", before="state = {")
swap("state = {", "carry_autocast.state = {") & swap("**state", "**carry_autocast.state")

# %% wrong returned-none
drop("return carried")

# %% wrong wrong-type
swap("return carried", "return state")
