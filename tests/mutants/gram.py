# === mutant: float_before -> cast-only
def gram(x, weight):
    features = F.linear(x, weight).to(torch.float32)
    return features @ features.transpose(0, 1)


# === mutant: disabled_only -> region-only
def gram(x, weight):
    features = F.linear(x, weight)
    with torch.autocast(device_type=x.device.type, enabled=False):
        return torch.mm(features, features.t())


# === mutant: disabled_and_cast_later -> cast-after
def gram(x, weight):
    features = F.linear(x, weight)
    with torch.autocast(device_type=x.device.type, enabled=False):
        return torch.mm(features, features.t()).float()


# === mutant: float_after -> cast-after
def gram(x, weight):
    features = F.linear(x, weight)
    return (features @ features.T).float()


# === mutant: everything_outside -> all-in-float32
def gram(x, weight):
    with torch.autocast(x.device.type, enabled=False):
        features = F.linear(x.float(), weight.float())
        return features @ features.T


# === mutant: laptop_only -> one-device
def gram(x, weight):
    features = F.linear(x, weight)
    with torch.autocast("cpu", enabled=False):
        return features.float() @ features.float().T


# === mutant: in_double -> float64-returned
def gram(x, weight):
    features = F.linear(x, weight).double()
    return features @ features.T


# === mutant: switch_thrown -> autocast-left-off
def gram(x, weight):
    features = F.linear(x, weight).float()
    torch.set_autocast_enabled(x.device.type, False)
    return features @ features.T


# === mutant: nothing_done -> as-it-was
def gram(x, weight):
    features = F.linear(x, weight)
    return features @ features.T


# === mutant: only_the_diagonal -> wrong-value
def gram(x, weight):
    features = F.linear(x, weight)
    with torch.autocast(x.device.type, enabled=False):
        features = features.float()
        return torch.diag((features @ features.T).diagonal())


# === mutant: float_before_einsum -> cast-only
def gram(x, weight):
    features = F.linear(x, weight).float()
    return torch.einsum("ik,jk->ij", features, features)



# === correct: sums_of_products
def gram(x, weight):
    features = F.linear(x, weight).float()
    return (features.unsqueeze(0) * features.unsqueeze(1)).sum(-1)


# === correct: decorated
def gram(x, weight):
    features = torch.nn.functional.linear(x, weight)

    @torch.autocast(x.device.type, enabled=False)
    def inner(f):
        return torch.mm(f, f.t())

    return inner(features.float())


# === correct: a_detour_through_double
def gram(x, weight):
    features = F.linear(x, weight).double()
    return (features @ features.T).float()


# === correct: indexes_with_none
def gram(x, weight):
    features = F.linear(x, weight).float()
    return (features[None] * features[:, None]).sum(-1)


# === correct: a_second_linear
def gram(x, weight):
    features = F.linear(x, weight)
    with torch.autocast(device_type=x.device.type, enabled=False):
        features = features.to(torch.float32)
        return F.linear(features, features)


# === mutant: dtype_left_changed -> region-changed
def gram(x, weight):
    features = F.linear(x, weight).float()
    torch.set_autocast_dtype(x.device.type, torch.float32)
    return (features.unsqueeze(0) * features.unsqueeze(1)).sum(-1)


# === mutant: cache_left_off -> region-changed
def gram(x, weight):
    features = F.linear(x, weight).float()
    torch.set_autocast_cache_enabled(False)
    with torch.autocast(x.device.type, enabled=False):
        return features @ features.T


# === mutant: turned_on_where_it_was_off -> region-changed
def gram(x, weight):
    features = F.linear(x, weight)
    torch.set_autocast_enabled(x.device.type, False)
    features = features.float()
    out = features @ features.T
    torch.set_autocast_enabled(x.device.type, True)
    return out


# === mutant: scaled_down -> wrong-value
def gram(x, weight):
    features = F.linear(x, weight) / 1024
    return (features @ features.T).float() * 1024**2


# === mutant: the_other_gram -> wrong-type
def gram(x, weight):
    features = F.linear(x, weight)
    with torch.autocast(x.device.type, enabled=False):
        features = features.float()
        return features.T @ features


# === correct: custom_fwd
class Gram(torch.autograd.Function):
    @staticmethod
    def forward(ctx, f):
        ctx.save_for_backward(f)
        with torch.autocast(f.device.type, enabled=False):
            f = f.float()
            return f @ f.T

    @staticmethod
    def backward(ctx, g):
        (f,) = ctx.saved_tensors
        return ((g + g.T) @ f.float()).to(f.dtype)


def gram(x, weight):
    return Gram.apply(F.linear(x, weight))
