# %% statement points=3 minutes=15
# # Right on average
#
# Write `stochastic_rounding(x, grid)`. It rounds each number of `x` to one of its two neighbours in
# `grid`, at random, with odds such that it's right on average.
#
# `x` is a float32 tensor of any shape. `grid` has one dimension, ascending and without repeats,
# such as the numbers of FP4 with both signs. The gaps differ. Return a tensor of the shape of `x`:
#
# - A number of the grid stays as it is.
# - A number beyond the ends becomes the first or the last number of the grid.
# - Each number has a draw of its own, and each call has new ones.

# %% answer
def stochastic_rounding(x, grid):
    """Each number becomes one of its neighbours in the grid; its mean is the number."""
    ### BEGIN SOLUTION
    x = x.clamp(grid[0], grid[-1])
    place = torch.searchsorted(grid, x, right=True).clamp(1, len(grid) - 1)
    below, above = grid[place - 1], grid[place]
    up = torch.rand(x.shape) < (x - below) / (above - below)
    return torch.where(up, above, below)
    ### END SOLUTION

# %% hints
# - Say that a number lies a third of the way from its lower to its upper neighbour. How often must
#   it go up, so that the mean is right?
# - `torch.searchsorted(grid, x)` finds the places of all numbers at once. Mind the ends.
# - Compare `torch.rand(x.shape)` with the share of the way.

# %% probe
from amp_lessons.exercises.mxfp8_and_nvfp4.harness import play_rounding, rounding_cases

own = ("amp_lessons.amp.numbers.blocks",)
probe = Probe(rounding_cases, play=play_rounding, own=own)

# %% judge
judge = Judge(asked_for="a tensor of the shape of x")

# %% passed
# Blackwell GPUs do this in hardware. Recipes for NVFP4 use it for gradients, which are added up by
# the thousand, and not for weights and inputs, where a draw only adds noise.

# %% right noise_and_floor
def stochastic_rounding(x, grid):
    inside = torch.minimum(torch.maximum(x, grid[0]), grid[-1])
    index = (torch.bucketize(inside, grid, right=True) - 1).clamp(0, len(grid) - 2)
    gap = grid.diff()[index]
    steps = (inside - grid[index]) / gap
    return grid[index + (steps + torch.rand_like(steps)).floor().long()]

# %% right one_by_one
def stochastic_rounding(x, grid):
    below = torch.full_like(x, grid[0].item())
    above = torch.full_like(x, grid[-1].item())
    for number in grid.tolist():
        below = torch.where(x >= number, torch.maximum(below, torch.tensor(number)), below)
        above = torch.where(x <= number, torch.minimum(above, torch.tensor(number)), above)
    odds = ((x - below) / (above - below).clamp(min=1e-30)).clamp(0, 1)
    return below + torch.bernoulli(odds) * (above - below)

# %% rule another-shape
# You returned {what}. Return a tensor of the shape of `x`.
def breaks(seen, right):
    what = noted(seen, "returned")
    return what and {"what": what}
swap("return torch.where(up, above, below)", "return torch.where(up, above, below).flatten()")
swap("return torch.where(up, above, below)", "return torch.where(up, above, below).mean()")

# %% rule off-the-grid
# You return {what}. Round to one of the two neighbours in `grid`, whose gaps differ.
def breaks(seen, right):
    what = noted(seen, "rounded to")
    return (what or "").startswith("numbers") and {"what": what}
# %% program equal_gaps
def stochastic_rounding(x, grid):
    gap = (grid[-1] - grid[0]) / (len(grid) - 1)
    steps = (x.clamp(grid[0], grid[-1]) - grid[0]) / gap
    return grid[0] + (steps + torch.rand(x.shape)).floor() * gap
# %% program noise_alone
def stochastic_rounding(x, grid):
    return x + torch.rand(x.shape) - 0.5
# %% program any_number_of_the_grid
def stochastic_rounding(x, grid):
    return grid[torch.randint(len(grid), x.shape)]

# %% wrong to-the-nearest
# You round to the nearest, so the same number goes the same way each time. Draw: 0.3 of the way
# goes up in 3 of 10 draws.
swap("torch.rand(x.shape)", "0.5")
of("noise_and_floor", swap("torch.rand_like(steps)", "0.5"))
# %% program nearest
def stochastic_rounding(x, grid):
    return grid[(x[..., None] - grid).abs().argmin(-1)]

# %% wrong a-fair-coin
# You toss a fair coin. The odds must follow the distances: a number close to its upper neighbour
# goes up most of the time.
swap("(x - below) / (above - below)", "0.5")
of("noise_and_floor", swap("(steps + torch.rand_like(steps)).floor()",
    "(torch.rand_like(steps) < 0.5) * (steps > 0)"))
swap("(x - below) / (above - below)", "torch.rand(x.shape)")

