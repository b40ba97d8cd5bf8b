# %% statement points=3 minutes=20
# # Predict a speed-up from the layers
#
# Which speed-up can mixed precision give a model, if every layer takes as long as its floor? Write
# `predict_speedup(layers, gpu, baseline)`. It returns the time of all layers in the baseline,
# divided by their time in mixed precision. Don't round it.
#
# `gpu` is a `roofline.Gpu`: `gpu.peak("fp16")` is in FLOP/s and `gpu.bytes_per_second()` in
# bytes/s. `baseline` is `"fp32"` or `"tf32"`. Mixed precision means FP16. Layers run one after
# another, and nothing overlaps. Each layer is a dict with a `kind`:
#
# - `"matmul"` multiplies an (`m`, `k`) by a (`k`, `n`) matrix, the weight. Its time is the floor of
#   this product, as in `least_seconds` above, with 4-byte elements in FP32 and TF32, and 2-byte
#   elements in FP16. In mixed precision, autocast also casts the weight: for each element it reads
#   4 bytes and writes 2. `weight` is the weight's name, and a weight that several layers share is
#   cast once. No other casts count.
# - `"elementwise"` reads or writes `tensors` tensors of `elements` elements each. Only its bytes
#   take time. An element takes 4 bytes in the baseline and 2 in mixed precision. If `fp32` is True,
#   autocast runs the op in FP32, so it takes 4 there too.
# - `"other"` takes `seconds` in both: launches, the optimizer, waiting for data.
#
# `amp_lessons.amp.roofline` has functions for the floors of products and casts. You may use them.

# %% given
from amp_lessons.amp import roofline

# %% answer
def predict_speedup(layers, gpu, baseline):
    """How many times as fast mixed precision is, by the floors."""
    ### BEGIN SOLUTION
    before = after = 0.0
    cast = set()
    for layer in layers:
        if layer["kind"] == "matmul":
            work = roofline.Matmul(layer["m"], layer["n"], layer["k"])
            before += roofline.matmul_floor(gpu, baseline, work)
            after += roofline.matmul_floor(gpu, "fp16", work)
            if layer["weight"] not in cast:
                cast.add(layer["weight"])
                after += roofline.cast_floor(gpu, layer["k"] * layer["n"])
        elif layer["kind"] == "elementwise":
            moved = layer["elements"] * layer["tensors"] / gpu.bytes_per_second()
            before += 4 * moved
            after += (4 if layer["fp32"] else 2) * moved
        else:
            before += layer["seconds"]
            after += layer["seconds"]
    return before / after
    ### END SOLUTION

# %% hints
# - Keep two sums of seconds, one for each run. Divide once, at the end.
# - For a product, take the floor twice: with the baseline's peak and bytes, and with those of FP16.
# - The casts belong to the mixed run only. Keep the names of the weights that are cast already.

# %% probe
from amp_lessons.exercises.speed.harness_layers import layer_cases

probe = Probe(layer_cases, lent=("amp_lessons.amp.roofline",))

# %% judge
from amp_lessons.exercises.speed.harness import relatively

judge = Judge(relatively(1e-4), "the speed-up, as a number")

# %% passed
# Only large products come near the ratio of the peaks. Casts, other ops and waiting lower it. With
# few rows, the casts alone can take longer than the products save. A measured speed-up can still
# differ from this one, because the two runs may be at different distances from their floors.

# %% right by_hand
def predict_speedup(layers, gpu, baseline):
    bandwidth = gpu.bytes_per_second()

    def floor(layer, dtype, size):
        m, k, n = layer["m"], layer["k"], layer["n"]
        return max(2 * m * k * n / gpu.peak(dtype), size * (m * k + k * n + m * n) / bandwidth)

    def seconds(mixed):
        total, weights = 0, {}
        for layer in layers:
            kind = layer["kind"]
            if kind == "other":
                total += layer["seconds"]
            elif kind == "elementwise":
                size = 2 if mixed and not layer["fp32"] else 4
                total += size * layer["elements"] * layer["tensors"] / bandwidth
            elif mixed:
                total += floor(layer, "fp16", 2)
                weights[layer["weight"]] = layer["k"] * layer["n"]
            else:
                total += floor(layer, baseline, 4)
        return total + 6 * sum(weights.values()) / bandwidth

    return seconds(False) / seconds(True)

