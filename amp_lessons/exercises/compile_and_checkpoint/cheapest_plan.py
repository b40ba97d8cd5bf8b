# %% statement points=3 minutes=20
# # Which blocks to checkpoint?
#
# A model is a list of blocks that run one after the other. It needs too much memory, so some blocks
# will run under `checkpoint`. Write `cheapest_plan(blocks, budget)`: which ones?
#
# Each block is a dict of whole numbers:
#
# - `input`: the bytes of what goes into the block. They are kept until its backward pass is over,
#   with a checkpoint and without.
# - `inside`: the bytes of the block's other activations. Without a checkpoint they are kept from
#   the forward pass until the block's backward pass is over. With one, they are freed in the
#   forward pass, computed again right before the block's backward pass, and freed after it.
# - `cost`: the time that it takes to run the block again.
#
# The backward pass goes from the last block to the first. What counts is the *peak*: the most bytes
# of inputs and insides that are alive at once during the backward pass.
#
# A plan is the list of the numbers of the blocks to checkpoint, from 0 on, in ascending order.
# Return the one with the lowest sum of costs whose peak is at most `budget`. If there is none,
# return None. There are at most 7 blocks, and no two plans cost the same.

# %% answer
def cheapest_plan(blocks, budget):
    """The numbers of the blocks to checkpoint, or None if nothing fits into the budget."""
    ### BEGIN SOLUTION
    best, best_cost = None, float("inf")
    numbers = range(len(blocks))
    for mask in range(2 ** len(blocks)):
        plan = [n for n in numbers if mask >> n & 1]
        cost = sum(blocks[n]["cost"] for n in plan)
        kept = peak = 0
        for n, block in enumerate(blocks):
            kept += block["input"]
            peak = max(peak, kept + block["inside"])
            if n not in plan:
                kept += block["inside"]
        if peak <= budget and cost < best_cost:
            best, best_cost = plan, cost
    return best
    ### END SOLUTION

# %% hints
# - Write a function first that gives the peak of one plan. What is alive while the backward pass of
#   block `n` runs? Look at the blocks before it, at itself, and at those behind it.
# - A checkpointed block needs its inside too, in its own backward pass. What does that mean for the
#   last block?
# - With 7 blocks there are 128 plans. You can try them all.

# %% probe
from amp_lessons.exercises.compile_and_checkpoint.harness_plans import plan_cases

probe = Probe(plan_cases)

# %% judge
judge = Judge(asked_for="a list of numbers, or None")

# %% passed
# A checkpoint saves the inside of a block while the blocks behind it run backward. So it saves
# nothing in the last block, and one checkpoint around the whole model saves nothing at the peak.

# %% right by_cost
import itertools

def peak_of(blocks, plan):
    alive = [b["input"] + (0 if n in plan else b["inside"]) for n, b in enumerate(blocks)]
    peaks = []
    for n in reversed(range(len(blocks))):
        peaks.append(sum(alive[:n]) + blocks[n]["input"] + blocks[n]["inside"])
    return max(peaks)

def cheapest_plan(blocks, budget):
    numbers = range(len(blocks))
    sizes = range(len(blocks) + 1)
    plans = [p for size in sizes for p in itertools.combinations(numbers, size)]
    plans.sort(key=lambda plan: sum(blocks[n]["cost"] for n in plan))
    for plan in plans:
        if peak_of(blocks, plan) <= budget:
            return list(plan)
    return None

# %% right recursion
def cheapest_plan(blocks, budget):
    def rest(n, room):
        if n == len(blocks):
            return 0, []
        block = blocks[n]
        room -= block["input"]
        if block["inside"] > room:
            return None
        found = []
        again = rest(n + 1, room)
        if again:
            found.append((again[0] + block["cost"], [n, *again[1]]))
        kept = rest(n + 1, room - block["inside"])
        if kept:
            found.append(kept)
        return min(found, default=None)

    answer = rest(0, budget)
    return answer and answer[1]

# %% right follows_the_bytes
def cheapest_plan(blocks, budget):
    from itertools import product

    def peak(again):
        alive = {}
        for n, block in enumerate(blocks):
            alive["input", n] = block["input"]
            if not again[n]:
                alive["inside", n] = block["inside"]
        highest = 0
        for n in range(len(blocks) - 1, -1, -1):
            alive["inside", n] = blocks[n]["inside"]
            highest = max(highest, sum(alive.values()))
            del alive["inside", n], alive["input", n]
        return highest

    def cost(again):
        return sum(block["cost"] for block, a in zip(blocks, again, strict=True) if a)

    fits = [again for again in product((False, True), repeat=len(blocks)) if peak(again) <= budget]
    if fits:
        return [n for n, a in enumerate(min(fits, key=cost)) if a]

# %% wrong recomputed-not-counted
# You counted what is kept from the forward pass. In its backward pass a checkpointed block needs
# its inside too, and then all that the blocks before it keep is there as well.
put("peak = kept", before="if peak <=")
(of("follows_the_bytes", drop('alive["inside", n]', 2) &
    swap('del alive["inside", n], alive["input", n]',
    'alive |= {("inside", n): 0, ("input", n): 0}')))