# %% wrong odds-swapped
# Your odds are the wrong way round: a number close to its upper neighbour mostly goes down. The
# odds of going up are the distance from the *lower* neighbour, divided by the gap.
swap("(x - below) / (above - below)", "(above - x) / (above - below)")
swap("torch.where(up, above, below)", "torch.where(up, below, above)")
of("one_by_one", swap("torch.bernoulli(odds)", "torch.bernoulli(1 - odds)"))

# %% wrong always-down
# You always round down, or towards zero. Add what a draw decides.
swap("torch.where(up, above, below)", "below")
of("noise_and_floor", swap(" + torch.rand_like(steps)", ""))
swap("torch.where(up, above, below)", "torch.where(x == above, above, below)")

# %% wrong always-up
# You always round up. Which way a number goes is for a draw to decide.
swap("torch.where(up, above, below)", "torch.where(x == below, below, above)")
of("noise_and_floor", swap("(steps + torch.rand_like(steps)).floor()", "steps.ceil()"))

# %% wrong one-draw-for-all
# All numbers of a tensor go the same way: you draw once for all of them. Draw as many numbers as
# `x` has.
swap("torch.rand(x.shape)", "torch.rand(())")
of("noise_and_floor", swap("torch.rand_like(steps)", "torch.rand(1)"))
# %% program python_random
def stochastic_rounding(x, grid):
    import random

    x = x.clamp(grid[0], grid[-1])
    place = torch.searchsorted(grid, x, right=True).clamp(1, len(grid) - 1)
    below, above = grid[place - 1], grid[place]
    return torch.where((x - below) / (above - below) > random.random(), above, below)

# %% wrong the-same-draws
# Two calls give the same: you seed the generator in each call. Then the errors of all steps go the
# same way. Leave the seed to the caller.
put("torch.manual_seed(0)", before="up =")
put("generator = torch.Generator().manual_seed(1)", before="up =") & swap("torch.rand(x.shape)",
    "torch.rand(x.shape, generator=generator)")

# %% wrong noise-of-the-smallest-gap
# Your noise is as wide as the smallest gap, and then you round. Where the gap is wider, most
# numbers still go to the nearest. The noise must be as wide as the gap that the number lies in.
# %% program noise_then_nearest
def stochastic_rounding(x, grid):
    gap = grid.diff().min()
    noisy = (x + (torch.rand(x.shape) - 0.5) * gap).clamp(grid[0], grid[-1])
    rounded = grid[(noisy[..., None] - grid).abs().argmin(-1)]
    return torch.where(torch.isin(x, grid), x, rounded)
# %% program noise_of_half
def stochastic_rounding(x, grid):
    noise = (torch.rand_like(x) - 0.5) * (grid[1:] - grid[:-1]).amin()
    place = (x + noise).clamp(grid[0], grid[-1])
    lower = grid[(torch.searchsorted(grid, place, right=True) - 1).clamp(0, len(grid) - 2)]
    upper = grid[torch.searchsorted(grid, place).clamp(max=len(grid) - 1)]
    near = torch.where(place - lower < upper - place, lower, upper)
    return torch.where((x[..., None] == grid).any(-1), x, near)

# %% wrong ends-forgotten
# The last number of the grid, or one beyond it, is an error in your function. Clamp `x` to the
# grid, and the place to the last gap.
swap(".clamp(1, len(grid) - 1)", "") & drop("x = x.clamp")
swap(".clamp(1, len(grid) - 1)", "")
of("noise_and_floor", swap(".clamp(0, len(grid) - 2)", ""))

# %% wrong zero-gap
# A number of the grid becomes NaN: both of its neighbours are the number itself, and you divide by
# a gap of
# 0. It must stay as it is.
# %% program neighbours_by_difference
def stochastic_rounding(x, grid):
    x = x.clamp(grid[0], grid[-1])
    below = grid[(torch.searchsorted(grid, x, right=True) - 1)]
    above = grid[torch.searchsorted(grid, x)]
    odds = (x - below) / (above - below)
    return below + (odds + torch.rand(x.shape)).floor() * (above - below)
# %% program from_above
def stochastic_rounding(x, grid):
    inside = torch.clamp(x, grid[0].item(), grid[-1].item())
    above = grid[torch.bucketize(inside, grid)]
    below = grid[torch.bucketize(inside, grid, right=True) - 1]
    steps = (above - inside) / (above - below)
    return above - (steps + torch.rand_like(x)).floor() * (above - below)

# %% wrong ready-made
# %% program the_course_package
def stochastic_rounding(x, grid):
    from dataclasses import replace

    from amp_lessons.amp.numbers import MXFP4, ElementRounding
    from amp_lessons.amp.numbers.blocks.quantize import round_elements

    return round_elements(x, replace(MXFP4, rounding=ElementRounding.STOCHASTIC))