# %% right sums_by_kind
def predict_speedup(layers, gpu, baseline):
    products = [x for x in layers if x["kind"] == "matmul"]
    ops = [x for x in layers if x["kind"] == "elementwise"]
    rest = sum(x["seconds"] for x in layers if x["kind"] == "other")
    works = [roofline.Matmul(x["m"], x["n"], x["k"]) for x in products]
    old, new = (sum(roofline.matmul_floor(gpu, d, w) for w in works) for d in (baseline, "fp16"))
    sizes = {x["weight"]: x["k"] * x["n"] for x in products}
    casts = sum(roofline.cast_floor(gpu, size) for size in sizes.values())
    wide = sum(4 * x["elements"] * x["tensors"] for x in ops) / 1e9 / gpu.bandwidth
    saved = sum(2 * x["elements"] * x["tensors"] for x in ops if not x["fp32"])
    return (old + wide + rest) / (new + casts + wide - saved / 1e9 / gpu.bandwidth + rest)

# %% wrong casts-forgotten
# You left the casts out. Autocast casts each weight before it multiplies: that is 6 bytes for each
# element, in the mixed run only.
drop("if layer[\"weight\"]")
of("by_hand", swap(" + 6 * sum(weights.values()) / bandwidth", ""))

# %% wrong cast-each-time
# You cast a shared weight for each layer. Autocast keeps the copy in its cache: cast it once.
swap('if layer["weight"] not in cast', "if True")
of("sums_by_kind", swap('{x["weight"]: x["k"]', '{n: x["k"]') & swap('for x in products}',
    "for n, x in enumerate(products)}"))

# %% wrong casts-in-both
# You count casts in the baseline too. It stays in 32 bits, so nothing is cast.
swap("after += roofline.cast_floor(gpu, layer[\"k\"] * layer[\"n\"])",
    'before += roofline.cast_floor(gpu, layer["k"] * layer["n"])\n                after += '
    'roofline.cast_floor(gpu, layer["k"] * layer["n"])')
of("sums_by_kind", swap("(old + wide", "(old + casts + wide"))

# %% wrong cast-bytes
# A cast moves 6 bytes for each element: it reads 4 and writes 2. You counted another number.
put('after += 2 * layer["k"] * layer["n"] / gpu.bytes_per_second()', after="cast.add")
of("by_hand", swap("+ 6 *", "+ 8 *"))
of("by_hand", swap("+ 6 *", "+ 2 *"))
of("by_hand", swap("+ 6 *", "+ 4 *"))

# %% wrong another-matrix-cast
# You cast another matrix of the product. The weight is the (`k`, `n`) matrix.
swap('layer["k"] * layer["n"])', 'layer["m"] * layer["k"])')
of("by_hand", swap('= layer["k"] * layer["n"]', '= layer["m"] * layer["k"]'))
of("by_hand", swap('= layer["k"] * layer["n"]', '= layer["m"] * layer["n"]'))

# %% wrong cast-by-size
# You took two weights of the same size for one. Each weight has its name.
swap('if layer["weight"] not in cast', 'if (layer["k"], layer["n"]) not in cast') & swap(
    'cast.add(layer["weight"])', 'cast.add((layer["k"], layer["n"]))')
of("by_hand", swap('weights[layer["weight"]]', 'weights[layer["k"], layer["n"]]'))
of("sums_by_kind", swap("sizes.values()", "set(sizes.values())"))

# %% wrong inputs-cast
# You also cast the inputs of the products, or the results. The task counts only the weights' casts.
of("by_hand", swap('floor(layer, "fp16", 2)', 'floor(layer, "fp16", 2) + 6 * layer["m"] * '
    '(layer["k"] + layer["n"]) / bandwidth'))
put("after += roofline.cast_floor(gpu, layer['m'] * (layer['k'] + layer['n']))",
    after="after += roofline.matmul")
swap('layer["k"] * layer["n"])', 'work.bytes("fp16") // 2)')
of("sums_by_kind", swap('x["k"] * x["n"] for x in products}',
    'x["k"] * x["n"] + x["m"] * (x["k"] + x["n"]) for x in products}'))
