# === mutant: just_autocast -> nothing-forgotten
def checkpointed(block, x, dtype):
    with torch.autocast("cpu", dtype=dtype):
        return block(x)


# === mutant: offloaded -> wrong-value
def checkpointed(block, x, dtype):
    with torch.autocast("cpu", dtype=dtype), torch.autograd.graph.save_on_cpu():
        return block(x)


# === mutant: old_habit -> reentrant
def checkpointed(block, x, dtype):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autocast("cpu", dtype=dtype):
            return checkpoint(block, x, use_reentrant=True)


# === mutant: function_of_my_own -> recompute-in-fp32
def checkpointed(block, x, dtype):
    class Again(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, *weights):
            ctx.save_for_backward(x)
            ctx.weights = weights
            ctx.state = torch.get_rng_state()
            return block(x)

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            x = x.detach().requires_grad_()
            with torch.random.fork_rng(), torch.enable_grad():
                torch.set_rng_state(ctx.state)
                y = block(x)
            return torch.autograd.grad(y, [x, *ctx.weights], gradient.float())

    with torch.autocast("cpu", dtype=dtype):
        return Again.apply(x, *block.parameters())


# === mutant: no_grad_saves_memory -> no-graph
def checkpointed(block, x, dtype):
    with torch.no_grad(), torch.autocast("cpu", dtype=dtype):
        return block(x)


# === mutant: rng_is_slow -> other-dropout
def checkpointed(block, x, dtype):
    with torch.autocast("cpu", dtype=dtype):
        return checkpoint(block, x, use_reentrant=False, preserve_rng_state=False)


# === mutant: casts_nothing -> no-autocast
def checkpointed(block, x, dtype):
    return checkpoint(block, x, use_reentrant=False)


# === mutant: each_layer -> kept-in-between
def checkpointed(block, x, dtype):
    with torch.autocast("cpu", dtype=dtype):
        for layer in block:
            x = checkpoint(layer, x, use_reentrant=False)
        return x


# === mutant: two_segments -> kept-in-between
def checkpointed(block, x, dtype):
    from torch.utils.checkpoint import checkpoint_sequential

    with torch.autocast("cpu", dtype=dtype):
        return checkpoint_sequential(block, 2, x, use_reentrant=False)


# === mutant: copied_from_the_lesson -> recompute-in-fp32
def checkpointed(block, x, dtype):
    class Recompute(torch.autograd.Function):
        @staticmethod
        def forward(ctx, function, x):
            ctx.function, ctx.x = function, x
            return function(x)

        @staticmethod
        def backward(ctx, gradient):
            x = ctx.x.detach().requires_grad_()
            with torch.enable_grad():
                output = ctx.function(x)
            torch.autograd.backward(output, gradient.to(output.dtype))
            return None, x.grad

    with torch.autocast("cpu", dtype=dtype):
        return Recompute.apply(block, x.requires_grad_())


# === mutant: mended_as_in_the_lesson -> other-dropout
def checkpointed(block, x, dtype):
    class Recompute(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu")
        def forward(ctx, function, x):
            ctx.function, ctx.x = function, x
            return function(x)

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, gradient):
            x = ctx.x.detach().requires_grad_()
            with torch.enable_grad():
                output = ctx.function(x)
            torch.autograd.backward(output, gradient)
            return None, x.grad

    with torch.autocast("cpu", dtype=dtype):
        return Recompute.apply(block, x.requires_grad_())


# === mutant: only_x_is_handed_over -> reentrant
def checkpointed(block, x, dtype):
    class Again(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu")
        def forward(ctx, x):
            ctx.x, ctx.state = x, torch.get_rng_state()
            return block(x)

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, gradient):
            x = ctx.x.detach().requires_grad_()
            with torch.random.fork_rng(), torch.enable_grad():
                torch.set_rng_state(ctx.state)
                y = block(x)
            torch.autograd.backward(y, gradient)
            return x.grad

    with torch.autocast("cpu", dtype=dtype):
        return Again.apply(x)


# === mutant: cast_by_hand -> block-cast
def checkpointed(block, x, dtype):
    block.to(dtype)
    return checkpoint(block, x.to(dtype), use_reentrant=False)


# === mutant: cast_and_autocast -> block-cast
def checkpointed(block, x, dtype):
    with torch.autocast("cpu", dtype=dtype):
        return checkpoint(block.to(dtype), x, use_reentrant=False)


# === mutant: the_same_seed_each_time -> wrong-value
def checkpointed(block, x, dtype):
    def run(x):
        torch.manual_seed(0)
        return block(x)
    with torch.autocast("cpu", dtype=dtype):
        return checkpoint(run, x, use_reentrant=False, preserve_rng_state=False)


# === correct: region_inside
def checkpointed(block, x, dtype):
    @torch.autocast("cpu", dtype=dtype)
    def run(x):
        return block(x)

    return checkpoint(run, x, use_reentrant=False)


# === correct: function_with_custom_fwd
def checkpointed(block, x, dtype):
    class Again(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu")
        def forward(ctx, x, *weights):
            ctx.save_for_backward(x)
            ctx.weights, ctx.state = weights, torch.get_rng_state()
            return block(x)

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, gradient):
            x = ctx.saved_tensors[0].detach().requires_grad_()
            now = torch.get_rng_state()
            torch.set_rng_state(ctx.state)
            with torch.enable_grad():
                y = block(x)
            torch.set_rng_state(now)
            return torch.autograd.grad(y, [x, *ctx.weights], gradient)

    with torch.autocast("cpu", dtype=dtype):
        return Again.apply(x, *block.parameters())


# === correct: in_one_segment
def checkpointed(block, x, dtype):
    from torch.utils.checkpoint import checkpoint_sequential

    with torch.autocast(device_type="cpu", dtype=dtype):
        run = lambda given: checkpoint_sequential(block, 1, given, use_reentrant=False)
        return checkpoint(run, x, use_reentrant=False)


# === correct: reentrant_with_an_input_that_needs_grad
def checkpointed(block, x, dtype):
    x = x if x.requires_grad else x.detach().requires_grad_()
    with torch.autocast("cpu", dtype=dtype):
        return checkpoint(block, x, use_reentrant=True)


# === correct: reentrant_with_a_dummy
def checkpointed(block, x, dtype):
    dummy = torch.ones((), requires_grad=True)
    with torch.autocast("cpu", dtype=dtype):
        return checkpoint(lambda x, _: block(x), x, dummy, use_reentrant=True)


# === correct: regions_by_context_fn
def checkpointed(block, x, dtype):
    region = lambda: torch.autocast("cpu", dtype=dtype)
    return checkpoint(block, x, use_reentrant=False, context_fn=lambda: (region(), region()))
