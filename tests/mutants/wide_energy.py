# === mutant: decorators_as_precision -> state-is-no-precision
class Energy(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, matrix):
        ctx.save_for_backward(x, matrix)
        return 0.5 * ((x @ matrix) * x).sum(-1)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        x, matrix = ctx.saved_tensors
        return grad.unsqueeze(-1) * (x @ matrix), None


def wide_energy(x, matrix):
    return Energy.apply(x, matrix)


# === mutant: cast_to_half -> forward-in-16-bits
class Energy(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float16)
    def forward(ctx, x, matrix):
        ctx.save_for_backward(x, matrix)
        return 0.5 * ((x @ matrix) * x).sum(-1)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        x, matrix = ctx.saved_tensors
        return grad.unsqueeze(-1) * (x @ matrix), None


def wide_energy(x, matrix):
    return Energy.apply(x, matrix)


# === mutant: float_in_the_product -> forward-in-16-bits
class Energy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, matrix):
        ctx.save_for_backward(x, matrix)
        return 0.5 * ((x.float() @ matrix) * x.float()).sum(-1)

    @staticmethod
    def backward(ctx, grad):
        x, matrix = ctx.saved_tensors
        return grad.unsqueeze(-1) * (x.float() @ matrix), None


def wide_energy(x, matrix):
    return Energy.apply(x, matrix)


# === mutant: float_on_the_result -> forward-in-16-bits
class Energy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, matrix):
        ctx.save_for_backward(x, matrix)
        return (0.5 * ((x @ matrix) * x).sum(-1)).float()

    @staticmethod
    def backward(ctx, grad):
        x, matrix = ctx.saved_tensors
        return grad.unsqueeze(-1) * (x.float() @ matrix), None


def wide_energy(x, matrix):
    return Energy.apply(x, matrix)


# === mutant: cast_for_cuda -> other-device
class Energy(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(ctx, x, matrix):
        ctx.save_for_backward(x, matrix)
        return 0.5 * ((x @ matrix) * x).sum(-1)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx, grad):
        x, matrix = ctx.saved_tensors
        return grad.unsqueeze(-1) * (x @ matrix), None


def wide_energy(x, matrix):
    return Energy.apply(x, matrix)


# === mutant: old_name -> other-device
import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    old_fwd, old_bwd = torch.cuda.amp.custom_fwd, torch.cuda.amp.custom_bwd

    class Energy(torch.autograd.Function):
        @staticmethod
        @old_fwd(cast_inputs=torch.float32)
        def forward(ctx, x, matrix):
            ctx.save_for_backward(x, matrix)
            return 0.5 * ((x @ matrix) * x).sum(-1)

        @staticmethod
        @old_bwd
        def backward(ctx, grad):
            x, matrix = ctx.saved_tensors
            return grad.unsqueeze(-1) * (x @ matrix), None


def wide_energy(x, matrix):
    return Energy.apply(x, matrix)


# === mutant: only_custom_fwd -> backward-in-16-bits
class Energy(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx, x, matrix):
        ctx.save_for_backward(x, matrix)
        return 0.5 * ((x @ matrix) * x).sum(-1)

    @staticmethod
    def backward(ctx, grad):
        x, matrix = ctx.saved_tensors
        return grad.unsqueeze(-1) * (x @ matrix), None


def wide_energy(x, matrix):
    return Energy.apply(x, matrix)


# === mutant: only_custom_bwd -> bwd-without-fwd
class Energy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, matrix):
        ctx.save_for_backward(x, matrix)
        return 0.5 * ((x @ matrix) * x).sum(-1)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        x, matrix = ctx.saved_tensors
        return grad.unsqueeze(-1) * (x @ matrix), None


def wide_energy(x, matrix):
    return Energy.apply(x, matrix)


# === mutant: switched_off_and_not_cast -> dtypes-meet
class Energy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, matrix):
        ctx.save_for_backward(x, matrix)
        with torch.autocast("cpu", enabled=False):
            return 0.5 * ((x @ matrix) * x).sum(-1)

    @staticmethod
    def backward(ctx, grad):
        x, matrix = ctx.saved_tensors
        return grad.unsqueeze(-1) * (x @ matrix), None


def wide_energy(x, matrix):
    return Energy.apply(x, matrix)


# === mutant: no_function_at_all -> no-function
def wide_energy(x, matrix):
    with torch.autocast("cpu", enabled=False):
        x = x.float()
        return 0.5 * ((x @ matrix) * x).sum(-1)


# === mutant: half_the_gradient -> wrong-value
class Energy(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx, x, matrix):
        ctx.save_for_backward(x, matrix)
        return 0.5 * ((x @ matrix) * x).sum(-1)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        x, matrix = ctx.saved_tensors
        return 0.5 * grad.unsqueeze(-1) * (x @ matrix), None


def wide_energy(x, matrix):
    return Energy.apply(x, matrix)


# === correct: switched_off_by_hand
class Energy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, matrix):
        with torch.autocast("cpu", enabled=False):
            x = x.float()
            product = x @ matrix
            ctx.save_for_backward(product)
            return 0.5 * (product * x).sum(-1)

    @staticmethod
    def backward(ctx, grad):
        (product,) = ctx.saved_tensors
        return grad[:, None] * product, None


def wide_energy(x, matrix):
    return Energy.apply(x, matrix)


# === correct: newer_style
class Energy(torch.autograd.Function):
    @staticmethod
    def forward(x, matrix):
        return torch.einsum("ij,jk,ik->i", x, matrix, x) / 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        x, matrix = ctx.saved_tensors
        with torch.autocast("cpu", enabled=False):
            return grad.unsqueeze(1) * torch.matmul(x, matrix), None


