# %% statement points=2 minutes=10
# # The floor of a matrix product
#
# Write `least_seconds(m, n, k, element_bytes, peak, bandwidth)`. It returns the floor of a matrix
# product: the time in seconds that an (m, k) by a (k, n) matrix takes at least, whatever the code.
#
# `element_bytes` is the size of one element in each of the three matrices. `peak` is in FLOP/s, and
# `bandwidth` is in bytes/s. Each matrix crosses the memory bus once. The GPU computes while it
# reads and writes.

# %% answer
def least_seconds(m, n, k, element_bytes, peak, bandwidth):
    """The floor of a matrix product, in seconds."""
    ### BEGIN SOLUTION
    computing = 2 * m * n * k / peak
    moving = element_bytes * (m * k + k * n + m * n) / bandwidth
    return max(computing, moving)
    ### END SOLUTION

# %% hints
# - How many multiplications and additions does one element of the result need? How many elements
#   are there?
# - The two matrices are read, and the result is written, each once. How many elements does each of
#   the three have?
# - You get one time for the arithmetic and one for the bytes. The slower of the two is the floor.

# %% probe
from amp_lessons.exercises.speed.stage_runs import floor_cases

probe = Probe(floor_cases)

# %% judge
from amp_lessons.exercises.speed.stage import relatively

judge = Judge(relatively(1e-6), "the seconds, as a number")

# %% passed
# No code goes below the floor. If you measure a shorter time, the measurement is wrong. If you
# measure one near the floor, there is little left to gain.

# %% right by_the_ridge
def least_seconds(m, n, k, element_bytes, peak, bandwidth):
    flops = 2 * m * n * k
    moved = (m * k + k * n + m * n) * element_bytes
    rate = min(peak, flops / moved * bandwidth)
    return flops / rate

# %% right from_the_package
def least_seconds(m, n, k, element_bytes, peak, bandwidth):
    from amp_lessons.roofline import Matmul

    work = Matmul(m, n, k)
    computing = work.flops / peak
    moving = work.bytes("fp16") / 2 * element_bytes / bandwidth
    return computing if computing > moving else moving

# %% wrong one-flop-each
# You counted one operation for each of the m·n·k products. A product and its addition to the sum
# are two, so there are 2·m·n·k.
swap("2 * m", "m")
of("by_the_ridge", swap("2 * m", "m"))
of("from_the_package", swap("work.flops", "0.5 * work.flops"))

# %% wrong compute-only
# You divided the FLOPs by the peak and stopped there. The matrices have to be read and the result
# written. With a small batch this takes longer than the arithmetic.
swap("max(computing, moving)", "computing")
of("by_the_ridge", swap("min(peak, flops / moved * bandwidth)", "peak"))

# %% wrong bandwidth-only
# You counted only the bytes. In a product of large matrices each element that is read takes part in
# many operations, and the arithmetic takes longer.
swap("max(computing, moving)", "moving")
of("by_the_ridge", swap("min(peak, flops / moved * bandwidth)", "flops / moved * bandwidth"))

# %% wrong added
# You added the two times. A GPU computes while it reads, so the slower of the two decides. Take the
# `max`, not the sum.
swap("max(computing, moving)", "computing + moving")
of("by_the_ridge", swap("flops / rate", "flops / peak + moved / bandwidth"))

# %% wrong the-faster-one
# You took the smaller of the two times. The work is done when both parts are done, so take the
# `max`.
swap("max", "min")
of("by_the_ridge", swap("min", "max"))
of("from_the_package", swap(">", "<"))

# %% wrong sizes-added
# You added the sizes m, n and k to get the elements. A matrix has rows times columns: m·k, k·n and
# m·n.
swap("m * k + k * n + m * n", "m + n + k")
swap("m * k + k * n + m * n", "(m + k) + (k + n) + (m + n)")
of("by_the_ridge", swap("m * k + k * n + m * n", "m + k + n"))

# %% wrong sizes-multiplied
# You counted m·n·k elements. That is the number of multiplications. The matrices have m·k, k·n and
# m·n elements.
swap("(m * k + k * n + m * n)", "m * n * k")
of("by_the_ridge", swap("(m * k + k * n + m * n)", "flops / 2"))

# %% wrong result-not-written
# You counted only the two matrices that are read. The result, m by n, is written too.
swap(" + m * n", "")
of("by_the_ridge", swap("m * k + k * n + m * n", "k * (m + n)"))

# %% wrong only-one-matrix-moved
# You counted the bytes of one matrix only. All three cross the bus: two are read, and the result is
# written.
swap("m * k + k * n + m * n", "m * n")
swap("m * k + k * n + m * n", "m * k")
of("by_the_ridge", swap("m * k + k * n + m * n", "n * m"))

# %% wrong elements-not-bytes
# You divided elements by bytes per second. Each element has `element_bytes` bytes.
swap("element_bytes * ", "")
of("by_the_ridge", swap(" * element_bytes", ""))

# %% wrong upside-down
# You divided the wrong way round. A time is an amount divided by a rate, such as FLOPs divided by
# FLOP/s.
swap("2 * m * n * k / peak", "peak / (2 * m * n * k)")
of("by_the_ridge", swap("flops / rate", "rate / flops"))
swap("max(computing, moving)", "1 / max(computing, moving)")
