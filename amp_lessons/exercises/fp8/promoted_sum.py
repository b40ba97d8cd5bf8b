# %% statement points=2 minutes=15
# # A sum that is promoted
#
# A register holds a sum with few significant bits. The function below adds products to it. It loses
# more, the longer the sum gets.

# %% given
def keep_bits(number, bits):
    """The number with this many significant bits, cut off towards zero."""
    significand, exponent = math.frexp(number)
    return math.ldexp(math.trunc(significand * 2**bits) / 2**bits, exponent)

# %% demo
def register_sum(products, bits):
    register = 0.0
    for product in products.tolist():
        register = keep_bits(register + product, bits)
    return register


print(register_sum(torch.ones(1000), bits=14), register_sum(torch.ones(1000), bits=8))

# %% text
# Write `promoted_sum(products, every, bits)`. It adds to the register as above. After each `every`
# products, it adds the register to a total, and the register starts again at 0. The total is an
# ordinary Python float, and nothing is cut off from it.
#
# `products` is a float64 tensor with one dimension. Its length need not be a multiple of `every`:
# the products that are left over count too. Without products the sum is 0. Return a number.

# %% answer
def promoted_sum(products, every, bits):
    """The sum of the products, in a register of few bits that is promoted now and then."""
    ### BEGIN SOLUTION
    total = 0.0
    for start in range(0, len(products), every):
        register = 0.0
        for product in products[start : start + every].tolist():
            register = keep_bits(register + product, bits)
        total += register
    return total
    ### END SOLUTION

# %% hints
# - There are two sums: a short one that loses bits, and a long one that doesn't.
# - What has to happen to the register after it was added to the total?
# - What is still in the register when the products end?

# %% probe
from amp_lessons.exercises.fp8.harness import play_promotion, promotion_cases

own = ("amp_lessons.amp.numbers.blocks.tensor_core",)
probe = Probe(promotion_cases, play=play_promotion, own=own)

# %% judge
judge = Judge(same=within(1e-9), asked_for="a number")

# %% passed
# This is what DeepSeek-V3's kernels do on Hopper: short sums in the tensor core, and a long one in
# FP32.

# %% right one_loop
def promoted_sum(products, every, bits):
    total = register = 0.0
    count = 0
    for product in products:
        register = keep_bits(register + product.item(), bits)
        count += 1
        if count == every:
            total += register
            register, count = 0.0, 0
    return total + register

# %% right parts_of_a_tensor
def promoted_sum(products, every, bits):
    def short(part):
        found = 0.0
        for number in part.tolist():
            found = keep_bits(found + number, bits)
        return found

    return sum(short(part) for part in products.split(every)) if len(products) else 0.0

# %% wrong never-promoted
# You have one register for all products, so it loses more and more. After each `every` products,
# move it to the total and start again.
swap("range(0, len(products), every)", "range(0, len(products), len(products) or 1)") & swap(
    "start + every]", "]")
of("one_loop", drop("if count"))

# %% wrong rest-lost
# The products that are left over at the end are lost: they are in the register and not in the
# total.
of("one_loop", swap("return total + register", "return total"))
swap("range(0, len(products), every)", "range(0, len(products) - len(products) % every, every)")

# %% wrong register-kept
# You don't set the register to 0 when you promote it. So it is added again, and goes on losing
# bits.
move("register = 0.0", before="for start")
of("one_loop", swap("register, count = 0.0, 0", "count = 0"))

# %% program added_again_and_again
def promoted_sum(products, every, bits):
    total = register = 0.0
    for number, product in enumerate(products.tolist(), 1):
        register = keep_bits(register + product, bits)
        if number % every == 0 or number == len(products):
            total += register
    return total

# %% wrong total-replaced
# You replace the total by the register, so only the last group counts. Add the register to it.
swap("total += register", "total = register")
of("parts_of_a_tensor", swap("sum(short(part) for part in products.split(every))",
    "short(products.split(every)[-1])"))

# %% wrong total-cut-off
# You cut bits off the total too, so it stops growing like a register. Promotion helps because the
# total is wide.
swap("total += register", "total = keep_bits(total + register, bits)")
of("one_loop", swap("total += register", "total = keep_bits(total + register, bits)") & swap(
    "return total + register", "return keep_bits(total + register, bits)"))

# %% wrong products-cut-off
# You cut bits off each product and not off the sum. A sum in a register loses its bits as it grows.
swap("keep_bits(register + product, bits)", "register + keep_bits(product, bits)")
of("parts_of_a_tensor", swap("keep_bits(found + number, bits)", "found + keep_bits(number, bits)"))

# %% wrong cut-off-once
# You cut the register off only when you promote it. It has few bits all along: cut after each
# addition.
swap("keep_bits(register + product, bits)", "register + product") & swap(
    "total += register", "total += keep_bits(register, bits)")
of("parts_of_a_tensor", swap("keep_bits(found + number, bits)", "found + number") & swap(
    "return found", "return keep_bits(found, bits)"))

# %% wrong nothing-cut-off
# Nothing is cut off in your sum, so it is the exact one. Call `keep_bits` after each addition.
swap("keep_bits(register + product, bits)", "register + product")
put("return products.sum().item()", before="total = 0.0")

# %% wrong one-too-early
# Your groups are one product off. You promote after the first product, since 0 is a multiple of
# `every`, or one product late. Count how many are in the register.
of("one_loop", swap("count == every", "count > every"))
of("one_loop", swap("    count = 0", "    count = every - 1"))

# %% program multiples_of_the_index
def promoted_sum(products, every, bits):
    total, register = 0.0, 0.0
    for index, product in enumerate(products.tolist()):
        register = keep_bits(register + product, bits)
        if index % every == 0:
            total, register = total + register, 0.0
    return total + register

# %% wrong every-is-a-count
# You cut the products into `every` groups. `every` is how many products are in a group:
# `split(every)`, and not `chunk(every)`.
of("parts_of_a_tensor", swap("products.split(every)", "products.chunk(every)"))

# %% program strided_groups
def promoted_sum(products, every, bits):
    size = -(-len(products) // every)
    total, register = 0.0, 0.0
    for number, product in enumerate(products.tolist(), 1):
        register = keep_bits(register + product, bits)
        if number % size == 0 or number == len(products):
            total += register
            register = 0.0
    return total
