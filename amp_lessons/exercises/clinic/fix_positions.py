# %% statement points=3 minutes=15
# # Case 15: eight positions that become one
#
# Rotary embeddings turn each pair of features by an angle: the row's position times a frequency. So
# two rows with the same features differ if their positions do. Here they come out equal.

# %% demo
def rotated(x, weight, positions, inv_freq):
    queries = x @ weight
    angles = positions.float()[:, None] @ inv_freq.float()[None, :]
    cos, sin = angles.cos().to(queries.dtype), angles.sin().to(queries.dtype)
    a, b = queries.chunk(2, dim=1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=1)


given = torch.ones(8, 4), torch.eye(4), 65536 + torch.arange(8), torch.tensor([1.0, 0.1])
print("FP32, different rows:", len(rotated(*given).unique(dim=0)))
with torch.autocast("cpu", dtype=torch.bfloat16):
    print("BF16, different rows:", len(rotated(*given).float().unique(dim=0)))

# %% text
# Fix it. Call your version `fix_positions` and keep the arguments. `positions` are integers, and
# `inv_freq` is in FP32. It is called in a BF16 region, in an FP16 region, and with none open.
#
# The angles have to be as exact as in FP32. `x @ weight` still runs in the precision of the
# caller's region, and the result has the dtype of that product. `x` and `weight` get gradients, as
# before. The region is as it was afterwards.

# %% answer
def fix_positions(x, weight, positions, inv_freq):
    """x @ weight, of shape (rows, features), with each pair of features turned by its angle."""
    ### BEGIN SOLUTION
    queries = x @ weight
    with torch.autocast("cpu", enabled=False):
        angles = positions.float()[:, None] @ inv_freq.float()[None, :]
    cos, sin = angles.cos().to(queries.dtype), angles.sin().to(queries.dtype)
    a, b = queries.chunk(2, dim=1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=1)
    ### END SOLUTION

# %% hints
# - BF16 has 8 bits of significand. Which number comes after 65536?
# - Print `angles.dtype`. Which operation made it, and what does autocast do to its operands?
# - Switch autocast off for one line, or find an operation that autocast leaves alone.

# %% probe
from amp_lessons.exercises.clinic.harness_layers import play_positions, positions_cases

probe = Probe(positions_cases, play_positions)

# %% judge
judge = Judge(same=within(0.02), asked_for="a tensor")

# %% passed
# Autocast casts the FP32 operands of a matrix product to 16 bits. Angles need FP32: switch autocast
# off around their product, or multiply element by element.

# %% right element_by_element
def fix_positions(x, weight, positions, inv_freq):
    queries = x @ weight
    angles = positions.unsqueeze(1) * inv_freq
    a, b = queries.float().tensor_split(2, dim=-1)
    turned = a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()
    return torch.cat(turned, dim=-1).to(queries.dtype)

# %% right double
def fix_positions(x, weight, positions, inv_freq):
    queries = x @ weight
    angles = positions.double()[:, None] @ inv_freq.double()[None, :]
    pairs = torch.complex(*queries.double().chunk(2, dim=1))
    turned = pairs * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([turned.real, turned.imag], dim=1).to(queries.dtype)

# %% rule region-left-off
# Autocast is different when your function returns, so the rest of the model runs in another
# precision. Use `with torch.autocast(..., enabled=False):`, which puts it back.
def breaks(seen, right):
    return noted(seen, "autocast afterwards") == "changed"
(unwrap("with torch.autocast") &
    put("torch.set_autocast_enabled('cpu', False)", before="angles ="))

# %% rule product-in-fp32
# You switched autocast off for `x @ weight` too, and that product is the expensive one. Leave it in
# the caller's region. Only the angles need FP32.
def breaks(seen, right):
    return noted(seen, "x @ weight in the region's dtype") == "no"
move("queries =", before="angles =")
put("@torch.autocast('cpu', enabled=False)", before="def fix_positions")

# %% rule result-in-fp32
# Your result is FP32, and the product is not. Cast the result, or the cosines and sines, to
# `queries.dtype`.
def breaks(seen, right):
    found, wanted = (noted(entry, "dtype of the result") for entry in (seen, right))
    return found in ("float32", "float64") and found != wanted
swap(".to(queries.dtype)", "", nth=0)
of("element_by_element", swap(".to(queries.dtype)", ""))

# %% rule result-in-a-fixed-dtype
# Your result has one 16-bit dtype in every region. Here it is {found}, and `x @ weight` has
# another one. Take the dtype from that product.
def breaks(seen, right):
    found, wanted = (noted(entry, "dtype of the result") for entry in (seen, right))
    return {"found": found} if found is not None and found != wanted else None