of("by_cost", put("return sum(alive)", before="peaks = []"))

# %% wrong all-until-the-end
# You add the largest inside of a checkpointed block to all that is kept. When a block runs again,
# the blocks behind it have finished their backward pass, and what they kept is freed.
(put('peak = kept + max([blocks[n]["inside"] for n in plan], default=0)', before="if peak"))
of("by_cost", put("return sum(alive) + max([blocks[n][\"inside\"] for n in plan], default=0)",
    before="peaks = []"))

# %% wrong last-block-always-saves
# You let a checkpoint of the last block save its inside. Its backward pass comes first, when all
# others still keep theirs: that is the peak of the plan without any checkpoint, too.
swap('block["inside"])', 'block["inside"] * (n + 1 < len(blocks) or n not in plan))')
of("by_cost", put("if n == len(blocks) - 1: peaks = [sum(alive)]", after="peaks.append"))

# %% wrong nothing-freed
# You let the insides of all blocks pile up in the backward pass. What a block keeps, and what it
# computes again, is freed when its backward pass is over, before that of the block in front of it.
put("peak = sum(b[\"input\"] + b[\"inside\"] for b in blocks)", before="if peak <=")
of("follows_the_bytes", swap('del alive["inside", n], alive["input", n]', "pass"))
of("by_cost", swap("sum(alive[:n])", "sum(alive[:n]) + sum(b[\"input\"] + b[\"inside\"] for b in"
    " blocks[n + 1:])"))

# %% wrong own-input-forgotten
# While the backward pass of a block runs, its own input is still there. Count it too.
move('kept += block["input"]', after="peak = max")
of("by_cost", swap('blocks[n]["input"] + blocks', "blocks"))

# %% wrong inputs-forgotten
# You left the inputs out. They are kept with a checkpoint and without.
swap('kept += block["input"]', "pass")
of("by_cost", swap('b["input"] + (', "(") & swap('blocks[n]["input"] + blocks', "blocks"))

# %% wrong input-not-kept
# You let a checkpoint save the input too. It is what the block runs again from.
(swap('kept += block["input"]', 'kept += 0 if n in plan else block["input"]') &
    swap('block["inside"])', 'block["inside"] + (block["input"] if n in plan else 0))'))
of("by_cost", swap('b["input"] + (0 if n in plan else b["inside"])',
    '0 if n in plan else b["input"] + b["inside"]'))

# %% wrong input-of-checkpoints-only
# You counted the inputs of checkpointed blocks alone. A block without a checkpoint keeps its input
# as well.
swap('kept += block["input"]', 'kept += block["input"] if n in plan else 0')
of("by_cost", swap('b["input"] + (0 if n in plan else b["inside"])',
    'b["input"] if n in plan else b["inside"]') & swap('blocks[n]["input"] + blocks[n]["inside"])',
    'blocks[n]["inside"] + blocks[n]["input"] * (n in plan))'))

# %% wrong order-reversed
# Your backward pass goes from the first block to the last. It begins with the last block, when all
# blocks before it still keep what they need.
swap("in enumerate(blocks)", "in reversed(list(enumerate(blocks)))")
of("by_cost", swap("sum(alive[:n])", "sum(alive[n + 1:])"))

# %% wrong own-inside-forgotten
# A block that isn't checkpointed needs its inside in its own backward pass, and you count it only
# afterwards. Or you count a checkpointed block's for the blocks behind it.
swap("kept + block[\"inside\"])", "kept + block[\"inside\"] * (n in plan))")
of("by_cost", swap('blocks[n]["input"] + blocks[n]["inside"])',
    'blocks[n]["input"] + (blocks[n]["inside"] if n in plan else 0))'))

# %% wrong largest-first
# You checkpoint the largest block first, until it fits. One large block can cost more time than two
# smaller ones that save enough. Try all plans.
(put("plan = sorted(sorted(numbers, key=lambda n: -blocks[n]['inside'])[:mask])",
    after="plan = ") & swap("2 ** len(blocks)", "len(blocks) + 1"))
of("by_cost", put("order = sorted(numbers, key=lambda n: -blocks[n]['inside'])\n"
    "plans = [sorted(order[:size]) for size in sizes]", before="for plan"))

# %% wrong cheapest-first
# You checkpoint the cheapest block first, until it fits. A block may cost little and save nothing
# that helps. Try all plans.
(put("plan = sorted(sorted(numbers, key=lambda n: blocks[n]['cost'])[:mask])",
    after="plan = ") & swap("2 ** len(blocks)", "len(blocks) + 1"))
of("by_cost", put("order = sorted(numbers, key=lambda n: blocks[n]['cost'])\n"
    "plans = [sorted(order[:size]) for size in sizes]", before="for plan"))

# %% wrong best-ratio-first
# You checkpoint first where the bytes saved for the cost are most. What is left may then need one
# more block, where another choice needs none. Try all plans.
(put("order = sorted(numbers, key=lambda n: -blocks[n]['inside'] / blocks[n]['cost'])\n"
    "plan = sorted(order[:mask])", after="plan = ") & swap("2 ** len(blocks)", "len(blocks) + 1"))