put("after += roofline.cast_floor(gpu, layer['m'] * layer['k'])", after="after += roofline.matmul")
of("by_hand", swap('floor(layer, "fp16", 2)', 'floor(layer, "fp16", 2) + 6 * layer["m"] * '
    'layer["k"] / bandwidth'))

# %% wrong cast-is-free
# You let a cast run while the product does, or put its bytes into the product's floor. Here nothing
# overlaps, so add its time.
(swap("after += roofline.matmul_floor", "product = roofline.matmul_floor") &
    drop("if layer[\"weight") & put("if layer['weight'] not in cast:\n"
    "    product = max(product, roofline.cast_floor(gpu, layer['k'] * layer['n']))\n"
    "cast.add(layer['weight'])\nafter += product", after="product ="))
of("by_hand", swap("total += floor(layer, \"fp16\", 2)", 'total += max(floor(layer, "fp16", 2), '
    '6 * (layer["weight"] not in weights) * layer["k"] * layer["n"] / bandwidth)') &
    swap("total + 6 * sum(weights.values()) / bandwidth", "total"))

(swap('roofline.matmul_floor(gpu, "fp16", work)', "roofline.floor_seconds(gpu, 'fp16', work.flops, "
    "work.bytes('fp16') + 6 * (layer['weight'] not in cast) * work.k * work.n)") &
    drop("after += roofline.cast_floor"))
of("by_hand", swap("dtype, size):", "dtype, size, cast=0):") & swap("m * n) /", "m * n) + cast) /")
    & swap("dtype), size", "dtype), (size") & swap('"fp16", 2)', '"fp16", 2, 6 * (layer["weight"] '
    'not in weights) * layer["k"] * layer["n"])') & swap(" + 6 * sum(weights.values()) / band", ""))

# %% wrong fp16-at-the-baselines-peak
# You gave the FP16 products the peak of the baseline. Their arithmetic runs at `gpu.peak("fp16")`.
of("by_hand", swap("gpu.peak(dtype)", "gpu.peak(baseline)"))
swap('roofline.matmul_floor(gpu, "fp16", work)',
    "max(work.flops / gpu.peak(baseline), work.bytes('fp16') / gpu.bytes_per_second())")

# %% wrong compute-only
# You took the FLOPs of a product and left out its bytes. With few rows, the bytes take longer.
swap("roofline.matmul_floor(gpu, baseline, work)", "work.flops / gpu.peak(baseline)") & swap(
    'roofline.matmul_floor(gpu, "fp16", work)', 'work.flops / gpu.peak("fp16")')
of("by_hand", swap("max(2 * m * k * n / gpu.peak(dtype), size",
    "min(2 * m * k * n / gpu.peak(dtype), math.inf * size"))

# %% wrong the-faster-one
# You took the smaller of a product's two times. It is done when both parts are: take the `max`.
of("by_hand", swap("max", "min"))
(swap("roofline.matmul_floor(gpu, baseline, work)",
    "min(work.flops / gpu.peak(baseline), work.bytes(baseline) / gpu.bytes_per_second())") &
    swap('roofline.matmul_floor(gpu, "fp16", work)',
    'min(work.flops / gpu.peak("fp16"), work.bytes("fp16") / gpu.bytes_per_second())'))

# %% wrong one-flop-each
# You counted one operation for each of the m·n·k products. With its addition each is two: 2·m·n·k.
of("by_hand", swap("2 * m * k * n", "m * k * n"))
(swap("roofline.matmul_floor(gpu, baseline, work)",
    "roofline.floor_seconds(gpu, baseline, work.flops / 2, work.bytes(baseline))") &
    swap('roofline.matmul_floor(gpu, "fp16", work)',
    'roofline.floor_seconds(gpu, "fp16", work.flops / 2, work.bytes("fp16"))'))

# %% wrong result-not-written
# You counted only the two matrices that a product reads. The result, m by n, is written too.
of("by_hand", swap(" + m * n)", ")"))
(swap("roofline.matmul_floor(gpu, baseline, work)",
    "roofline.floor_seconds(gpu, baseline, work.flops, 4 * work.k * (work.m + work.n))") &
    swap('roofline.matmul_floor(gpu, "fp16", work)',
    'roofline.floor_seconds(gpu, "fp16", work.flops, 2 * work.k * (work.m + work.n))'))

