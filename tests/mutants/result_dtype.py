# === mutant: everything_is_cast -> global-cast
def result_dtype(op, device, region, inputs):
    return region


# === mutant: cast_unless_listed -> global-cast
def result_dtype(op, device, region, inputs):
    f32 = ["mse_loss", "prod"]
    if device == "cuda":
        f32 += ["softmax", "layer_norm", "exp", "log", "sum", "cumsum"]
    if op == "add_":
        return inputs[0]
    if "dtype=" in op:
        return torch.float32
    if torch.float64 in inputs:
        return torch.float64
    return torch.float32 if op in f32 else region


# === mutant: the_list_in_the_docs -> cuda-rules-on-cpu
SINGLE = {"softmax", "layer_norm", "exp", "log", "sum", "cumsum", "mse_loss", "prod"}


def result_dtype(op, device, region, inputs):
    if op == "add_":
        return inputs[0]
    if op == "softmax, dtype=float32":
        return torch.float32
    if torch.float64 in inputs:
        return torch.float64
    if op in SINGLE:
        return torch.float32
    if op in ("matmul", "linear", "conv1d"):
        return region
    return torch.promote_types(inputs[0], inputs[-1])


# === mutant: as_seen_on_the_laptop -> cpu-rules-on-cuda
def result_dtype(op, device, region, inputs):
    if op == "add_":
        return inputs[0]
    if op == "softmax, dtype=float32":
        return torch.float32
    if torch.float64 in inputs:
        return torch.float64
    if op in ("mse_loss", "prod"):
        return torch.float32
    if op in ("matmul", "linear", "conv1d"):
        return region
    return torch.promote_types(inputs[0], inputs[-1])


# === mutant: reductions_are_safe -> reductions-in-float32
def result_dtype(op, device, region, inputs):
    if op == "add_":
        return inputs[0]
    if op == "softmax, dtype=float32":
        return torch.float32
    widest = torch.promote_types(inputs[0], inputs[-1])
    if widest == torch.float64:
        return widest
    if op in ("matmul", "linear", "conv1d"):
        return region
    safe = ("softmax", "layer_norm", "exp", "log", "sum", "cumsum", "mean", "var")
    if op in ("mse_loss", "prod") or (device == "cuda" and op in safe):
        return torch.float32
    return widest


# === mutant: loss_follows_its_input -> loss-as-given
def result_dtype(op, device, region, inputs):
    if op == "add_":
        return inputs[0]
    if op == "softmax, dtype=float32":
        return torch.float32
    widest = torch.promote_types(inputs[0], inputs[-1])
    if widest == torch.float64:
        return widest
    if op in ("matmul", "linear", "conv1d"):
        return region
    safe = ("softmax", "layer_norm", "exp", "log", "sum", "cumsum", "prod")
    if op == "prod" or (device == "cuda" and op in safe):
        return torch.float32
    return widest


# === mutant: add_is_add -> in-place-widened
def result_dtype(op, device, region, inputs):
    if op == "softmax, dtype=float32":
        return torch.float32
    widest = torch.promote_types(inputs[0], inputs[-1])
    if widest == torch.float64:
        return widest
    if op in ("matmul", "linear", "conv1d"):
        return region
    safe = ("softmax", "layer_norm", "exp", "log", "sum", "cumsum")
    if op in ("mse_loss", "prod") or (device == "cuda" and op in safe):
        return torch.float32
    return widest


# === mutant: float64_is_a_float -> float64-cast
def result_dtype(op, device, region, inputs):
    if op == "add_":
        return inputs[0]
    if op == "softmax, dtype=float32":
        return torch.float32
    if op in ("matmul", "linear", "conv1d"):
        return region
    safe = ("softmax", "layer_norm", "exp", "log", "sum", "cumsum")
    if op in ("mse_loss", "prod") or (device == "cuda" and op in safe):
        return torch.float32
    return torch.promote_types(inputs[0], inputs[-1])


# === mutant: softmax_is_softmax -> explicit-dtype-ignored
def result_dtype(op, device, region, inputs):
    op = op.split(",")[0]
    if op == "add_":
        return inputs[0]
    widest = torch.promote_types(inputs[0], inputs[-1])
    if widest == torch.float64:
        return widest
    if op in ("matmul", "linear", "conv1d"):
        return region
    safe = ("softmax", "layer_norm", "exp", "log", "sum", "cumsum")
    if op in ("mse_loss", "prod") or (device == "cuda" and op in safe):
        return torch.float32
    return widest


