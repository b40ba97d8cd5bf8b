# %% statement points=3 minutes=20
# # Fix five dtype mismatches
#
# Here are five functions written for float32. Under autocast three raise, one raises in one of the
# two 16-bit formats, and one returns a wrong number without an error. Fix each where it stands.
# Each should return **float32** in a region of float16, of bfloat16, and with none open.
#
# - `x @ weight` must still run in 16 bits. The second product of `project` may run in either.
# - The head of `classify` stays a float32 product.
# - `update_memory` keeps the memory's float32 numbers, and doesn't change its arguments.
#
# All but `classify` are called *inside* the caller's region, which must be as it was afterwards.
# `classify` opens its own. The check names the functions that you haven't changed yet.

# %% answer check=update_memory,project,classify,energy,predictions
def update_memory(memory, rows, x, weight):
    """memory, with the features of x added to the given rows."""
    return memory.clone().index_add_(0, rows, x @ weight)


def project(x, weight, head):
    """The scores of x, written into a buffer."""
    hidden = torch.relu(x @ weight)
    scores = torch.empty(len(x), head.shape[1])
    torch.matmul(hidden, head, out=scores)
    return scores


def classify(x, weight, head, region):
    """Features under autocast to region, and a head after it, in float32."""
    with torch.autocast("cpu", dtype=region):
        hidden = torch.relu(x @ weight)
    return hidden @ head


def energy(x, weight):
    """The sum of the squared features, a tensor without dimensions. Features may reach 1000."""
    return ((x @ weight) ** 2).sum()


def predictions(x, weight):
    """The features as a NumPy array."""
    return (x @ weight).detach().numpy()


### BEGIN SOLUTION
def update_memory(memory, rows, x, weight):
    added = (x @ weight).float()
    return memory.clone().index_add_(0, rows, added)


def project(x, weight, head):
    positive = torch.relu(x @ weight)
    return (positive @ head).float()


def classify(x, weight, head, region):
    with torch.autocast("cpu", dtype=region):
        features = torch.relu(x @ weight)
    return features.float() @ head


def energy(x, weight):
    return ((x @ weight).float() ** 2).sum()


def predictions(x, weight):
    return (x @ weight).detach().float().numpy()


### END SOLUTION

# %% hints
# - In each function, which tensor is 16 bit? Which op meets it that autocast doesn't look after?
# - In-place ops and `out=` take the tensors as they are, and so does code after the region. In each
#   of the five, one `.float()` at the right place is enough, or writing the op without `out=`.
# - In `energy` nothing raises. Which dtype has `(x @ weight) ** 2` on a CPU? How large may it be?

# %% probe
from amp_lessons.exercises.autocast_ops.harness import mismatch_cases, play_mismatches

probe = Probe(mismatch_cases, play=play_mismatches)

# %% judge
from amp_lessons.exercises.checks.messages import difference

def same(expected, seen):
    """Numbers may be off by 5% of the largest: two roundings to bfloat16, and a sum."""
    if is_dict(expected) and is_dict(seen):
        return all(same(one, seen["dict"].get(key)) for key, one in expected["dict"].items())
    if not isinstance(expected, list) or not isinstance(seen, list) or len(seen) != len(expected):
        return exactly(expected, seen)
    bound = 0.05 * max(map(abs, expected))
    return all(abs(one - other) <= bound for one, other in zip(expected, seen, strict=True))

def runs(entry):
    value = entry.get("value")
    return {where: run["dict"] for where, run in value["dict"].items()} if is_dict(value) else {}

def noted(entry, key):
    return {where: run[key] for where, run in runs(entry).items() if key in run}

def function(right):  # its name, for a sentence
    return {"function": next(iter(noted(right, "function").values()))}

def raised(entry):
    return {where: e for where, e in noted(entry, "raised").items() if e != "nothing"}

def somewhere(key, test):
    """A rule: in some region this was noted."""
    return lambda seen, right: any(map(test, noted(seen, key).values())) and function(right)

def products(test):
    """A rule: in some region `x @ weight` ran in a dtype of which this is true (wanted, got)."""
    def breaks(seen, right, key="x @ weight ran in"):
        found = any(test(w, noted(seen, key).get(at, w)) for at, w in noted(right, key).items())
        return found and function(right)
    return breaks

def tell(case, right, seen):
    if not runs(seen):
        return f"{case.label}: returned None"
    for where, error in raised(seen).items():
        return f"{case.label}, {where}: raised {error}"
    for where, expected in right["value"]["dict"].items():
        if not same(expected, seen["value"]["dict"][where]):
            words = difference(expected, seen["value"]["dict"][where], same)
            return f"{case.label}, {where}: {words}"
    return case.label

judge = Judge(same=same, tell=tell)

# %% passed
# Autocast looks after the ops on its lists. Where a tensor leaves them (in place, through `out=`,
# into NumPy, or out of the region), you choose the dtype.

# %% right other_ways
def update_memory(memory, rows, x, weight):
    return memory.index_add(0, rows, (x @ weight).to(memory.dtype))

def project(x, weight, head):
    scores = torch.empty(len(x), head.shape[1])
    scores.copy_(torch.relu(x @ weight) @ head)
    return scores

