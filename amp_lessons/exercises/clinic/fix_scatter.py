# %% statement points=3 minutes=15
# # Case 14: experts that cannot store
#
# In this layer each row of `x` goes through two experts. `chosen` holds their numbers, and `shares`
# says how much each of them counts. Without autocast the layer works.

# %% demo
def routed(x, experts, chosen, shares):
    parts = torch.zeros(*chosen.shape, x.shape[1])
    for number, expert in enumerate(experts):
        rows, slots = torch.where(chosen == number)
        parts[rows, slots] = expert(x[rows])
    return (parts * shares[:, :, None]).sum(1)


experts = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))
chosen = torch.tensor([[0, 1], [2, 0], [1, 1], [2, 1]])
shares = torch.full((4, 2), 0.5)
try:
    with torch.autocast("cpu", dtype=torch.float16):
        routed(torch.randn(4, 6), experts, chosen, shares)
except RuntimeError as error:
    print("RuntimeError:", error)

# %% text
# Fix it. Call your version `fix_scatter` and keep the arguments. It is called in an FP16 region, in
# a BF16 region, and with none open. Each expert runs in the precision of the caller's region. The
# sum of the parts is computed and returned in FP32, as in the program.
#
# A row may choose the same expert twice. Gradients reach `x`, the experts and the shares, and the
# arguments stay as they were.

# %% answer
def fix_scatter(x, experts, chosen, shares):
    """The weighted sum of two experts' results for each row of x, in FP32."""
    ### BEGIN SOLUTION
    parts = torch.zeros(*chosen.shape, x.shape[1])
    for number, expert in enumerate(experts):
        rows, slots = torch.where(chosen == number)
        parts[rows, slots] = expert(x[rows]).to(parts.dtype)
    return (parts * shares[:, :, None]).sum(1)
    ### END SOLUTION

# %% hints
# - Which dtype does `parts` have, and which dtype does an expert return under autocast?
# - The dtype of the region isn't known here. Which of the two tensors can tell you a dtype?
# - A store by an index takes both tensors as they are. Cast what you store to the buffer's dtype.

# %% probe
from amp_lessons.exercises.clinic.harness_layers import play_scatter, scatter_cases

probe = Probe(scatter_cases, play_scatter)

# %% judge
judge = Judge(same=within(1e-3), asked_for="a tensor")

# %% passed
# A store by tensors of indices needs one dtype on both sides: cast what you store to the buffer's.

# %% right added_up
def fix_scatter(x, experts, chosen, shares):
    result = torch.zeros_like(x)
    for number, expert in enumerate(experts):
        rows, slots = torch.where(chosen == number)
        result = result.index_add(0, rows, expert(x[rows]).float() * shares[rows, slots, None])
    return result

# %% right stored_one_by_one
def fix_scatter(x, experts, chosen, shares):
    rows = []
    for number, row in enumerate(x):
        parts = [experts[int(expert)](row[None])[0] for expert in chosen[number]]
        rows.append(sum(p.float() * s for p, s in zip(parts, shares[number], strict=True)))
    return torch.stack(rows)

# %% rule region-changed
# Autocast is different when your function returns. The caller's region has to be as it was.
def breaks(seen, right):
    return noted(seen, "autocast afterwards") == "changed"
put("torch.set_autocast_enabled('cpu', False)", before="parts = ")

# %% rule experts-in-fp32
# The experts run in FP32 although the caller opened a 16-bit region. Leave autocast on around them,
# and cast only what you store.
def breaks(seen, right):
    found, wanted = (noted(entry, "dtype from the experts") for entry in (seen, right))
    return found == "float32" != wanted
swap("expert(x[rows]).to(parts.dtype)", "torch.autocast('cpu', enabled=False)(expert)(x[rows])")
of("added_up", wrap("with torch.autocast('cpu', enabled=False):", "result = result"))

# %% rule arguments-changed
# Your function changed its arguments, such as `x` or the experts' weights. Others use them too.
# Write into a tensor of your own.
def breaks(seen, right):
    return noted(seen, "x, chosen, shares and experts afterwards") == "changed"
put("experts.half()", before="for number") & swap("expert(x[rows])", "expert(x[rows].half())")
put("x.data.copy_(parts[:, 0])", before="return")

# %% wrong still-two-dtypes
# In an FP16 region, a BF16 region, or both, the source and the destination still have two dtypes.
# Cast what you store to the dtype of the buffer: `.to(parts.dtype)`.
swap(".to(parts.dtype)", "")
swap("expert(x[rows]).to(parts.dtype)", "expert(x[rows].float())")
swap("expert(x[rows]).to(parts.dtype)", "expert(x[rows]).half()")
swap("expert(x[rows]).to(parts.dtype)", "expert(x[rows]).bfloat16()")

# %% wrong buffer-in-one-dtype
# Your buffer has a fixed 16-bit dtype, so it fits one region only. In another region, or without
# one, source and destination don't match. Leave it in FP32, and cast what you store.
swap("x.shape[1])", "x.shape[1], dtype=torch.float16)") & swap(".to(parts.dtype)", "")
swap("x.shape[1])", "x.shape[1]).half()") & swap(".to(parts.dtype)", "")
of("added_up", swap("zeros_like(x)", "zeros_like(x).half()") & swap("expert(x[rows]).float()",
    "expert(x[rows])") & swap("shares[rows, slots, None]", "shares[rows, slots, None].half()"))