of("element_by_element", swap(".to(queries.dtype)", ".bfloat16()"))
swap("], dim=1)", "], dim=1).half()")

# %% rule gradients-cut
# Your result passes no gradient on to `x` or `weight`, so the layer can't learn. Don't detach them,
# and keep their product out of `torch.no_grad()`. Around the angles alone it does no harm.
def breaks(seen, right):
    return "none" in (noted(seen, "gradient of x"), noted(seen, "gradient of weight"))
put("@torch.no_grad()", before="def fix_positions")
swap("queries = x @ weight", "queries = x @ weight.detach()")
swap("queries = x @ weight", "queries = x.detach() @ weight")
of("element_by_element", swap("queries = x @ weight", "with torch.no_grad(): queries = x @ weight"))
of("double", swap("queries = x @ weight", "queries = x @ weight.data"))

# %% wrong angles-cast-again
# The angles are still in 16 bits. Autocast casts the operands of `@` and `matmul` again after your
# `.float()`, and a cast of their result comes too late. Switch autocast off around that line, for
# the device on which it runs. Don't cast positions and frequencies to 16 bits yourself either.
of("element_by_element", swap("positions.unsqueeze(1) * inv_freq",
    "positions.to(queries.dtype).unsqueeze(1) * inv_freq.to(queries.dtype)"))
unwrap("with torch.autocast")
swap('torch.autocast("cpu", enabled=False)', 'torch.autocast("cuda", enabled=False)')
of("double", swap("positions.double()[:, None] @ inv_freq.double()[None, :]",
    "torch.matmul(positions[:, None].float(), inv_freq[None, :].float())"))
(unwrap("with torch.autocast") & swap("positions.float()[:, None] @ inv_freq.float()[None, :]",
    "(positions.float()[:, None] @ inv_freq[None, :]).float()"))

unwrap("with torch.autocast") & put("angles = angles % math.tau", before="cos, sin")

# %% wrong positions-in-16-bits
# You cast the positions to 16 bits. In BF16, eight positions from 65536 on become one number, and
# in FP16 those from 65520 on become inf. Keep them in FP32.
of("element_by_element", swap("positions.unsqueeze(1) *", "positions.to(queries).unsqueeze(1) *"))
swap("positions.float()", "positions.to(queries.dtype).float()")

# %% wrong angles-in-16-bits
# You compute the angles in FP32 and round them to 16 bits before you take cosine and sine. An angle
# of 65536 can't move by less than 256 in BF16. Cast the cosines and sines, which are at most 1.
put("angles = angles.to(queries.dtype)", after="with torch.autocast")
of("element_by_element", swap("positions.unsqueeze(1) * inv_freq",
    "(positions.unsqueeze(1) * inv_freq).to(queries.dtype)"))

# %% wrong frequencies-in-16-bits
# You round the frequencies to 16 bits. Their small error is multiplied by a large position, so the
# angles are wrong. Keep them in FP32.
swap("inv_freq.float()", "inv_freq.to(queries.dtype).float()")
of("element_by_element", swap("* inv_freq", "* inv_freq.to(queries.dtype).float()"))

# %% wrong positions-shifted
# You make the positions smaller, so that they fit. Then these rows are turned by other angles than
# the keys that they meet. Keep the positions, and compute in FP32.
swap("positions.float()", "(positions - positions[0]).float()")
swap("positions.float()", "(positions % 65536).float()")
swap("positions.float()", "(positions % 2048).float()")
of("element_by_element", swap("positions.unsqueeze(1)",
    "torch.arange(len(positions)).unsqueeze(1)"))

# %% wrong turned-the-other-way
# You turn the features by another angle: a sign is exchanged, or sine and cosine are. Keep the last
# two lines of the program.
swap("a * cos - b * sin, b * cos + a * sin", "a * sin - b * cos, b * sin + a * cos")
swap("a * cos - b * sin, b * cos + a * sin", "a * cos + b * sin, b * cos - a * sin")
of("element_by_element", swap("* inv_freq", "* -inv_freq"))

# %% wrong neighbours-paired
# You pair neighbouring features. The program pairs the first half with the second. Keep `chunk`.
swap("queries.chunk(2, dim=1)", "queries[:, ::2], queries[:, 1::2]")
of("element_by_element", swap("queries.float().tensor_split(2, dim=-1)",
    "queries.float().unflatten(1, (-1, 2)).unbind(-1)"))
