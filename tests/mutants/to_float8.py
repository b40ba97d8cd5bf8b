# === mutant: just_cast -> no-scale
def to_float8(x):
    return x.to(torch.float8_e4m3fn), 1.0


# === mutant: inverse_scale -> reciprocal
def to_float8(x):
    amax = x.float().abs().max().clamp(min=1e-12)
    return (x.float() / (amax / 448)).to(torch.float8_e4m3fn), amax / 448


# === mutant: max_is_amax -> sign-forgotten
def to_float8(x):
    amax = x.float().max().clamp(min=1e-12)
    scale = 448 / amax
    return (x.float() * scale).to(torch.float8_e4m3fn), scale


# === mutant: the_other_format -> range-of-e5m2
def to_float8(x):
    amax = x.float().abs().max().clamp(min=1e-12)
    scale = torch.finfo(torch.float8_e5m2).max / amax
    return (x.float() * scale).to(torch.float8_e4m3fn), scale


# === mutant: zeros_forgotten -> zero-tensor
def to_float8(x):
    x = x.float()
    scale = 448.0 / x.abs().max()
    return (x * scale).to(torch.float8_e4m3fn), scale


# === mutant: first_try -> scale-in-half
def to_float8(x):
    scale = 448.0 / x.abs().max()
    return (x * scale).to(torch.float8_e4m3fn), scale


# === mutant: zeros_minded -> scale-in-half
def to_float8(x):
    if not x.any():
        return torch.zeros_like(x).to(torch.float8_e4m3fn), 1.0
    scale = 448.0 / x.abs().max()
    return (x * scale).to(torch.float8_e4m3fn), scale


# === mutant: rounded_in_float32 -> not-float8
def to_float8(x):
    amax = x.float().abs().max().clamp(min=1e-12)
    scale = 448 / amax
    return (x.float() * scale).to(torch.float8_e4m3fn).float(), scale


# === mutant: power_of_two_above -> wrong-value
def to_float8(x):
    import math

    amax = x.float().abs().max().item() or 1.0
    scale = 2.0 ** math.ceil(math.log2(448 / amax))
    return (x.float() * scale).to(torch.float8_e4m3fn), scale


# === mutant: q_alone -> wrong-value
def to_float8(x):
    scale = 448 / x.float().abs().max().clamp(min=1e-12)
    return (x.float() * scale).to(torch.float8_e4m3fn)


# === mutant: max_and_no_zeros -> sign-forgotten
def to_float8(x):
    scale = 448 / x.float().max()
    return (x.float() * scale).to(torch.float8_e4m3fn), scale


# === mutant: divides_by_a_scale -> reciprocal
def to_float8(x):
    scale = x.float().abs().max() / 448
    return (x.float() / scale).to(torch.float8_e4m3fn), scale


# === mutant: scaled_in_place -> input-changed
def to_float8(x):
    wide = x.float()
    amax = wide.abs().max()
    scale = 448 / amax if amax > 0 else torch.ones(())
    return wide.mul_(scale).to(torch.float8_e4m3fn), scale


# === mutant: an_eps_that_is_too_large -> wrong-value
def to_float8(x):
    scale = 448 / (x.float().abs().max() + 1e-8)
    return (x.float() * scale).to(torch.float8_e4m3fn), scale


# === mutant: a_scale_for_each_row -> wrong-value
def to_float8(x):
    amax = x.float().abs().amax(dim=-1, keepdim=True).clamp(min=1e-12)
    scale = 448 / amax
    return (x.float() * scale).to(torch.float8_e4m3fn), scale


# === correct: a_power_of_two
def to_float8(x):
    import math

    amax = x.abs().max().item()
    scale = 2.0 ** math.floor(math.log2(448 / amax)) if amax else 1.0
    return (x.to(torch.float32) * scale).to(torch.float8_e4m3fn), scale


# === correct: as_torchao_does
def to_float8(x):
    amax = torch.max(torch.abs(x)).to(torch.float64)
    scale = (torch.finfo(torch.float8_e4m3fn).max / torch.clamp(amax, min=1e-12)).float()
    scaled = x.to(torch.float32) * scale
    return scaled.clamp(-448, 448).to(torch.float8_e4m3fn), scale


# === correct: by_this_courses_formats
def to_float8(x):
    from amp_lessons.formats import FP8_E4M3

    amax = float(x.abs().max()) or 1.0
    scale = FP8_E4M3.max / amax
    return FP8_E4M3.round(x.double() * scale, saturate=True).to(torch.float8_e4m3fn), [scale][0]


# === correct: a_numpy_scale
def to_float8(x):
    import numpy as np

    amax = x.float().abs().max().numpy()
    scale = np.float32(448) / amax if amax > 0 else np.float32(1)
    return (x.float() * float(scale)).to(torch.float8_e4m3fn), scale


# === correct: a_named_tuple
import typing
class Scaled(typing.NamedTuple):
    q: torch.Tensor
    scale: torch.Tensor
def to_float8(x: torch.Tensor) -> Scaled:
    w = x.detach().to(dtype=torch.float32)
    amax = w.abs().amax()
    scale = torch.nan_to_num(448.0 / amax, posinf=1.0)
    return Scaled((w * scale).to(torch.float8_e4m3fn), scale)