of("by_cost", put("order = sorted(numbers, key=lambda n: -blocks[n]['inside'] /"
    " blocks[n]['cost'])\nplans = [sorted(order[:size]) for size in sizes]", before="for plan"))

# %% wrong first-blocks-first
# You checkpoint the first blocks, as many as it takes. They are alive longest, but others may cost
# less. Try all plans.
(put("plan = sorted(sorted(numbers, key=lambda n: n)[:mask])",
    after="plan = ") & swap("2 ** len(blocks)", "len(blocks) + 1"))
of("by_cost", put("order = sorted(numbers, key=lambda n: n)\n"
    "plans = [sorted(order[:size]) for size in sizes]", before="for plan"))

# %% wrong dearest-dropped-first
# You begin with all blocks, and take out the one that costs most as long as the rest fits. To keep
# that one may save several others. Try all plans.
of("by_cost", put("plan = list(numbers)\n"
    "for n in sorted(numbers, key=lambda n: -blocks[n]['cost']):\n"
    "    rest = [m for m in plan if m != n]\n"
    "    plan = rest if peak_of(blocks, rest) <= budget else plan\n"
    "plans = [plan]", before="for plan in plans"))
of("by_cost", put("left = {*numbers}\nby_size = sorted((blocks[n]['cost'], n) for n in numbers)\n"
    "while by_size:\n    n = by_size.pop()[1]\n    if peak_of(blocks, left - {n}) <= budget:\n"
    "        left.remove(n)\nplans = [sorted(left)]", before="for plan in plans"))

# %% wrong first-that-fits
# You return the first plan that fits. Compare the costs of all that fit.
swap(" and cost < best_cost", " and best is None")
of("follows_the_bytes", swap("product((False, True), repeat=len(blocks)) if peak(again)",
    "(again[::-1] for again in product((False, True), repeat=len(blocks))) if peak(again)") &
    swap("min(fits, key=cost)", "fits[0]"))
of("by_cost", drop("plans.sort"))

# %% wrong fewest-blocks
# You choose the plan with the fewest blocks. What counts is the sum of the costs: two cheap blocks
# may cost less than one.
swap("cost = sum(", "cost = 10**9 * len(plan) + sum(")
of("by_cost", swap("plan: sum(", "plan: 10**9 * len(plan) + sum("))

# %% wrong lowest-peak
# You choose the plan with the lowest peak. It is enough that the peak fits, and a higher one may
# cost less time.
put("cost += 10**9 * peak", before="if peak <= budget")
of("by_cost", swap("plan: sum(", "plan: 10**9 * peak_of(blocks, plan) + sum("))

# %% wrong all-or-none
# You checkpoint all blocks, or none. Each block can be chosen by itself.
swap("range(2 ** len(blocks))", "(0, 2 ** len(blocks) - 1)")
of("by_cost", swap("for size in sizes", "for size in (0, len(blocks))"))

# %% wrong one-at-most
# You checkpoint one block at most. Several together may be needed, or cost less.
swap("range(2 ** len(blocks))", "[0, *(2 ** n for n in range(len(blocks)))]")
of("by_cost", swap("for size in sizes", "for size in (0, 1)"))

# %% wrong budget-must-be-larger
# A plan whose peak is the budget to the byte fits, too. Compare with `<=`.
swap("peak <= budget", "peak < budget")
of("recursion", swap('block["inside"] > room', 'block["inside"] >= room'))

# %% wrong none-forgotten
# No plan fits there, and you return one. Return None, so that the caller knows.
swap("best, best_cost = None,", "best, best_cost = [],")
of("by_cost", swap("return None", "return []"))
swap("best, best_cost = None,", "best, best_cost = list(range(len(blocks))),")
of("by_cost", swap("return None", "return list(numbers)"))

# %% wrong empty-taken-for-none
# Where everything fits, the plan is the empty list, and you return None. An empty list is False in
# an `if`: ask `is None`.
swap("return best", "return best or None")
of("recursion", swap("answer and answer[1]", "answer[1] if answer and answer[1] else None"))
of("recursion", swap("return min(found, default=None)", "return min((f for f in found if f[1]),"
    " default=None)"))

# %% wrong other-blocks
# You return the blocks that are not checkpointed. Return those that are.
swap("return best", "return best and [n for n in numbers if n not in best]")
(swap("best, best_cost = plan, cost",
    "best, best_cost = [n for n in numbers if n not in plan], cost"))
of("follows_the_bytes", swap("cost)) if a]", "cost)) if not a]"))

# %% wrong flags-returned
# You return one truth value for each block. Return the numbers of the blocks.
swap("return best", "return best if best is None else [n in best for n in numbers]")
of("follows_the_bytes", swap("return [n for n, a in enumerate(min(fits, key=cost)) if a]",
    "return list(min(fits, key=cost))"))

# %% wrong counted-from-one
# You number the blocks from 1 on. The first is number 0.
swap("return best", "return best and [n + 1 for n in best]")
of("follows_the_bytes", swap("enumerate(min(fits, key=cost))", "enumerate(min(fits, key=cost), 1)"))