# %% wrong units-of-the-bandwidth
# `gpu.bandwidth` is in GB/s. Multiply by 10⁹, or use `gpu.bytes_per_second()`.
of("by_hand", swap("gpu.bytes_per_second()", "gpu.bandwidth"))
of("by_hand", swap("gpu.bytes_per_second()", "gpu.bytes_per_second() / 10**9"))

# %% wrong tf32-bytes
# You gave TF32 fewer than 4 bytes. It is a way to multiply: its matrices are stored as FP32.
of("by_hand", swap("floor(layer, baseline, 4)",
    'floor(layer, baseline, 4 if baseline == "fp32" else 2)'))
swap("roofline.matmul_floor(gpu, baseline, work)",
    'roofline.floor_seconds(gpu, baseline, work.flops, work.bytes({"fp32": "fp32"}.get(baseline, '
    '"bf16")))')
swap("roofline.matmul_floor(gpu, baseline, work)", 'roofline.floor_seconds(gpu, baseline, '
    'work.flops, work.bytes("fp32") * (19 / 32 if baseline == "tf32" else 1))')

# %% wrong ratio-of-the-peaks
# You returned the ratio of the peaks. It is the limit for large products, and layers also move
# bytes, cast weights and wait.
put("return roofline.speedup_limit(gpu, baseline, 'fp16')", before="before =")
of("by_hand", put("return gpu.peak('fp16') / gpu.peak(baseline)", before="bandwidth ="))

# %% wrong same-bytes
# You moved as many bytes for a product in both runs. Elements take 4 bytes in FP32 and TF32, and 2
# in FP16.
swap("roofline.matmul_floor(gpu, baseline, work)",
    'roofline.floor_seconds(gpu, baseline, work.flops, work.bytes("fp16"))')
of("by_hand", swap("floor(layer, baseline, 4)", "floor(layer, baseline, 2)"))
of("by_hand", swap('floor(layer, "fp16", 2)', 'floor(layer, "fp16", 4)'))

# %% wrong times-added
# You added the time of the arithmetic and that of the bytes. Within a product the slower decides.
(swap("roofline.matmul_floor(gpu, baseline, work)",
    "work.flops / gpu.peak(baseline) + work.bytes(baseline) / gpu.bytes_per_second()") &
    swap('roofline.matmul_floor(gpu, "fp16", work)',
    'work.flops / gpu.peak("fp16") + work.bytes("fp16") / gpu.bytes_per_second()'))
of("by_hand", swap("max(2 * m * k * n / gpu.peak(dtype), size",
    "(2 * m * k * n / gpu.peak(dtype) + size"))

# %% wrong fp32-ops-halved
# You let every elementwise op move 2 bytes in mixed precision. With `fp32`, autocast runs it in
# FP32: 4 bytes.
swap('(4 if layer["fp32"] else 2)', "2")
of("by_hand", swap('mixed and not layer["fp32"]', "mixed"))

# %% wrong ops-not-halved
# You let every elementwise op move 4 bytes. In mixed precision those without `fp32` move 2.
swap('(4 if layer["fp32"] else 2)', "4")
of("by_hand", swap('2 if mixed and not layer["fp32"] else 4', "4"))

# %% wrong fp32-upside-down
# You halved the bytes of the ops with `fp32`, and left the others. It is the other way round.
swap('(4 if layer["fp32"] else 2)', '(2 if layer["fp32"] else 4)')
of("by_hand", swap('not layer["fp32"]', 'layer["fp32"]'))

# %% wrong products-only
# You counted the matrix products only. The other layers take time as well, and gain less.
put("if layer['kind'] != 'matmul': continue", before="if layer[\"kind\"]")
of("sums_by_kind", put("wide = rest = saved = 0", before="return"))

# %% wrong other-forgotten
# You left out what takes the same time in both runs. It lowers the speed-up of the whole.
swap('before += layer["seconds"]', "before += 0") & swap('after += layer["seconds"]', "pass")
of("by_hand", swap('total += layer["seconds"]', "pass"))

# %% wrong other-on-one-side
# You added the `seconds` of other work to one of the two runs. They stay the same in both.
swap('before += layer["seconds"]', "before += 0")
swap('after += layer["seconds"]', "after += 0")
of("sums_by_kind", swap("(old + wide + rest)", "(old + wide)"))
of("sums_by_kind", swap("gpu.bandwidth + rest", "gpu.bandwidth"))

