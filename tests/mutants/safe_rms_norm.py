# === mutant: as_in_the_lesson -> squares-in-16-bits
def safe_rms_norm(x, weight, eps):
    return (x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * weight).to(x.dtype)


# === mutant: float_after_the_mean -> squares-in-16-bits
def safe_rms_norm(x, weight, eps):
    ms = x.square().mean(-1, keepdim=True).float()
    return (x.float() * torch.rsqrt(ms + eps) * weight).to(x.dtype)


# === mutant: divided_by_the_root -> squares-in-16-bits
def safe_rms_norm(x, weight, eps):
    rms = torch.sqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps)
    return (x / rms * weight).to(x.dtype)


# === mutant: layer_norm -> mean-subtracted
def safe_rms_norm(x, weight, eps):
    w = x.float()
    w = w - w.mean(-1, keepdim=True)
    return (w / (w.square().mean(-1, keepdim=True) + eps).sqrt() * weight).to(x.dtype)


# === mutant: eps_beside_the_root -> eps-outside-the-root
def safe_rms_norm(x, weight, eps):
    w = x.float()
    return (w / (w.square().mean(-1, keepdim=True).sqrt() + eps) * weight).to(x.dtype)


# === mutant: no_eps -> eps-forgotten
def safe_rms_norm(x, weight, eps):
    w = x.float()
    return (w * w.pow(2).mean(-1, keepdim=True).rsqrt() * weight).to(x.dtype)


# === mutant: default_eps -> eps-of-your-own
def safe_rms_norm(x, weight, eps):
    return F.rms_norm(x.float(), x.shape[-1:], weight).to(x.dtype)


# === mutant: eps_in_the_code -> eps-of-your-own
def safe_rms_norm(x, weight, eps):
    w = x.float()
    return (w * torch.rsqrt(w.pow(2).mean(-1, keepdim=True) + 1e-6) * weight).to(x.dtype)


# === mutant: unweighted -> weight-forgotten
def safe_rms_norm(x, weight, eps):
    w = x.float()
    return (w * torch.rsqrt(w.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)


# === mutant: sum -> sum-for-mean
def safe_rms_norm(x, weight, eps):
    w = x.float()
    return (w / torch.sqrt((w**2).sum(-1, keepdim=True) + eps) * weight).to(x.dtype)


# === mutant: result_in_float32 -> wrong-type
def safe_rms_norm(x, weight, eps):
    w = x.float()
    return w * torch.rsqrt(w.square().mean(-1, keepdim=True) + eps) * weight


# === correct: torchs_own
def safe_rms_norm(x, weight, eps):
    return F.rms_norm(x.float(), weight.shape, weight, eps).to(x.dtype)


# === correct: torchs_own_as_given
def safe_rms_norm(x, weight, eps):
    return F.rms_norm(x, (x.shape[-1],), weight.to(x.dtype), eps)


# === correct: weight_in_the_end
def safe_rms_norm(x, weight, eps):
    w = x.to(torch.float32)
    normed = w / torch.sqrt(torch.mean(w * w, dim=-1, keepdim=True) + eps)
    return normed.to(x.dtype) * weight.to(x.dtype)


# === correct: by_the_norm
def safe_rms_norm(x, weight, eps):
    w = x.double()
    mean_square = torch.linalg.vector_norm(w, dim=-1, keepdim=True) ** 2 / x.shape[-1]
    return (weight * w / (mean_square + eps) ** 0.5).to(x.dtype)


# === mutant: one_mean -> one-mean-for-all
def safe_rms_norm(x, weight, eps):
    w = x.float()
    return (w / (w.square().mean() + eps).sqrt() * weight).to(x.dtype)


# === mutant: mean_with_a_dtype -> squares-in-16-bits
def safe_rms_norm(x, weight, eps):
    ms = (x * x).mean(-1, keepdim=True, dtype=torch.float32)
    return (x * torch.rsqrt(ms + eps) * weight).to(x.dtype)


# === correct: divided_by_the_largest
def safe_rms_norm(x, weight, eps):
    w = x.float()
    largest = w.abs().amax(-1, keepdim=True).clamp_min(1e-20)
    y = w / largest
    return (y / torch.sqrt(y.square().mean(-1, keepdim=True) + eps / largest**2) * weight).type(
        x.dtype
    )


# === correct: a_module
def safe_rms_norm(x, weight, eps):
    norm = torch.nn.RMSNorm(x.shape[-1], eps=eps)
    norm.weight = torch.nn.Parameter(weight)
    return norm(x.float()).to(x.dtype)


# === mutant: root_cast_back -> wrong-value
def safe_rms_norm(x, weight, eps):
    w = x.float()
    inverse = torch.rsqrt(w.pow(2).mean(-1, keepdim=True) + eps).to(x.dtype)
    return x * inverse * weight.to(x.dtype)


# === mutant: weight_as_gemma_stores_it -> wrong-value
def safe_rms_norm(x, weight, eps):
    w = x.float()
    return (w * torch.rsqrt(w.pow(2).mean(-1, keepdim=True) + eps) * (1 + weight)).to(x.dtype)


# === mutant: widened_in_place -> changed-argument
def safe_rms_norm(x, weight, eps):
    w = x.float()
    w *= torch.rsqrt(w.pow(2).mean(-1, keepdim=True) + eps)
    w *= weight
    return w.to(x.dtype)


# === correct: plain_python
def safe_rms_norm(x, weight, eps):
    import math

    rows = []
    for row in x.tolist():
        root = math.sqrt(math.fsum(v * v for v in row) / len(row) + eps)
        rows.append([v / root * factor for v, factor in zip(row, weight.tolist())])
    return torch.tensor(rows, dtype=x.dtype)
