# %% statement points=3 minutes=15
# # A recipe with a hole
#
# These are the three products of a linear layer, by a recipe for NVFP4 with blocks of 1x16.
# `quantise(matrix)` cuts each *row* into blocks of 16 and returns what NVFP4 leaves of it.
# `quantise(matrix, stochastic=True)` rounds stochastically. Something is wrong in the backward
# pass.

# %% demo
def with_a_hole(x, weight, gradient, quantise):
    small = quantise(weight)
    output = quantise(x) @ small.T
    for_x = quantise(gradient) @ small
    for_weight = quantise(gradient.T, stochastic=True) @ quantise(x.T).T
    return output, for_x, for_weight

# %% text
# `x` has the shape (batch, inputs), `weight` (outputs, inputs), and `gradient`, which came back
# from the next layer, (batch, outputs). Find what is wrong, and write `recipe_hole` with the same
# arguments and results. It must hold for each product:
#
# - Both matrices are in NVFP4, and their blocks lie along the dimension that is summed over.
# - What is quantised is the exact matrix that you were given, or its transpose.
# - Gradients are rounded stochastically, all else to the nearest.
#
# Quantise with `quantise` alone. In this exercise it draws the same each time.

# %% answer
def recipe_hole(x, weight, gradient, quantise):
    """The output, the gradient of the input and the gradient of the weight, in NVFP4."""
    ### BEGIN SOLUTION
    output = quantise(x) @ quantise(weight).T
    for_x = quantise(gradient, stochastic=True) @ quantise(weight.T).T
    for_weight = quantise(gradient.T, stochastic=True) @ quantise(x.T).T
    return output, for_x, for_weight
    ### END SOLUTION

# %% hints
# - Write down for each product which dimension it sums over: inputs, outputs, or the batch.
# - `quantise` has blocks along rows. Which two matrices of a product `a @ b` must have them along
#   their rows, `a` and `b`, or `a` and `b.T`?
# - Two things are wrong in the line of `for_x`: how the gradient is rounded, and how the blocks of
#   the weight lie.

# %% probe
from amp_lessons.exercises.mxfp8_and_nvfp4.harness import layer_cases, play_layer

probe = Probe(
    layer_cases,
    play=play_layer,
    own=("amp_lessons.amp.numbers.blocks.linear",),
    lent=("amp_lessons.amp.numbers.blocks",),
)

# %% judge
judge = Judge(same=within(1e-4), asked_for="three tensors")

# %% passed
# Six quantisations for three products: each tensor along its rows and along its columns. With
# square blocks the weight needs only one.

# %% right with_a_helper
def recipe_hole(x, weight, gradient, quantise):
    def product(a, b, draw=False):
        return quantise(a, stochastic=draw) @ quantise(b.transpose(0, 1)).transpose(0, 1)

    return product(x, weight.T), product(gradient, weight, True), product(gradient.T, x, True)

# %% right the_other_way_round
def recipe_hole(x, weight, gradient, quantise):
    rows = {name: quantise(m) for name, m in (("x", x), ("weight", weight))}
    columns = {name: quantise(m.T) for name, m in (("x", x), ("weight", weight))}
    g, g_columns = (quantise(m, stochastic=True) for m in (gradient, gradient.T))
    for_weight = columns["x"] @ g_columns.T
    return rows["x"] @ rows["weight"].T, g @ columns["weight"].T, for_weight.T

# %% wrong weight-reused
# In the gradient of the input you take the weight as it was quantised for the forward pass. Its
# blocks lie along the inputs, and this product sums over the outputs. Quantise `weight.T`, and
# transpose that.
swap("quantise(weight.T).T", "quantise(weight)")
of("the_other_way_round", swap('columns["weight"].T', 'rows["weight"]'))

# %% wrong quantised-twice
# You quantise what is quantised already, so each number of the weight is rounded twice. Start from
# the exact weight: `quantise(weight.T)`.
swap("quantise(weight.T).T", "quantise(quantise(weight).T).T")
of("the_other_way_round", swap('columns["weight"].T', 'quantise(rows["weight"].T).T'))

# %% wrong gradient-to-nearest
# You round the gradient for the input to the nearest. Small gradients of a block then all become 0.
swap("quantise(gradient, stochastic=True)", "quantise(gradient)")
of("with_a_helper", swap("product(gradient, weight, True)", "product(gradient, weight)"))

# %% wrong both-holes-left
# There are two holes in the line of `for_x`, and both are still there: the gradient is rounded to
# the nearest, and the blocks of the weight lie along the wrong dimension.
swap("quantise(gradient, stochastic=True) @ quantise(weight.T).T",
    "quantise(gradient) @ quantise(weight)")