# %% wrong one-tensor
# You counted one tensor per elementwise op. It reads or writes `tensors` of them.
swap(' * layer["tensors"]', "")
of("sums_by_kind", swap('x["elements"] * x["tensors"]', 'x["elements"]', nth=0))

# %% wrong baseline-ignored
# You took the same baseline each time. `baseline` says whose peak to use: that of FP32 or of TF32.
swap("matmul_floor(gpu, baseline", 'matmul_floor(gpu, "fp32"')
of("by_hand", swap("floor(layer, baseline", 'floor(layer, "fp32"'))

# %% wrong mean-of-speed-ups
# You averaged the speed-ups of the layers. A short layer counts as much as a long one then. Add up
# the times of each run, and divide the sums.
(put("ratios = []", before="cast =") & put("b, a = before, after", before="if layer[\"kind\"]") &
    put("ratios.append((before - b) / (after - a))", after="if layer[\"kind\"]") &
    swap("before / after", "sum(ratios) / len(ratios)"))
of("by_hand", put("every, layers = layers, []\ntotal, used = 0, set()\nfor layer in every:\n"
    "    layers = [layer]\n    b, a = seconds(False), seconds(True)\n"
    "    if layer.get('weight') in used:\n"
    "        a -= 6 * layer['k'] * layer['n'] / bandwidth\n"
    "    used.add(layer.get('weight', layer['kind'] * 9))\n    total += b / a\n"
    "return total / len(every)", before="return seconds"))

# %% wrong one-roof-for-all
# You took one floor for all FLOPs and all bytes together. Each layer has its own: add the floors.
(put("flops = elements = 0", before="cast = set") & swap("before += roofline.matmul_floor(gpu, "
    "baseline, work)", "flops += work.flops") & swap('after += roofline.matmul_floor(gpu, "fp16", '
    'work)', 'elements += work.bytes("fp16") // 2') & put("before += roofline.floor_seconds(gpu, "
    "baseline, flops, 4 * elements)\nafter += roofline.floor_seconds(gpu, 'fp16', flops, 2 * "
    "elements)", before="return"))
of("sums_by_kind", put("flops = sum(w.flops for w in works)\n"
    "elements = sum(w.bytes('fp16') / 2 for w in works)\n"
    "old = roofline.floor_seconds(gpu, baseline, flops, 4 * elements)\n"
    "new = roofline.floor_seconds(gpu, 'fp16', flops, 2 * elements)", before="sizes ="))

of("sums_by_kind", put("bps, flops = gpu.bytes_per_second(), sum(w.flops for w in works)\n"
    "old = max(flops / gpu.peak(baseline), sum(w.bytes(baseline) for w in works) / bps + wide)\n"
    "new = max(flops / gpu.peak('fp16'), sum(w.bytes('fp16') for w in works) / bps + casts + wide "
    "- saved / bps)\nwide = saved = casts = 0", before="return"))
(of("by_hand", swap("max(2 * m * k * n / gpu.peak(dtype), size", "(size")) & put(
    "flops = sum(2 * x['m'] * x['k'] * x['n'] for x in layers if 'm' in x)\n"
    "rest = sum(x.get('seconds', 0) for x in layers)\n"
    "total += 6 * sum(weights.values()) / bandwidth - rest\nweights = {}\n"
    "total = rest + max(total, flops / gpu.peak('fp16' if mixed else baseline))",
    before="return total"))

# %% wrong upside-down
# You divided the mixed time by the baseline's. A speed-up is the old time divided by the new one.
swap("before / after", "after / before")
of("by_hand", swap("seconds(False) / seconds(True)", "seconds(True) / seconds(False)"))

# %% wrong rounded
# You rounded the speed-up. Return it as it is.
swap("before / after", "round(before / after, 1)")
swap("before / after", "round(before / after, 2)")
swap("before / after", "float('%.1f' % (before / after))")

# %% wrong another-measure
# You returned the share of the time that is gained or saved. Divide the old time by the new one.
swap("before / after", "before / after - 1")
swap("before / after", "1 - after / before")
swap("before / after", "100 * (before - after) / after")
swap("before / after", "(before - after) / after")
