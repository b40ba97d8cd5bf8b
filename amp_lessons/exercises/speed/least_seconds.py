# %% statement points=2 minutes=10
# # The floor of a matrix product
#
# Write `least_seconds(m, n, k, element_bytes, peak, bandwidth)`. It returns the floor of a matrix
# product: the time in seconds that an (m, k) by a (k, n) matrix takes at least, whatever the code.
#
# `element_bytes` is the size of one element of the three matrices, `peak` is in FLOP/s, and
# `bandwidth` in bytes/s. Each matrix crosses the memory bus once, and the GPU computes meanwhile.

# %% answer
def least_seconds(m, n, k, element_bytes, peak, bandwidth):
    """The floor of a matrix product, in seconds."""
    ### BEGIN SOLUTION
    computing = 2 * m * n * k / peak
    moving = element_bytes * (m * k + k * n + m * n) / bandwidth
    return max(computing, moving)
    ### END SOLUTION

# %% hints
# - How many multiplications and additions does one element of the result take? How many are there?
# - The two matrices are read, and the result is written. How many elements does each of them have?
# - You get one time for the arithmetic and one for the bytes. The slower of the two is the floor.

# %% probe
from amp_lessons.exercises.speed.harness_runs import floor_cases

probe = Probe(floor_cases, own=("amp_lessons.amp.roofline",))

# %% judge
from amp_lessons.exercises.speed.harness import relatively

judge = Judge(relatively(1e-6), "the seconds, as a number")

# %% passed
# A time clearly below a floor set by compute is wrong. Below one set by bandwidth, the data may
# have come from the L2 cache. Near the floor, there is little to gain.

# %% right by_the_ridge
def least_seconds(m, n, k, element_bytes, peak, bandwidth):
    flops = 2 * m * n * k
    moved = (m * k + k * n + m * n) * element_bytes
    rate = min(peak, flops / moved * bandwidth)
    return flops / rate

# %% right a_list_of_times
def least_seconds(m, n, k, element_bytes, peak, bandwidth):
    elements = sum(rows * columns for rows, columns in ((m, k), (k, n), (m, n)))
    times = [m * n * k / (peak / 2), elements / bandwidth * element_bytes]
    return sorted(times)[-1]

# %% wrong one-flop-each
# You counted one operation for each of the m·n·k products. With its addition each is two: 2·m·n·k.
swap("2 * m", "m")
of("by_the_ridge", swap("2 * m * n * k", "m * n * k"))

# %% wrong compute-only
# You divided FLOPs by the peak and stopped. With a small batch, reading and writing takes longer.
swap("max(computing, moving)", "computing")
of("by_the_ridge", swap("min(peak, flops / moved * bandwidth)", "peak"))

# %% wrong bandwidth-only
# You counted only the bytes. Large matrices have many FLOPs for each byte, and these take longer.
swap("max(computing, moving)", "moving")
of("by_the_ridge", swap("min(peak, flops / moved * bandwidth)", "flops / moved * bandwidth"))

# %% wrong added
# You added the two times. A GPU computes while it reads, so the slower one decides: take the `max`.
swap("max(computing, moving)", "computing + moving")
of("by_the_ridge", swap("flops / rate", "flops / peak + moved / bandwidth"))

# %% wrong the-faster-one
# You took the smaller of the two times. The work is done when both parts are: take the `max`.
swap("max", "min")
of("by_the_ridge", swap("min", "max"))

# %% wrong sizes-added
# You added the sizes m, n and k. A matrix has rows times columns elements: m·k, k·n and m·n.
swap("m * k + k * n + m * n", "m + n + k")
swap("m * k + k * n + m * n", "(m + k) + (k + n) + (m + n)")
of("by_the_ridge", swap("m * k + k * n + m * n", "m + k + n"))

# %% wrong sizes-multiplied
# You counted m·n·k elements, as many as multiplications. The matrices have m·k, k·n and m·n.
swap("(m * k + k * n + m * n)", "m * n * k")
of("by_the_ridge", swap("(m * k + k * n + m * n)", "flops / 2"))

# %% wrong taken-for-squares
# You took the three matrices for squares of one size. They have m·k, k·n and m·n elements.
swap("m * k + k * n + m * n", "3 * k * k")
swap("m * k + k * n + m * n", "3 * n * n")
of("by_the_ridge", swap("m * k + k * n + m * n", "k**2 * 3"))

# %% wrong result-not-written
# You counted only the two matrices that are read. The result, m by n, is written too.
swap(" + m * n", "")
of("by_the_ridge", swap("m * k + k * n + m * n", "k * (m + n)"))

# %% wrong only-one-matrix-moved
# You counted the bytes of one matrix. All three cross the bus: two are read, and one is written.
swap("m * k + k * n + m * n", "m * n")
swap("m * k + k * n + m * n", "m * k")
of("by_the_ridge", swap("m * k + k * n + m * n", "n * m"))

# %% wrong elements-not-bytes
# You divided elements by bytes per second. Each element has `element_bytes` bytes.
swap("element_bytes * ", "")
of("by_the_ridge", swap(" * element_bytes", ""))

# %% wrong upside-down
# You divided the wrong way round. A time is an amount divided by a rate: FLOPs divided by FLOP/s.
swap("2 * m * n * k / peak", "peak / (2 * m * n * k)")
of("by_the_ridge", swap("flops / rate", "rate / flops"))
swap("max(computing, moving)", "1 / max(computing, moving)")

# %% wrong ready-made
# %% program the_course_counts
def least_seconds(m, n, k, element_bytes, peak, bandwidth):
    from amp_lessons.amp.roofline import Matmul

    work = Matmul(m, n, k)
    moved = work.bytes("fp16") / 2 * element_bytes
    return max(work.flops / peak, moved / bandwidth)