# %% wrong buffer-of-autocast
# Your buffer has the dtype that autocast would use. That dtype is set even where no region is open,
# and then the source is FP32. Leave the buffer in FP32, and cast what you store.
(swap("x.shape[1])", "x.shape[1], dtype=torch.get_autocast_dtype('cpu'))") &
    swap(".to(parts.dtype)", ""))
(put("narrow = torch.get_autocast_dtype('cpu')", before="parts =") &
    swap("x.shape[1])", "x.shape[1]).to(narrow)") & swap(".to(parts.dtype)", ""))

# %% wrong source-cast-to-one-dtype
# You cast the source and the buffer to a fixed 16-bit dtype, so results of other regions are
# rounded as well, and in FP16 those from 65520 on become inf. Leave the buffer in FP32.
swap("x.shape[1])", "x.shape[1], dtype=torch.float16)")
of("added_up", swap("expert(x[rows]).float()", "expert(x[rows]).half().float()"))
swap("x.shape[1])", "x.shape[1], dtype=torch.bfloat16)")
of("added_up", swap("expert(x[rows]).float()", "expert(x[rows]).bfloat16().float()"))

# %% wrong result-in-16-bits
# Your result is in 16 bits under autocast. The parts are summed up in FP32 and returned in FP32:
# leave the shares as they are, and don't cast what you return.
of("added_up", swap("return result", "return result.to(expert(x[rows]).dtype)"))
swap("sum(1)", "sum(1).to((x[:1] @ x[:1].T).dtype)")
of("added_up", swap("zeros_like(x)", "zeros_like(x, dtype=experts[0](x).dtype)") & swap(
    "expert(x[rows]).float() * shares[rows, slots, None]",
    "expert(x[rows]) * shares[rows, slots, None].to(result.dtype)"))

# %% wrong sum-in-16-bits
# You add the parts up by a matrix product. Autocast casts its FP32 operands to 16 bits, and a cast
# of the result comes too late. Multiply element by element and sum, or switch autocast off.
swap("(parts * shares[:, :, None]).sum(1)", "(shares[:, None] @ parts)[:, 0].float()")
swap("(parts * shares[:, :, None]).sum(1)", "torch.einsum('rsf,rs->rf', parts, shares).float()")

# %% wrong share-without-dimensions
# You multiply a 16-bit part by a share without dimensions. Such a tensor doesn't raise the dtype:
# FP16 times one FP32 number is FP16, so the product is rounded. Cast the part to FP32 first.
of("stored_one_by_one", swap("p.float() * s", "(p * s).float()"))
(swap("return (parts * shares[:, :, None]).sum(1)",
    "return torch.stack([sum(own[e].mul(s).float() for e, s in zip(c, share))\n"
    "    for own, c, share in zip(every, chosen, shares)])") &
    put("every = torch.stack([e(x) for e in experts], 1)", before="parts ="))

# %% wrong gradients-cut
# No gradient reaches the experts: `.data`, `.detach()` and `no_grad` cut it off. A cast with `.to`
# keeps it.
swap("expert(x[rows]).to(parts.dtype)", "expert(x[rows]).data.float()")
wrap("with torch.no_grad():", "parts[rows, slots] =")
swap("parts[rows, slots] = expert(x[rows]).to(parts.dtype)",
    "parts.data[rows, slots] = expert(x[rows]).float()")

# %% wrong repeated-rows-lost
# A row that chooses the same expert twice gets only one of its two parts. `result[rows] += ...`
# writes to each row once, whatever the index repeats, and a mask of rows holds each row once. Use
# `index_add`, or store each part.
of("added_up", put("result = result.clone()", before="result = result") & swap(
    "result = result.index_add(0, rows, expert(x[rows]).float() * shares[rows, slots, None])",
    "result[rows] += expert(x[rows]).float() * shares[rows, slots, None]"))
of("added_up", swap(
    "result.index_add(0, rows, expert(x[rows]).float() * shares[rows, slots, None])",
    "result + torch.zeros_like(x).index_put((rows,), expert(x[rows]).float()"
    " * shares[rows, slots, None])"))

of("added_up", swap("torch.where(chosen == number)",
    "torch.where((chosen == number) & ((chosen == number).cumsum(1) == 1))"))

# %% program rows_in_a_mask
def fix_scatter(x, experts, chosen, shares):
    result = torch.zeros_like(x)
    for number, expert in enumerate(experts):
        mine = chosen == number
        rows = mine.any(1)
        share = shares[rows].gather(1, mine[rows].int().argmax(1, keepdim=True))
        part = torch.zeros_like(x)
        part[rows] = expert(x[rows]).float() * share
        result = result + part
    return result

# %% wrong shares-forgotten
# You add up or average the experts' results, and leave the shares out. Multiply each part by its
# share.
swap("(parts * shares[:, :, None]).sum(1)", "parts.mean(1)")
of("added_up", swap("* shares[rows, slots, None]", "/ 2"))
swap("(parts * shares[:, :, None])", "parts")
of("added_up", swap(" * shares[rows, slots, None]", ""))