def classify(x, weight, head, region):
    with torch.autocast("cpu", dtype=region):
        hidden = torch.relu(x @ weight)
        with torch.autocast("cpu", enabled=False):
            return torch.mm(hidden.to(head.dtype), head)

def energy(x, weight):
    return torch.linalg.vector_norm((x @ weight).float()) ** 2

def predictions(x, weight):
    return (x.detach() @ weight.detach()).to(torch.float32).numpy()

# %% right by_einsum
def update_memory(memory, rows, x, weight):
    added = torch.einsum("ij,jk->ik", x, weight).type_as(memory)
    return memory.scatter_add(0, rows[:, None].expand_as(added), added)

def project(x, weight, head):
    scores = torch.empty(len(x), head.shape[1])
    torch.matmul(torch.relu(torch.mm(x, weight)).float(), head, out=scores)
    return scores

def classify(x, weight, head, region):
    with torch.amp.autocast(device_type="cpu", dtype=region):
        hidden = torch.relu(F.linear(x, weight.T))
    return F.linear(hidden.float(), head.T)

def energy(x, weight):
    return F.linear(x, weight.T).double().square().sum().float()

def predictions(x, weight):
    return x.matmul(weight).detach().float().cpu().numpy().copy()

# %% rule numpy-before-the-cast
# You called `.numpy()` before the cast. NumPy has float16 but no bfloat16, so this works in one of
# the two regions. Cast the tensor with `.float()` first, and then make the array.
breaks = somewhere("raised", lambda error: "ScalarType" in error)
swap("detach().float().numpy()", "detach().numpy().astype('float32')")

# %% rule inside-a-region-only
# It raises without a region, where your 16-bit tensor meets float32. Float32 is right in both.
def breaks(seen, right):
    return list(raised(seen)) == ["with no region open"]
swap("clone().index_add_(0, rows, added)",
    "to(torch.get_autocast_dtype('cpu')).index_add_(0, rows, x @ weight).float()")

# %% rule one-format-only
# It works for one 16-bit format and raises for the other: its dtype fits one only. Use float32.
def breaks(seen, right):
    return len([where for where in raised(seen) if "region of" in where]) == 1
swap("features.float() @ head", "(features @ head.half()).float()")

# %% rule still-mismatched
# In `{function}` two dtypes meet in an op that autocast doesn't look after. Cast the 16-bit one.
breaks = somewhere("raised", lambda error: error != "nothing")
swap("rows, added)", "rows, x @ weight)")

# %% rule region-changed
# The caller's region isn't as it was: a switch set by hand stays set. Casting one tensor is enough.
breaks = somewhere("autocast after the call", lambda words: words == "not as it was")
put("torch.set_autocast_enabled('cpu', True)", before="return (positive")

# %% rule wrong-type
def breaks(seen, right):
    for where, expected in noted(right, "returned").items():
        got = noted(seen, "returned").get(where, expected)
        if got.split()[2:] != expected.split()[2:]:
            return {"got": got, "expected": expected}
swap("detach().float().numpy()", "detach().float().tolist()")

# %% rule autocast-switched-off
# In `{function}`, `x @ weight` no longer runs in 16 bits, which is what the region is for. Let the
# product run in the region's dtype, and cast only the tensor that leaves it.
breaks = products(lambda wanted, got: wanted[-2:] == "16" != got[-2:])
wrap("with torch.autocast('cpu', enabled=False):", "return ((x @ weight).float()")
swap("(x @ weight).detach().float()", "(x.double() @ weight.double()).float()")

# %% rule other-format
# In `{function}`, `x @ weight` runs in the wrong 16-bit format. Don't cast its inputs yourself, and
# open a region with its dtype: without one, `torch.autocast("cpu")` means bfloat16.
breaks = products(lambda wanted, got: wanted != got)
swap("added = (x @ weight)", "added = (x.half() @ weight.half())")
swap("dtype=region", "dtype=torch.bfloat16", nth=2)

# %% rule half-leaks
# `{function}` raises no error, but the next op meets a 16-bit result. Cast with `.float()`.
breaks = somewhere("returned", lambda words: "float16" in words)
swap("(positive @ head).float()", "positive @ head")

# %% rule head-in-16-bits
# `classify` returns float32, but its head runs in 16 bits. Casting the result doesn't bring the
# lost digits back. Cast the features, and let the head run in float32 after the region.
breaks = somewhere("the head ran in", lambda dtype: dtype.endswith("16"))
swap("    return features.float() @ head", "        return (features @ head).float()")

# %% rule changed-argument
breaks = somewhere("arguments", lambda words: words == "changed")
swap("clone().index_add_(0, rows, added)", "index_add_(0, rows, added)")

# %% rule memory-rounded
# You rounded the memory itself: even rows with nothing added lost digits. Keep it in float32.
breaks = somewhere("rows that nothing was added to", lambda words: words == "rounded")
swap("clone().index_add_(0, rows, added)", "bfloat16().float().index_add_(0, rows, added)")

# %% rule cast-after-the-sum
# The result is inf: in FP16 the squares overflow from 65520 on. Cast before the op that overflows.
breaks = somewhere("values", lambda values: math.inf in values)
swap("weight).float() ** 2).sum()", "weight) ** 2).sum().float()")

# %% wrong wrong-value
swap("positive = torch.relu(x @ weight)", "positive = x @ weight")

# %% wrong returned-none
drop("return (positive")
