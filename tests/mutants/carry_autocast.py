# === mutant: wraps_and_hopes -> state-not-carried
def carry_autocast(function):
    import functools

    @functools.wraps(function)
    def carried(*args, **kwargs):
        return function(*args, **kwargs)

    return carried


# === mutant: read_in_the_worker -> state-not-carried
def carry_autocast(function):
    def carried(*args, **kwargs):
        on = torch.is_autocast_enabled("cpu")
        with torch.autocast("cpu", enabled=on, dtype=torch.get_autocast_dtype("cpu")):
            return function(*args, **kwargs)

    return carried


# === mutant: asks_about_another_device -> state-not-carried
def carry_autocast(function):
    on, dtype = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cpu")

    def carried(*args, **kwargs):
        with torch.autocast("cpu", enabled=on, dtype=dtype):
            return function(*args, **kwargs)

    return carried


# === mutant: copied_context -> state-not-carried
def carry_autocast(function):
    import contextvars

    context = contextvars.copy_context()
    return lambda *args, **kwargs: context.run(function, *args, **kwargs)


# === mutant: always_bfloat16 -> always-on
def carry_autocast(function):
    return torch.autocast("cpu", dtype=torch.bfloat16)(function)


# === mutant: dtype_read_always_enabled -> always-on
def carry_autocast(function):
    dtype = torch.get_autocast_dtype("cpu")

    def carried(*args, **kwargs):
        with torch.autocast("cpu", dtype=dtype):
            return function(*args, **kwargs)

    return carried


# === mutant: as_data_parallel_does -> dtype-not-carried
def carry_autocast(function):
    on = torch.is_autocast_enabled("cpu")

    def carried(*args, **kwargs):
        with torch.autocast("cpu", enabled=on):
            return function(*args, **kwargs)

    return carried


# === mutant: cache_forgotten -> cache-not-carried
def carry_autocast(function):
    on, dtype = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")

    def carried(*args, **kwargs):
        with torch.autocast("cpu", enabled=on, dtype=dtype):
            return function(*args, **kwargs)

    return carried


# === mutant: set_and_left -> worker-left-changed
def carry_autocast(function):
    on, dtype = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
    cached = torch.is_autocast_cache_enabled()

    def carried(*args, **kwargs):
        torch.set_autocast_enabled("cpu", on)
        torch.set_autocast_dtype("cpu", dtype)
        torch.set_autocast_cache_enabled(cached)
        return function(*args, **kwargs)

    return carried


# === mutant: result_not_given_back -> result-lost
def carry_autocast(function):
    state = (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"))
    cached = torch.is_autocast_cache_enabled()

    def carried(*args, **kwargs):
        with torch.autocast("cpu", enabled=state[0], dtype=state[1], cache_enabled=cached):
            function(*args, **kwargs)

    return carried


# === mutant: called_twice -> not-called-once
def carry_autocast(function):
    on, dtype = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
    cached = torch.is_autocast_cache_enabled()

    def carried(*args, **kwargs):
        function(*args, **kwargs)  # to warm up
        with torch.autocast("cpu", enabled=on, dtype=dtype, cache_enabled=cached):
            return function(*args, **kwargs)

    return carried


# === mutant: nothing_returned -> returned-none
def carry_autocast(function):
    def carried(*args, **kwargs):
        return function(*args, **kwargs)


# === mutant: a_region_returned -> wrong-type
def carry_autocast(function):
    return {"dtype": torch.get_autocast_dtype("cpu"), "function": function}


# === mutant: nothing_to_do_where_it_is_off -> off-not-carried
def carry_autocast(function):
    if not torch.is_autocast_enabled("cpu"):
        return function
    dtype, cached = torch.get_autocast_dtype("cpu"), torch.is_autocast_cache_enabled()
    return torch.autocast("cpu", dtype=dtype, cache_enabled=cached)(function)



# === correct: region_made_here_entered_there
def carry_autocast(function):
    region = torch.autocast(
        "cpu",
        enabled=torch.is_autocast_enabled("cpu"),
        dtype=torch.get_autocast_dtype("cpu"),
        cache_enabled=torch.is_autocast_cache_enabled(),
    )
    return region(function)


# === correct: a_class
def carry_autocast(function):
    class Carried:
        def __init__(self):
            self.on = torch.is_autocast_enabled("cpu")
            self.dtype = torch.get_autocast_dtype("cpu")
            self.cached = torch.is_autocast_cache_enabled()

        def __call__(self, *args, **kwargs):
            with torch.autocast("cpu", self.dtype, self.on, self.cached):
                return function(*args, **kwargs)

    return Carried()


# === correct: region_that_reads_the_cache_setting_itself
def carry_autocast(function):
    on, dtype = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
    return torch.autocast("cpu", enabled=on, dtype=dtype)(function)


# === correct: state_set_and_put_back_by_hand
def carry_autocast(function):
    def get():
        return (
            torch.is_autocast_enabled("cpu"),
            torch.get_autocast_dtype("cpu"),
            torch.is_autocast_cache_enabled(),
        )

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

    return carried


# === mutant: no_finally -> worker-changed-by-an-error
def carry_autocast(function):
    on, dtype, cache = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), torch.is_autocast_cache_enabled()
    def carried(*args, **kwargs):
        old = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), torch.is_autocast_cache_enabled()
        torch.set_autocast_enabled("cpu", on)
        torch.set_autocast_dtype("cpu", dtype)
        torch.set_autocast_cache_enabled(cache)
        out = function(*args, **kwargs)
        torch.set_autocast_enabled("cpu", old[0])
        torch.set_autocast_dtype("cpu", old[1])
        torch.set_autocast_cache_enabled(old[2])
        return out
    return carried


# === mutant: state_in_a_global -> last-state-wins
STATE = {}
def carry_autocast(function):
    STATE.update(enabled=torch.is_autocast_enabled("cpu"), dtype=torch.get_autocast_dtype("cpu"), cache_enabled=torch.is_autocast_cache_enabled())
    def carried(*args, **kwargs):
        with torch.autocast("cpu", **STATE):
            return function(*args, **kwargs)
    return carried


# === mutant: swallows -> error-swallowed
def carry_autocast(function):
    s = dict(enabled=torch.is_autocast_enabled("cpu"), dtype=torch.get_autocast_dtype("cpu"), cache_enabled=torch.is_autocast_cache_enabled())
    def carried(*args, **kwargs):
        try:
            with torch.autocast("cpu", **s):
                return function(*args, **kwargs)
        except Exception:
            return None
    return carried


# === correct: partial
import functools
def _run(state, function, *args, **kwargs):
    with torch.amp.autocast("cpu", **state):
        return function(*args, **kwargs)
def carry_autocast(function):
    state = {"enabled": torch.is_autocast_enabled("cpu"), "cache_enabled": torch.is_autocast_cache_enabled()}
    state["dtype"] = torch.get_autocast_dtype("cpu")
    return functools.partial(_run, state, function)
