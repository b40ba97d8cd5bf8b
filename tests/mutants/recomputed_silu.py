# === mutant: only_custom_fwd -> fwd-without-bwd
class RecomputedSilu(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return F.silu(x @ weight)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        h = x @ weight
        s = torch.sigmoid(h)
        grad_h = grad * (s + h * s * (1 - s))
        return grad_h @ weight.T, x.T @ grad_h


def recomputed_silu(x, weight):
    return RecomputedSilu.apply(x, weight)


# === mutant: only_custom_bwd -> bwd-without-fwd
class RecomputedSilu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return F.silu(x @ weight)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        h = x @ weight
        s = torch.sigmoid(h)
        grad_h = grad * (s + h * s * (1 - s))
        return grad_h @ weight.T, x.T @ grad_h


def recomputed_silu(x, weight):
    return RecomputedSilu.apply(x, weight)


# === mutant: cuda_on_the_cpu -> other-device
class RecomputedSilu(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda")
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return F.silu(x @ weight)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        h = x @ weight
        s = torch.sigmoid(h)
        grad_h = grad * (s + h * s * (1 - s))
        return grad_h @ weight.T, x.T @ grad_h


def recomputed_silu(x, weight):
    return RecomputedSilu.apply(x, weight)


# === mutant: cast_to_float32 -> forward-in-float32
class RecomputedSilu(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return F.silu(x @ weight)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        h = x @ weight
        s = torch.sigmoid(h)
        grad_h = grad * (s + h * s * (1 - s))
        return grad_h @ weight.T, x.T @ grad_h


def recomputed_silu(x, weight):
    return RecomputedSilu.apply(x, weight)


# === mutant: cast_to_float16 -> one-dtype-for-all
class RecomputedSilu(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float16)
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return F.silu(x @ weight)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        h = x @ weight
        s = torch.sigmoid(h)
        grad_h = grad * (s + h * s * (1 - s))
        return grad_h @ weight.T, x.T @ grad_h


def recomputed_silu(x, weight):
    return RecomputedSilu.apply(x, weight)


# === mutant: cast_like_the_gradient -> backward-elsewhere
class RecomputedSilu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return F.silu(x @ weight)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        x, weight = x.to(grad.dtype), weight.to(grad.dtype)
        h = x @ weight
        s = torch.sigmoid(h)
        grad_h = grad * (s + h * s * (1 - s))
        return grad_h @ weight.T, x.T @ grad_h


def recomputed_silu(x, weight):
    return RecomputedSilu.apply(x, weight)


# === mutant: switched_off_and_float32 -> backward-in-float32
class RecomputedSilu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return F.silu(x @ weight)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        with torch.autocast("cpu", enabled=False):
            h = x @ weight
            s = torch.sigmoid(h)
            grad_h = grad.float() * (s + h * s * (1 - s))
            return grad_h @ weight.T, x.T @ grad_h


def recomputed_silu(x, weight):
    return RecomputedSilu.apply(x, weight)


# === mutant: half_in_the_backward -> dtypes-meet
class RecomputedSilu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return F.silu(x @ weight)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        x = x.to(grad.dtype)
        h = x @ weight
        s = torch.sigmoid(h)
        grad_h = grad * (s + h * s * (1 - s))
        return grad_h @ weight.T, x.T @ grad_h


def recomputed_silu(x, weight):
    return RecomputedSilu.apply(x, weight)


# === mutant: setup_context -> bwd-without-fwd
class RecomputedSilu(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(x, weight):
        return F.silu(x @ weight)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        h = x @ weight
        s = torch.sigmoid(h)
        grad_h = grad * (s + h * s * (1 - s))
        return grad_h @ weight.T, x.T @ grad_h


def recomputed_silu(x, weight):
    return RecomputedSilu.apply(x, weight)


# === mutant: no_function_at_all -> no-function
def recomputed_silu(x, weight):
    return F.silu(x @ weight)


# === mutant: slope_of_the_sigmoid_forgotten -> wrong-value
class RecomputedSilu(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return F.silu(x @ weight)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        h = x @ weight
        s = torch.sigmoid(h)
        grad_h = grad * s
        return grad_h @ weight.T, x.T @ grad_h


def recomputed_silu(x, weight):
    return RecomputedSilu.apply(x, weight)


# === mutant: result_widened -> wrong-type
class RecomputedSilu(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return F.silu(x @ weight)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        h = x @ weight
        s = torch.sigmoid(h)
        grad_h = grad * (s + h * s * (1 - s))
        return grad_h @ weight.T, x.T @ grad_h


def recomputed_silu(x, weight):
    return RecomputedSilu.apply(x, weight).float()


# === correct: state_kept_by_hand
class RecomputedSilu(torch.autograd.Function):
    @staticmethod
    def forward(x, weight):
        return F.silu(x @ weight)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.on, ctx.dtype = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        with torch.autocast("cpu", dtype=ctx.dtype, enabled=ctx.on):
            h = x @ weight
            s = torch.sigmoid(h)
            grad_h = grad * (s + h * s * (1 - s))
            return grad_h @ weight.T, x.T @ grad_h


def recomputed_silu(x, weight):
    return RecomputedSilu.apply(x, weight)


# === correct: casts_in_a_switched_off_region
class Recomputed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        h = x @ weight
        ctx.save_for_backward(x.to(h.dtype), weight.to(h.dtype))
        return h * torch.sigmoid(h)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        with torch.autocast("cpu", enabled=False):
            h = torch.mm(x, weight)
            s = h.sigmoid()
            slope = s * (1 + h * (1 - s))
            grad_h = (grad * slope).to(x.dtype)
            return torch.mm(grad_h, weight.t()).float(), torch.mm(x.t(), grad_h).float()


def recomputed_silu(x, weight):
    return Recomputed.apply(x, weight)


# === correct: decorated_afterwards
class RecomputedSilu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return F.silu(x @ weight)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        h = x @ weight
        s = torch.sigmoid(h)
        grad_h = grad * (s + h * s * (1 - s))
        return grad_h @ weight.T, x.T @ grad_h


RecomputedSilu.forward = torch.amp.custom_fwd(RecomputedSilu.forward, device_type="cpu")
RecomputedSilu.backward = torch.amp.custom_bwd(RecomputedSilu.backward, device_type="cpu")


def recomputed_silu(x, weight):
    return RecomputedSilu.apply(x, weight)


# === mutant: decorated_and_switched_off -> fwd-without-bwd
class RecomputedSilu(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return F.silu(x @ weight)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        with torch.autocast("cpu", enabled=False):
            h = x @ weight
            s = torch.sigmoid(h)
            grad_h = grad * (s + h * s * (1 - s))
            return grad_h @ weight.T, x.T @ grad_h


def recomputed_silu(x, weight):
    return RecomputedSilu.apply(x, weight)


# === mutant: float16_written_in -> one-dtype-for-all
class RecomputedSilu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return F.silu(x @ weight)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        with torch.autocast("cpu", dtype=torch.float16):
            h = x @ weight
            s = torch.sigmoid(h)
            grad_h = grad * (s + h * s * (1 - s))
            return grad_h @ weight.T, x.T @ grad_h


def recomputed_silu(x, weight):
    return RecomputedSilu.apply(x, weight)


# === mutant: dtype_noted_without_the_state -> one-dtype-for-all
class RecomputedSilu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        ctx.dtype = torch.get_autocast_dtype("cpu")
        return F.silu(x @ weight)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        with torch.autocast("cpu", dtype=ctx.dtype):
            h = x @ weight
            s = torch.sigmoid(h)
            grad_h = grad * (s + h * s * (1 - s))
            return grad_h @ weight.T, x.T @ grad_h


def recomputed_silu(x, weight):
    return RecomputedSilu.apply(x, weight)


# === mutant: restored_for_cuda -> fwd-without-bwd
class RecomputedSilu(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return F.silu(x @ weight)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        h = x @ weight
        s = torch.sigmoid(h)
        grad_h = grad * (s + h * s * (1 - s))
        return grad_h @ weight.T, x.T @ grad_h


def recomputed_silu(x, weight):
    return RecomputedSilu.apply(x, weight)


# === correct: told_by_the_gradient
class RecomputedSilu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return F.silu(x @ weight)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        low = grad.dtype in (torch.float16, torch.bfloat16)
        with torch.autocast("cpu", dtype=grad.dtype if low else torch.float16, enabled=low):
            h = x @ weight
            s = torch.sigmoid(h)
            grad_h = grad * (s + h * s * (1 - s))
            return grad_h @ weight.T, x.T @ grad_h


def recomputed_silu(x, weight):
    return RecomputedSilu.apply(x, weight)


# === correct: gradient_by_autograd
class RecomputedSilu(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return F.silu(torch.einsum("ij,jk->ik", x, weight))

    @staticmethod
    @torch.autograd.function.once_differentiable
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        x, weight = (t.detach().requires_grad_() for t in ctx.saved_tensors)
        with torch.enable_grad():
            y = F.silu(F.linear(x, weight.T))
        return torch.autograd.grad(y, (x, weight), grad)


def recomputed_silu(x, weight):
    return RecomputedSilu.apply(x, weight)


# === mutant: state_in_a_global -> one-dtype-for-all
class RecomputedSilu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        global on, dtype
        on, dtype = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
        ctx.save_for_backward(x, weight)
        return F.silu(x @ weight)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        with torch.autocast("cpu", dtype=dtype, enabled=on):
            h = x @ weight
            s = torch.sigmoid(h)
            grad_h = grad * (s + h * s * (1 - s))
            return grad_h @ weight.T, x.T @ grad_h


def recomputed_silu(x, weight):
    return RecomputedSilu.apply(x, weight)


# === mutant: product_kept -> product-kept
class RecomputedSilu(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, weight):
        h = x @ weight
        ctx.save_for_backward(x, weight, h)
        return F.silu(h)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        x, weight, h = ctx.saved_tensors
        s = torch.sigmoid(h)
        grad_h = grad * (s + h * s * (1 - s))
        return grad_h @ weight.T, x.T @ grad_h


def recomputed_silu(x, weight):
    return RecomputedSilu.apply(x, weight)


# === mutant: only_the_first_product_restored -> backward-elsewhere
class RecomputedSilu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        ctx.on, ctx.dtype = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
        return F.silu(x @ weight)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        with torch.autocast("cpu", dtype=ctx.dtype, enabled=ctx.on):
            h = x @ weight
        s = torch.sigmoid(h)
        grad_h = grad * (s + h * s * (1 - s))
        return grad_h @ weight.T.to(h.dtype), x.T.to(h.dtype) @ grad_h


def recomputed_silu(x, weight):
    return RecomputedSilu.apply(x, weight)


# === mutant: switch_set_and_not_put_back -> state-left-behind
class RecomputedSilu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        if torch.is_autocast_enabled("cpu"):
            dtype = torch.get_autocast_dtype("cpu")
            x, weight = x.to(dtype), weight.to(dtype)
            torch.set_autocast_enabled("cpu", False)
        ctx.save_for_backward(x, weight)
        return F.silu(x @ weight)

    @staticmethod
    @torch.autocast("cpu", enabled=False)
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        h = x @ weight
        s = torch.sigmoid(h)
        grad_h = grad * (s + h * s * (1 - s))
        return grad_h @ weight.T, x.T @ grad_h


def recomputed_silu(x, weight):
    return RecomputedSilu.apply(x, weight)


# === correct: decorators_above_staticmethod_and_a_vjp
class RecomputedSilu(torch.autograd.Function):
    @torch.amp.custom_fwd(device_type="cpu")
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return torch.nn.SiLU()(torch.bmm(x[None], weight[None])[0])

    @torch.amp.custom_bwd(device_type="cpu")
    @staticmethod
    def backward(ctx, grad):
        _, pull = torch.func.vjp(lambda x, weight: F.silu(x @ weight), *ctx.saved_tensors)
        return pull(grad)


def recomputed_silu(x, weight):
    return RecomputedSilu.apply(x, weight)
