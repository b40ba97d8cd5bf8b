# %% statement points=2 minutes=10
# # The FLOPs of a training step
#
# Write `step_flops(widths, batch)`. It returns the FLOPs of all matrix products in one training
# step of a stack of linear layers, forward and backward.
#
# `widths` holds the width of the input, then the width of each layer's output. So `[784, 512, 10]`
# means two layers. The input is data and needs no gradient. Leave out biases, activations, the loss
# and the optimizer, which cost little beside the products.

# %% answer
def step_flops(widths, batch):
    """FLOPs of one training step, as a whole number."""
    ### BEGIN SOLUTION
    products = [2 * batch * into * out for into, out in pairwise(widths)]
    return 3 * sum(products) - products[0]
    ### END SOLUTION

# %% hints
# - Forward, a layer multiplies a (batch, in) by an (in, out) matrix. How many FLOPs are that?
# - Backward, the weight's gradient is (out, batch) times (batch, in), and the input's gradient is
#   (batch, out) times (out, in). Each costs as much as the forward product.
# - One of these products isn't needed, because no parameter comes before it. Which one?

# %% probe
from amp_lessons.exercises.speed.harness_runs import flop_cases

probe = Probe(flop_cases, own=("amp_lessons.amp.roofline", "amp_lessons.amp.speed.timing"))

# %% judge
judge = Judge(asked_for="the FLOPs, as a number")

# %% passed
# Once forward and twice backward, without the gradient of the first layer's input. That makes 8
# products for the three equal layers of PyTorch's AMP recipe, or 1.1 TFLOP per step.

# %% right layer_by_layer
def step_flops(widths, batch):
    total = 0
    for i in range(1, len(widths)):
        product = 2 * batch * widths[i - 1] * widths[i]
        total += product  # forward
        total += product  # the weight's gradient
        if i > 1:
            total += product  # the input's gradient
    return total

# %% right asks_torch
def step_flops(widths, batch):
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    with torch.device("meta"):
        layers = [torch.nn.Linear(a, b) for a, b in pairwise(widths)]
        x = torch.randn(batch, widths[0])
    with FlopCounterMode(display=False) as counter:
        torch.nn.Sequential(*layers)(x).sum().backward()
    return counter.get_total_flops()

# %% wrong data-gradient
# You counted three products for every layer. The input of the first layer is the data, which needs
# no gradient, so autograd leaves that product out. Three equal layers have 8 products, not 9.
swap(" - products[0]", "")
of("layer_by_layer", swap("if i > 1", "if i > 0"))

# %% wrong forward-only
# Your number is that of the forward pass alone. Backward adds a product for each weight, and for
# each input but the first; and a multiplication with its addition is two FLOPs.
swap("3 * sum(products) - products[0]", "sum(products)")
of("layer_by_layer", drop("if i > 1") & drop("total += product", nth=2))

# %% wrong backward-only
# You left the forward pass out. Each layer has a product there too.
swap("3 *", "2 *")
of("layer_by_layer", drop("total += product  # forward"))

# %% wrong backward-as-forward
# You counted one product per layer backward. The gradients of weight and input take one each.
swap("3 * sum(products) - products[0]", "2 * sum(products)")
of("layer_by_layer", drop("if i > 1"))

# %% wrong wrong-end
# You left one product out, at the wrong end: the first layer's input needs no gradient.
swap("products[0]", "products[-1]")
of("layer_by_layer", swap("i > 1", "i < len(widths) - 1"))

# %% wrong layer-left-out
# You left out more than one product of the first layer. Forward and weight gradient take one each.
swap("- products[0]", "- 2 * products[0]")
swap("- products[0]", "- 3 * products[0]")
of("layer_by_layer", swap("range(1,", "range(2,"))

# %% wrong one-flop-each
# You counted a multiplication and its addition as one FLOP. They are two.
swap("2 * batch", "batch")
of("layer_by_layer", swap("2 * batch * widths", "batch * widths"))

# %% wrong batch-forgotten
# You left the batch out. Each of its rows goes through every product, so multiply by `batch`.
swap("2 * batch", "2")
of("layer_by_layer", swap("batch * ", ""))

# %% wrong biases-counted
# You counted the biases as well. The task asks for the matrix products alone.
swap("2 * batch * into * out", "2 * batch * into * out + batch * out")
swap("into * out", "(into + 1) * out")
of("layer_by_layer", swap("widths[i - 1] * widths[i]", "(widths[i - 1] + 0.5) * widths[i]"))

# %% wrong ready-made
# %% program the_course_multiplies
def step_flops(widths, batch):
    from amp_lessons.amp.roofline import matmul_flops

    products = [matmul_flops(batch, out, into) for into, out in pairwise(widths)]
    return 3 * sum(products) - products[0]

# %% program the_course_counts
def step_flops(widths, batch):
    import torch
    from amp_lessons.amp.speed import count_flops

    with torch.device("meta"):
        layers = [torch.nn.Linear(a, b) for a, b in pairwise(widths)]
        x = torch.randn(batch, widths[0])
    return count_flops(lambda: torch.nn.Sequential(*layers)(x).sum().backward())