# %% program as_it_was
def recipe_hole(x, weight, gradient, quantise):
    small = quantise(weight)
    output = quantise(x) @ small.T
    for_x = quantise(gradient) @ small
    for_weight = quantise(gradient.T, stochastic=True) @ quantise(x.T).T
    return output, for_x, for_weight

# %% wrong weight-gradient-to-nearest
# For the gradient of the weight you round to the nearest. This sum over the batch needs it most: a
# bias of one sign adds up over all rows.
swap("quantise(gradient.T, stochastic=True)", "quantise(gradient.T)")
of("with_a_helper", swap("product(gradient.T, x, True)", "product(gradient.T, x)"))

# %% wrong everything-stochastic
# You round weights or inputs stochastically too. A draw is less exact than the nearest number, and
# they have no bias to be freed of that matters. Round only gradients stochastically.
swap("quantise(x)", "quantise(x, stochastic=True)") & swap("quantise(weight)",
    "quantise(weight, stochastic=True)") & swap("quantise(weight.T)",
    "quantise(weight.T, stochastic=True)") & swap("quantise(x.T)", "quantise(x.T, stochastic=True)")
of("with_a_helper", swap("quantise(a, stochastic=draw)", "quantise(a, stochastic=True)") & swap(
    "quantise(b.transpose(0, 1))", "quantise(b.transpose(0, 1), stochastic=True)"))
swap("quantise(x)", "quantise(x, stochastic=True)")
swap("quantise(weight)", "quantise(weight, stochastic=True)")
swap("quantise(weight.T)", "quantise(weight.T, stochastic=True)")
swap("quantise(x.T)", "quantise(x.T, stochastic=True)")

# %% wrong gradient-blocks-along-outputs
# For the gradient of the weight your gradient has its blocks along the outputs. This product sums
# over the batch: quantise `gradient.T`.
swap("quantise(gradient.T, stochastic=True)", "quantise(gradient, stochastic=True).T")
of("the_other_way_round", swap("g_columns.T", "g"))

# %% wrong input-blocks-along-inputs
# For the gradient of the weight your input has its blocks along the inputs. This product sums over
# the batch: quantise `x.T`, and transpose that.
swap("quantise(x.T).T", "quantise(x)")
of("the_other_way_round", swap('columns["x"] @', 'rows["x"].T @'))

# %% wrong blocks-reused-for-the-weight
# For the gradient of the weight both matrices have their blocks as in the other products. This one
# sums over the batch: quantise both transposes.
swap("quantise(gradient.T, stochastic=True) @ quantise(x.T).T",
    "quantise(gradient, stochastic=True).T @ quantise(x)")
# %% program quantised_once
def recipe_hole(x, weight, gradient, quantise):
    x_rows, g_rows = quantise(x), quantise(gradient, stochastic=True)
    return x_rows @ quantise(weight).T, g_rows @ quantise(weight.T).T, g_rows.T @ x_rows

# %% wrong backward-weight-exact
# The weight of your backward pass is exact. It must be in NVFP4, or a tensor core can't multiply
# it.
swap("quantise(weight.T).T", "weight")
of("the_other_way_round", swap('columns["weight"].T', "weight"))

# %% wrong weight-gradient-exact
# A matrix in the gradient of the weight isn't quantised. All three products take NVFP4.
swap("quantise(x.T).T", "x")
swap("quantise(gradient.T, stochastic=True)", "gradient.T")
swap("quantise(gradient.T, stochastic=True) @ quantise(x.T).T", "gradient.T @ x")
of("the_other_way_round", swap('columns["x"] @', "x.T @"))
of("the_other_way_round", swap("g_columns.T", "gradient"))
of("with_a_helper", swap("product(gradient.T, x, True)", "gradient.T @ x"))

# %% wrong results-quantised
# You quantise results. Products come out wide, and stay so: a gradient of a weight is added up in
# FP32.
swap("return output, for_x, for_weight",
    "return quantise(output), quantise(for_x), quantise(for_weight)")
swap("return output, for_x, for_weight", "return output, for_x, quantise(for_weight)")
of("with_a_helper", swap("return quantise(a", "return quantise(quantise(a") & swap(
    "transpose(0, 1)).transpose(0, 1)", "transpose(0, 1)).transpose(0, 1))"))
of("the_other_way_round", swap("for_weight.T", "quantise(for_weight.T)"))

# %% rule shapes-wrong
# Your {what}. The results are the output, the gradient of the input and that of the weight.
def breaks(seen, right):
    what = noted(seen, "wrong shape")
    return what and {"what": what}
swap("return output, for_x, for_weight", "return output, for_x, for_weight.T")
swap("return output, for_x, for_weight", "return output, for_weight, for_x")
