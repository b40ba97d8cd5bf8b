# === mutant: multiply_add_is_one -> one-flop-each
def least_seconds(m, n, k, element_bytes, peak, bandwidth):
    return max(m * n * k / peak, element_bytes * (m * k + k * n + m * n) / bandwidth)


# === mutant: flops_by_peak -> compute-only
def least_seconds(m, n, k, element_bytes, peak, bandwidth):
    return 2 * m * n * k / peak


# === mutant: bytes_by_bandwidth -> bandwidth-only
def least_seconds(m, n, k, element_bytes, peak, bandwidth):
    return element_bytes * (m * k + k * n + m * n) / bandwidth


# === mutant: both_one_after_the_other -> added
def least_seconds(m, n, k, element_bytes, peak, bandwidth):
    return 2 * m * n * k / peak + element_bytes * (m * k + k * n + m * n) / bandwidth


# === mutant: smaller_of_the_two -> the-faster-one
def least_seconds(m, n, k, element_bytes, peak, bandwidth):
    return min(2 * m * n * k / peak, element_bytes * (m * k + k * n + m * n) / bandwidth)


# === mutant: reads_only -> result-not-written
def least_seconds(m, n, k, element_bytes, peak, bandwidth):
    return max(2 * m * n * k / peak, element_bytes * (m * k + k * n) / bandwidth)


# === mutant: elements_by_bandwidth -> elements-not-bytes
def least_seconds(m, n, k, element_bytes, peak, bandwidth):
    return max(2 * m * n * k / peak, (m * k + k * n + m * n) / bandwidth)


# === correct: by_the_ridge
def least_seconds(m, n, k, element_bytes, peak, bandwidth):
    flops = 2 * m * n * k
    moved = (m * k + k * n + m * n) * element_bytes
    rate = min(peak, flops / moved * bandwidth)
    return flops / rate


# === correct: from_the_package
def least_seconds(m, n, k, element_bytes, peak, bandwidth):
    from amp_lessons.roofline import Matmul

    work = Matmul(m, n, k)
    moved = work.bytes("fp16") / 2 * element_bytes
    if work.flops / peak > moved / bandwidth:
        return work.flops / peak
    return moved / bandwidth
