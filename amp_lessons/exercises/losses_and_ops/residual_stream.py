# %% statement points=2 minutes=10
# # A residual stream in FP32
#
# Write `residual_stream(x, blocks, region)`. One block after the other, it adds `block(x)` to `x`.
#
# `x` has the shape (rows, width), in float32 or, from a first layer, in 16 bits. `blocks` is a list
# of modules with float32 weights, each a norm and a linear layer. The linear layers run in
# `region`, `torch.float16` or `torch.bfloat16`. No autocast region is open at the call.
#
# The stream may grow past 65504, and a block may add little to something large. So every sum runs
# in float32, the first one too, and each block gets the stream in float32. Return the stream in
# float32. Leave `x` and the blocks as they are.

# %% answer
def residual_stream(x, blocks, region):
    """The stream after all blocks, float32: the blocks in 16 bits, the sums in 32."""
    ### BEGIN SOLUTION
    stream = x.float()
    with torch.autocast("cpu", dtype=region):
        for block in blocks:
            stream = stream + block(stream)
    return stream
    ### END SOLUTION

# %% hints
# - What is the dtype of float32 + float16? And of float16 + float16?
# - A sum takes the wider of two dtypes, so the first tensor of the stream decides for all that
#   follow.
# - Cast `x` once, before the first block. Autocast casts what the linear layers need.

# %% probe
from amp_lessons.exercises.losses_and_ops.harness import play_stream, stream_cases

probe = Probe(stream_cases, play=play_stream)

# %% judge
from amp_lessons.exercises.harness import telling

same = within(0.01)
judge = Judge(same, "a float32 tensor of the shape of x", tell=telling(same))

# %% passed
# The dtype of the first tensor decides for the whole stream. The blocks still run in 16 bits.

# %% right region_per_block
def residual_stream(x, blocks, region):
    stream = x.to(torch.float32)
    for block in blocks:
        with torch.autocast(device_type="cpu", dtype=region):
            update = block(stream)
        stream = stream + update.float()
    return stream

# %% right double_sums
def residual_stream(x, blocks, region):
    total = x.double()
    for block in blocks:
        with torch.autocast("cpu", dtype=region):
            total = total + block(total.float())
    return total.float()

# %% rule blocks-cast-for-good
# You cast the blocks' own weights to 16 bits, and they stay that way after the call. Training needs
# them in float32. Open an autocast region instead: it makes 16-bit copies and drops them.
def breaks(seen, right):
    return "float16 weights" in str(noted(seen, "the blocks afterwards"))
swap("block(stream)", "block.to(region)(stream.to(region))") & unwrap("with torch.autocast")
(put("block.linear.to(region)", before="stream = stream") & swap("block(stream)",
    "block.linear(block.norm(stream).to(region))"))

# %% rule hooks-left
# Your function leaves its hooks on the blocks, and they run again in every later call. Remove them.
def breaks(seen, right):
    return "hooks" in str(noted(seen, "the blocks afterwards"))
put("block.register_forward_hook(lambda module, args, out: out.float())", before="stream = stream")

# %% rule autocast-left-on
# You leave autocast switched on. Use `with torch.autocast(...)`, which puts the state back.
def breaks(seen, right):
    return noted(seen, "autocast afterwards") == "on"
put('torch.autocast("cpu", dtype=region).__enter__()', before="with") & unwrap("with torch")

# %% rule blocks-run-twice
# A block should run once, and it runs {count} times. Call it once and keep what it returns.
def breaks(seen, right):
    runs = noted(seen, "runs of each block")
    return runs not in (None, [1]) and {"count": " or ".join(map(str, runs))}
put("block(stream)", before="stream = stream")

# %% rule blocks-in-float32
# The blocks run in float32. Only the sums need it. Open `torch.autocast("cpu", dtype=region)`.
def breaks(seen, right):
    return noted(seen, "linear layers ran in") == "float32"
unwrap("with torch.autocast")
swap("dtype=region", "enabled=False")

# %% rule region-without-its-dtype
# Your blocks run in {got}, and `region` was {right}. Pass it on to autocast: `dtype=region`.
def breaks(seen, right):
    got, wanted = noted(seen, "linear layers ran in"), noted(right, "linear layers ran in")
    return got not in (None, "", wanted) and {"got": got, "right": wanted}
swap(", dtype=region", "")
swap("dtype=region", "dtype=torch.float16")

# %% rule x-changed
# Your function writes into `x`: a float32 `x` comes back changed. `float()`
# makes no copy of it, so `+=` or `add_` changes the caller's tensor. Write `stream = stream + …`.
def breaks(seen, right):
    return seen.get("changed") == 0
put("stream = stream.detach()", before="with") & swap("stream = stream + block", "stream += block")
of("region_per_block", swap("stream = stream + update.float()", "stream.data.add_(update)"))

# %% wrong stream-as-it-comes
# The stream keeps the 16 bits that `x` came with: FP16 overflows at 65504, and BF16 loses what is
# added to 300. Cast `x` to float32 before the first block, not after the last.
swap("stream = x.float()", "stream = x")
of("region_per_block", swap("x.to(torch.float32)", "x") & swap("update.float()", "update"))
swap("stream = x.float()", "stream = x") & swap("return stream", "return stream.float()")

# %% wrong first-sum-in-16-bits
# You cast to float32 only after the first block, so the first sum still runs in 16 bits. It can
# overflow, or lose what the block adds. Cast `x` before the first block.
swap("x.float()", "x") & swap("stream + block(stream)", "(stream + block(stream)).float()")
of("region_per_block",
    swap(".to(torch.float32)", "") & swap("stream + update", "(stream + update)"))

# %% wrong stream-in-the-regions-dtype
# You store the stream in the region's dtype. FP16 overflows at 65504, and BF16 loses small updates.
# Autocast casts what the linear layers need. The stream itself has to stay in float32.
swap("x.float()", "x.to(region)")
swap("x.float()", "x.to(region)") & swap("return stream", "return stream.float()")
swap("stream + block(stream)", "(stream + block(stream)).to(region)")
(swap("stream + block(stream)", "(stream + block(stream)).to(region)") &
    swap("return stream", "return stream.float()"))
of("region_per_block", swap("x.to(torch.float32)", "x.to(region)") & swap(".float()", ""))

# %% wrong blocks-fed-in-16-bits
# You cast the stream to 16 bits before each block. A stream beyond 65504 becomes inf there, and the
# block's norm gets rounded values. Hand it the float32 stream: autocast casts where it is safe.
swap("block(stream)", "block(stream.to(region))")
of("double_sums", swap("total.float()", "total.to(region)", nth=1))

# %% wrong result-cast-down
# You cast the result to 16 bits, so the next layer gets a rounded stream, or inf. Return float32.
swap("return stream", "return stream.to(x.dtype)")
of("double_sums", swap("total.float()", "total.type_as(x)", nth=2))
swap("return stream", "return stream.to(region)")

# %% wrong float64-returned
# The stream comes back in float64. Return it in float32.
of("double_sums", swap("return total.float()", "return total"))
swap("return stream", "return stream.double()")

# %% wrong stream-not-added
# Each block replaces the stream. Add what the block returns to it: `x + block(x)`.
swap("stream + block(stream)", "block(stream)")
swap("stream + block(stream)", "block(stream).float()")
of("region_per_block", swap("stream + update.float()", "update.float()"))

# %% wrong every-block-on-x
# Every block gets `x` itself. Each block should get the stream as the blocks before it left it.
swap("block(stream)", "block(x.float())")
of("region_per_block", swap("block(stream)", "block(x)"))