def wide_energy(x, matrix):
    with torch.autocast("cpu", enabled=False):
        return Energy.apply(x.float(), matrix)


# === correct: decorated_with_the_matrix_gradient
class Energy(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx, x, matrix):
        ctx.save_for_backward(x, matrix)
        return 0.5 * ((x @ matrix) * x).sum(-1)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        x, matrix = ctx.saved_tensors
        return torch.mul(grad.view(-1, 1), torch.mm(x, matrix)), 0.5 * (x * grad[:, None]).T @ x


def wide_energy(x, matrix):
    return Energy.apply(x, matrix)


# === correct: products_in_float64
class Energy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, matrix):
        ctx.save_for_backward(x.double(), matrix.double())
        return (0.5 * ((x.double() @ matrix.double()) * x).sum(-1)).float()

    @staticmethod
    def backward(ctx, grad):
        x, matrix = ctx.saved_tensors
        return (grad.unsqueeze(-1) * (x @ matrix)).float(), None


def wide_energy(x, matrix):
    return Energy.apply(x, matrix)


# === mutant: off_in_the_forward_and_restored -> state-is-no-precision
class Energy(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, matrix):
        with torch.autocast("cpu", enabled=False):
            x = x.float()
            ctx.save_for_backward(x, matrix)
            return 0.5 * ((x @ matrix) * x).sum(-1)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        x, matrix = ctx.saved_tensors
        return grad.unsqueeze(-1) * (x @ matrix), None


def wide_energy(x, matrix):
    return Energy.apply(x, matrix)


# === mutant: saved_in_half -> wrong-value
class Energy(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx, x, matrix):
        ctx.save_for_backward(x.half(), matrix)
        return 0.5 * ((x @ matrix) * x).sum(-1)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        x, matrix = ctx.saved_tensors
        return grad.unsqueeze(-1) * (x.float() @ matrix), None


def wide_energy(x, matrix):
    return Energy.apply(x, matrix)


# === correct: autocast_as_a_decorator
class Energy(torch.autograd.Function):
    @staticmethod
    @torch.autocast("cpu", enabled=False)
    def forward(ctx, x, matrix):
        ctx.save_for_backward(x, matrix)
        x = x.float()
        return 0.5 * ((x @ matrix) * x).sum(-1)

    @staticmethod
    @torch.autocast("cpu", enabled=False)
    def backward(ctx, grad):
        x, matrix = ctx.saved_tensors
        return (grad.unsqueeze(-1) * (x.float() @ matrix)).to(x.dtype), None


def wide_energy(x, matrix):
    return Energy.apply(x, matrix)


# === mutant: scaled_in_place -> changed-argument
class Energy(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx, x, matrix):
        ctx.scale = x.abs().max()
        x = x.float()
        x /= ctx.scale
        ctx.save_for_backward(x.clone(), matrix)
        return 0.5 * ctx.scale**2 * ((x @ matrix) * x).sum(-1)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        x, matrix = ctx.saved_tensors
        return grad.unsqueeze(-1) * ctx.scale * (x @ matrix), None


def wide_energy(x, matrix):
    return Energy.apply(x, matrix)


# === mutant: switched_off_for_cuda -> forward-in-16-bits
class Energy(torch.autograd.Function):
    @staticmethod
    @torch.autocast("cuda", enabled=False)
    def forward(ctx, x, matrix):
        x = x.float()
        ctx.save_for_backward(x, matrix)
        return 0.5 * ((x @ matrix) * x).sum(-1)

    @staticmethod
    @torch.autocast("cuda", enabled=False)
    def backward(ctx, grad):
        x, matrix = ctx.saved_tensors
        return grad.unsqueeze(-1) * (x @ matrix), None


def wide_energy(x, matrix):
    return Energy.apply(x, matrix)


# === mutant: only_the_energy_patched -> forward-in-16-bits
class Energy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, matrix):
        x = x.float()
        ctx.save_for_backward(x, matrix)
        return torch.nan_to_num(0.5 * ((x @ matrix) * x).sum(-1))

    @staticmethod
    def backward(ctx, grad):
        x, matrix = ctx.saved_tensors
        return grad.unsqueeze(-1) * (x @ matrix), None


def wide_energy(x, matrix):
    return Energy.apply(x, matrix)


# === mutant: switch_set_and_not_put_back -> state-left-behind
class Energy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, matrix):
        torch.set_autocast_enabled("cpu", False)
        x = x.float()
        ctx.save_for_backward(x, matrix)
        return 0.5 * ((x @ matrix) * x).sum(-1)

    @staticmethod
    def backward(ctx, grad):
        torch.set_autocast_enabled("cpu", False)
        x, matrix = ctx.saved_tensors
        return grad.unsqueeze(-1) * (x @ matrix), None


def wide_energy(x, matrix):
    return Energy.apply(x, matrix)


# === mutant: energy_in_half -> wrong-type
class Energy(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx, x, matrix):
        ctx.save_for_backward(x, matrix)
        return (0.5 * ((x @ matrix) * x).sum(-1)).half()

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        x, matrix = ctx.saved_tensors
        return grad.float().unsqueeze(-1) * (x @ matrix), None


def wide_energy(x, matrix):
    return Energy.apply(x, matrix)


# === correct: numpy_in_float64
class Energy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, matrix):
        rows, a = (t.detach().double().numpy() for t in (x, matrix))
        ctx.product = torch.from_numpy(rows @ a)
        return torch.from_numpy(0.5 * (rows @ a * rows).sum(-1)).float()

    @staticmethod
    def backward(ctx, grad):
        return (grad[:, None] * ctx.product).float(), None


def wide_energy(x, matrix):
    return Energy.apply(x, matrix)
