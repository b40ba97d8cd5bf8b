# %% statement points=3 minutes=15
# # Rows in blocks of 16
#
# Write `block_quantizer(x, scale_of)`. It quantises a matrix to FP4, in blocks of 16 numbers along
# each row.
#
# `x` is float32 of shape (m, k), and k is a multiple of 16. `scale_of` is a rule: called with a
# tensor of the blocks' largest magnitudes, it returns their scales, in the same shape. Return a
# pair `(elements, scales)`:
#
# - `scales` has the shape (m, k / 16).
# - `elements` has the shape of `x`. Each is the number divided by its block's scale, and rounded to
#   the nearest number of FP4. Beyond 6 it becomes 6. In a block of zeros it is 0, and some rules
#   give such a block the scale 0.
#
# `fp4(values)` rounds to the nearest number of FP4, and cuts off at 6.

# %% given
from amp_lessons.exercises.mxfp8_and_nvfp4.harness import fp4

# %% answer
def block_quantizer(x, scale_of):
    """(elements, scales): the matrix in FP4, and a scale for each 16 numbers of a row."""
    ### BEGIN SOLUTION
    blocks = x.unflatten(1, (-1, 16))
    scales = scale_of(blocks.abs().amax(2))
    divisor = torch.where(scales == 0, 1.0, scales)
    return fp4(blocks / divisor[:, :, None]).flatten(1), scales
    ### END SOLUTION

# %% hints
# - Give the matrix a third dimension: (m, k / 16, 16). Over which dimension is the largest
#   magnitude?
# - The scales are (m, k / 16). What do they need before you divide (m, k / 16, 16) by them?
# - What is 0 / 0?

# %% probe
from amp_lessons.exercises.mxfp8_and_nvfp4.harness import matrix_cases, play_quantizer

probe = Probe(matrix_cases, play=play_quantizer, own=("amp_lessons.amp.numbers.blocks",))

# %% judge
judge = Judge(asked_for="a pair (elements, scales)")

# %% passed
# That is all there is to MXFP4 and NVFP4: a shape, a rule for the scale, and one rounding.