# === mutant: sixteen_bits_stay -> low-ops-as-given
def result_dtype(op, device, region, inputs):
    if op == "add_":
        return inputs[0]
    if op == "softmax, dtype=float32":
        return torch.float32
    widest = torch.promote_types(inputs[0], inputs[-1])
    if widest == torch.float64:
        return widest
    if op in ("matmul", "linear", "conv1d"):
        return region if torch.float32 in inputs else inputs[0]
    safe = ("softmax", "layer_norm", "exp", "log", "sum", "cumsum")
    if op in ("mse_loss", "prod") or (device == "cuda" and op in safe):
        return torch.float32
    return widest


# === mutant: first_one_decides -> first-input-wins
def result_dtype(op, device, region, inputs):
    if op == "add_":
        return inputs[0]
    if op == "softmax, dtype=float32":
        return torch.float32
    if torch.float64 in inputs:
        return torch.float64
    if op in ("matmul", "linear", "conv1d"):
        return region
    safe = ("softmax", "layer_norm", "exp", "log", "sum", "cumsum")
    if op in ("mse_loss", "prod") or (device == "cuda" and op in safe):
        return torch.float32
    return inputs[0]


# === mutant: runs_it -> asked-torch
def result_dtype(op, device, region, inputs):
    a = [torch.ones(4, 4, dtype=dtype) for dtype in inputs]
    with torch.autocast("cpu", dtype=region):
        if op == "matmul":
            return torch.matmul(*a).dtype
        return torch.relu(a[0]).dtype


# === mutant: runs_it_on_fakes -> asked-torch
def result_dtype(op, device, region, inputs):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        torch.set_autocast_enabled("cuda", True)
        torch.set_autocast_dtype("cuda", region)
        x = torch.ones(4, 4, dtype=inputs[0], device="cuda")
        result = torch.exp(x).dtype
        torch.set_autocast_enabled("cuda", False)
        torch.set_autocast_dtype("cuda", torch.float16)
    return result


# === mutant: as_text -> wrong-type
def result_dtype(op, device, region, inputs):
    return "float32"


# === mutant: forgot_a_group -> wrong-value
def result_dtype(op, device, region, inputs):
    if op in ("matmul", "linear", "conv1d"):
        return region
    if op in ("mse_loss", "prod"):
        return torch.float32
    return inputs[0]


# === mutant: two_halves_stay_half -> sixteen-with-sixteen
def result_dtype(op, device, region, inputs):
    if op == "add_":
        return inputs[0]
    if op == "softmax, dtype=float32":
        return torch.float32
    if torch.float64 in inputs:
        return torch.float64
    if op in ("matmul", "linear", "conv1d"):
        return region
    safe = ("softmax", "layer_norm", "exp", "log", "sum", "cumsum")
    if op in ("mse_loss", "prod") or (device == "cuda" and op in safe) or torch.float32 in inputs:
        return torch.float32
    return region if inputs[0] != inputs[-1] else inputs[0]



# === correct: table_of_rules
RULES = {name: "low" for name in ("matmul", "linear", "conv1d")}
RULES |= {name: "float32" for name in ("mse_loss", "prod")}
RULES |= {name: "cuda" for name in "softmax layer_norm exp log sum cumsum".split()}
WIDTH = {torch.float16: 1, torch.bfloat16: 1, torch.float32: 2, torch.float64: 3}


def result_dtype(op, device, region, inputs):
    rule = RULES.get(op)
    if op.endswith("_"):
        return inputs[0]
    if "dtype=float32" in op:
        return torch.float32
    if torch.float64 in inputs:
        return torch.float64
    if rule == "low":
        return region
    if rule == "float32" or (rule == "cuda" and device == "cuda"):
        return torch.float32
    first, last = inputs[0], inputs[-1]
    if WIDTH[first] == WIDTH[last] and first is not last:
        return torch.float32
    return first if WIDTH[first] > WIDTH[last] else last


# === correct: result_type_of_empty_tensors
def result_dtype(op, device, region, inputs):
    if op == "add_":
        return inputs[0]
    if "dtype=" in op:
        return torch.float32
    if inputs[0].itemsize == 8:
        return torch.float64
    if op in ("matmul", "linear", "conv1d"):
        return region
    if op in ("mse_loss", "prod"):
        return torch.float32
    if device == "cuda" and op in ("softmax", "layer_norm", "exp", "log", "sum", "cumsum"):
        return torch.float32
    a, b = torch.tensor([1.0], dtype=inputs[0]), torch.zeros(1, dtype=inputs[-1])
    return torch.result_type(a, b)
