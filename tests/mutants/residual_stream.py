# === mutant: as_it_comes -> stream-as-it-comes
def residual_stream(x, blocks, region):
    with torch.autocast("cpu", dtype=region):
        for block in blocks:
            x = x + block(x)
    return x


# === mutant: widened_at_the_end -> stream-as-it-comes
def residual_stream(x, blocks, region):
    for block in blocks:
        with torch.autocast("cpu", dtype=region):
            x = x + block(x)
    return x.float()


# === mutant: all_in_the_region -> stream-in-the-regions-dtype
def residual_stream(x, blocks, region):
    x = x.to(region)
    with torch.autocast("cpu", dtype=region):
        for block in blocks:
            x = x + block(x)
    return x.float()


# === mutant: sum_stored_in_16_bits -> stream-in-the-regions-dtype
def residual_stream(x, blocks, region):
    with torch.autocast("cpu", dtype=region):
        for block in blocks:
            x = (x.float() + block(x.float())).to(region)
    return x.float()


# === mutant: no_region -> blocks-in-float32
def residual_stream(x, blocks, region):
    x = x.float()
    for block in blocks:
        x = x + block(x)
    return x


# === mutant: region_switched_off -> blocks-in-float32
def residual_stream(x, blocks, region):
    x = x.float()
    with torch.autocast("cpu", dtype=region):
        for block in blocks:
            with torch.autocast("cpu", enabled=False):
                x = x + block(x)
    return x


# === mutant: no_residual -> stream-not-added
def residual_stream(x, blocks, region):
    x = x.float()
    with torch.autocast("cpu", dtype=region):
        for block in blocks:
            x = block(x)
    return x.float()


# === mutant: adds_in_place -> changed-argument
def residual_stream(x, blocks, region):
    x = x.float()
    with torch.no_grad(), torch.autocast("cpu", dtype=region):
        for block in blocks:
            x += block(x)
    return x


# === mutant: two_passes -> wrong-value
def residual_stream(x, blocks, region):
    x = x.float()
    with torch.autocast("cpu", dtype=region):
        for block in blocks:
            block(x)
            x = x + block(x)
    return x


# === correct: region_per_block
def residual_stream(x, blocks, region):
    stream = x.to(torch.float32)
    for block in blocks:
        with torch.autocast(device_type="cpu", dtype=region):
            update = block(stream)
        stream = stream + update.float()
    return stream


# === correct: in_place_on_a_copy
def residual_stream(x, blocks, region):
    stream = x.detach().float().clone()
    with torch.no_grad(), torch.autocast("cpu", region):
        for block in blocks:
            stream.add_(block(stream))
    return stream


# === correct: double_sums
def residual_stream(x, blocks, region):
    total = x.double()
    for block in blocks:
        with torch.autocast("cpu", dtype=region):
            total = total + block(total.float())
    return total.float()


# === mutant: blocks_fed_in_16_bits -> stream-in-the-regions-dtype
def residual_stream(x, blocks, region):
    stream = x.float()
    for block in blocks:
        with torch.autocast("cpu", dtype=region):
            stream = stream + block(stream.to(region)).float()
    return stream


# === mutant: region_with_no_dtype -> region-without-its-dtype
def residual_stream(x, blocks, region):
    x = x.float()
    with torch.autocast("cpu"):
        for block in blocks:
            x = x + block(x)
    return x


# === mutant: modules_cast -> blocks-cast-for-good
def residual_stream(x, blocks, region):
    x = x.float()
    for block in blocks:
        x = x + block.to(region)(x.to(region)).float()
    return x


# === mutant: float64_returned -> wrong-value
def residual_stream(x, blocks, region):
    x = x.double()
    for block in blocks:
        with torch.autocast("cpu", dtype=region):
            x = x + block(x.float())
    return x


# === correct: reduced
def residual_stream(x, blocks, region):
    from functools import reduce

    with torch.inference_mode(), torch.autocast("cpu", dtype=region, cache_enabled=False):
        return reduce(lambda stream, block: stream.add(block(stream)), blocks, x.float())


# === mutant: linear_layers_cast -> blocks-cast-for-good
def residual_stream(x, blocks, region):
    x = x.float()
    for block in blocks:
        for layer in block.modules():
            if isinstance(layer, torch.nn.Linear):
                layer.to(region)
    with torch.autocast("cpu", dtype=region):
        for block in blocks:
            x = x + block(x)
    return x


# === mutant: autocast_left_on -> wrong-value
def residual_stream(x, blocks, region):
    torch.set_autocast_enabled("cpu", True)
    torch.set_autocast_dtype("cpu", region)
    x = x.float()
    for block in blocks:
        x = x + block(x)
    return x


# === mutant: region_of_another_device -> blocks-in-float32
def residual_stream(x, blocks, region):
    x = x.float()
    with torch.autocast("cuda", dtype=region):
        for block in blocks:
            x = x + block(x)
    return x


# === correct: modules_in_a_row
class Residual(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return x + self.inner(x)


def residual_stream(x, blocks, region):
    stream = torch.nn.Sequential(*map(Residual, blocks))
    with torch.autocast("cpu", dtype=region, cache_enabled=False):
        return stream(x.float())


# === correct: one_by_one_in_float64
def residual_stream(x, blocks, region):
    if not blocks:
        return x.float()
    first, *rest = blocks
    with torch.autocast("cpu", dtype=region):
        added = first(x.float())
    return residual_stream(x.double() + added, rest, region)


# === mutant: hooks_left_on_the_blocks -> wrong-value
def residual_stream(x, blocks, region):
    x = x.float()
    with torch.autocast("cpu", dtype=region):
        for block in blocks:
            block.register_forward_hook(lambda module, args, out: out.float())
            x = x + block(x)
    return x