# %% right repeats_the_scales
def block_quantizer(x, scale_of):
    m, k = x.shape
    scales = scale_of(x.abs().reshape(-1, 16).max(dim=1).values.reshape(m, k // 16))
    wide = scales.repeat_interleave(16, dim=1)
    elements = fp4(x / wide)
    return torch.where(x == 0, 0.0, elements), scales

# %% right block_by_block
def block_quantizer(x, scale_of):
    elements, columns = torch.zeros_like(x), []
    for start in range(0, x.shape[1], 16):
        block = x[:, start : start + 16]
        scale = scale_of(block.abs().max(1).values)
        alive = scale != 0
        elements[alive, start : start + 16] = fp4(block[alive] / scale[alive, None])
        columns.append(scale)
    return elements, torch.stack(columns, 1)

# %% wrong along-the-columns
# Your blocks lie along the columns. A block is 16 numbers beside each other in one row.
# %% program blocks_of_columns
def block_quantizer(x, scale_of):
    m, k = x.shape
    blocks = x.T.reshape(k, -1, 16)
    scales = scale_of(blocks.abs().amax(2))
    divisor = torch.where(scales == 0, 1.0, scales)
    return fp4(blocks / divisor[:, :, None]).reshape(k, m).T, scales.T
# %% program every_sixteenth
def block_quantizer(x, scale_of):
    blocks = x.T.contiguous().unflatten(1, (-1, 16))
    scales = scale_of(blocks.abs().amax(2))
    divisor = torch.where(scales == 0, 1.0, scales)
    return fp4(blocks / divisor[..., None]).flatten(1).T, scales.T

# %% wrong mixed-up-blocks
# Your blocks aren't 16 neighbours: a `reshape` or `unflatten` put every so many-th number of a row
# into a block. Cut the last dimension into (k / 16, 16), in this order.
swap("(-1, 16)", "(16, -1)") & swap("amax(2)", "amax(1)") & swap("divisor[:, :, None]",
    "divisor[:, None, :]")
# %% program strided
def block_quantizer(x, scale_of):
    m, k = x.shape
    blocks = x.reshape(m, 16, k // 16)
    scales = scale_of(blocks.abs().amax(1))
    divisor = torch.where(scales == 0, 1.0, scales)
    return fp4(blocks / divisor[:, None]).reshape(m, k), scales

# %% wrong one-scale-a-row
# All blocks of a row get the same scale, from the largest magnitude of the whole row.
swap("blocks.abs().amax(2)",
    "blocks.abs().amax((1, 2), keepdim=True)[:, :, 0].expand(-1, blocks.shape[1])")
of("block_by_block", swap("block.abs().max(1).values", "x.abs().max(1).values"))

# %% wrong one-scale-for-all
# All blocks get the same scale, from the largest magnitude of the matrix. That is one scale for a
# tensor.
swap("blocks.abs().amax(2)", "blocks.abs().max().expand(blocks.shape[:2])")
of("block_by_block", swap("block.abs().max(1).values", "x.abs().max().expand(len(x))"))

# %% wrong sign-forgotten
# You took the largest value, not the largest magnitude. A large negative number is then cut off.
swap("blocks.abs().amax(2)", "blocks.amax(2)")
of("block_by_block", swap("block.abs().max(1).values", "block.max(1).values"))
swap("blocks.abs().amax(2)", "blocks.amax(2).abs()")

# %% wrong zeros-become-nan
# A block of zeros becomes NaN: its scale can be 0, and 0 / 0 is NaN. Its elements are 0.
swap("torch.where(scales == 0, 1.0, scales)", "scales")
of("repeats_the_scales", swap("torch.where(x == 0, 0.0, elements)", "elements"))

# %% wrong scales-replaced
# You return another scale than `scale_of` gave for a block of zeros. Replace it for the division
# alone.
swap("torch.where(scales == 0, 1.0, scales)", "scales = torch.where(scales == 0, 1.0, scales)")
of("block_by_block", swap("columns.append(scale)",
    "columns.append(torch.where(alive, scale, 1.0))"))
swap("scale_of(blocks.abs().amax(2))", "scale_of(blocks.abs().amax(2)).clamp(min=1e-12)")

# %% wrong multiplied
# You multiply by the scale. It is what the elements are multiplied by to come *back*, so divide.
swap("blocks / divisor", "blocks * divisor")
of("repeats_the_scales", swap("x / wide", "x * wide"))

# %% wrong dequantised
# You return what is left of the numbers, elements times scale. Return the elements and the scales
# apart.
swap("fp4(blocks / divisor[:, :, None])",
    "(fp4(blocks / divisor[:, :, None]) * divisor[:, :, None])")
of("repeats_the_scales", swap("fp4(x / wide)", "fp4(x / wide) * wide"))

# %% wrong not-rounded
# Your elements aren't numbers of FP4: you scaled and didn't round. Call `fp4` on the quotient.
swap("fp4(blocks / divisor[:, :, None])", "(blocks / divisor[:, :, None])")
of("repeats_the_scales", swap("fp4(x / wide)", "x / wide"))

# %% wrong rounded-before-scaling
# You rounded before you scaled. FP4 ends at 6 and has nothing between 0 and 0.5: divide first.
swap("fp4(blocks / divisor[:, :, None])", "(fp4(blocks) / divisor[:, :, None])")
of("repeats_the_scales", swap("fp4(x / wide)", "fp4(x) / wide"))

# %% rule scales-spread-out
# Your scales have the shape {shape}. There is one for each 16 numbers: (m, k / 16).
def breaks(seen, right):
    shape, wanted = (noted(each, "shape of the scales") for each in (seen, right))
    spread = shape and (len(shape) != 2 or (shape[0] == wanted[0] and shape[1] > wanted[1]))
    return spread and {"shape": shape}
of("repeats_the_scales", swap("elements), scales", "elements), wide"))
swap("flatten(1), scales", "flatten(1), scales[:, :, None]")
swap("(-1, 16)", "(-1, 8)")

# %% wrong ready-made
# %% program the_course_package
def block_quantizer(x, scale_of):
    from amp_lessons.amp.numbers import NVFP4, quantize_blocks

    q = quantize_blocks(x, NVFP4)
    return q.elements, q.scales * q.tensor_scale
