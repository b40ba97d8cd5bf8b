# === mutant: as_given -> recomputed-outside
def mend_recompute(blocks, head, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        hidden = x.clone().requires_grad_()
        with torch.autocast("cpu", dtype=torch.float16):
            for block in blocks:
                hidden = Recompute.apply(block, hidden)
            with torch.autocast("cpu", enabled=False):
                loss = loss_fn(head(hidden.float()), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === mutant: cast_to_silence_it -> recomputed-in-float32
class Again(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block, x):
        ctx.block = block
        ctx.save_for_backward(x)
        return block(x)

    @staticmethod
    def backward(ctx, gradient):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            output = ctx.block(x.float())
        torch.autograd.backward(output, gradient)
        return None, x.grad


def mend_recompute(blocks, head, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        hidden = x.clone().requires_grad_()
        with torch.autocast("cpu", dtype=torch.float16):
            for block in blocks:
                hidden = Again.apply(block, hidden)
            with torch.autocast("cpu", enabled=False):
                loss = loss_fn(head(hidden.float()), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === mutant: default_dtype -> recomputed-in-bfloat16
class Again(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block, x):
        ctx.block = block
        ctx.save_for_backward(x)
        return block(x)

    @staticmethod
    def backward(ctx, gradient):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad(), torch.autocast("cpu"):
            output = ctx.block(x)
        torch.autograd.backward(output, gradient)
        return None, x.grad


def mend_recompute(blocks, head, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        hidden = x.clone().requires_grad_()
        with torch.autocast("cpu", dtype=torch.float16):
            for block in blocks:
                hidden = Again.apply(block, hidden)
            with torch.autocast("cpu", enabled=False):
                loss = loss_fn(head(hidden.float()), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === mutant: backward_wrapped -> backward-in-the-region
def mend_recompute(blocks, head, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        hidden = x.clone().requires_grad_()
        with torch.autocast("cpu", dtype=torch.float16):
            for block in blocks:
                hidden = Recompute.apply(block, hidden)
            with torch.autocast("cpu", enabled=False):
                loss = loss_fn(head(hidden.float()), y)
        with torch.autocast("cpu", dtype=torch.float16):
            scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === mutant: no_checkpoint -> checkpoint-removed
def mend_recompute(blocks, head, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        hidden = x.clone().requires_grad_()
        with torch.autocast("cpu", dtype=torch.float16):
            for block in blocks:
                hidden = block(hidden)
            with torch.autocast("cpu", enabled=False):
                loss = loss_fn(head(hidden.float()), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === mutant: head_under_autocast -> head-in-the-region
def mend_recompute(blocks, head, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        hidden = x.clone().requires_grad_()
        with torch.autocast("cpu", dtype=torch.float16):
            for block in blocks:
                hidden = checkpoint(block, hidden, use_reentrant=False)
            loss = loss_fn(head(hidden), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === mutant: kept_in_other_memory -> checkpoint-removed
def mend_recompute(blocks, head, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        hidden = x
        with torch.autograd.graph.save_on_cpu(), torch.autocast("cpu", dtype=torch.float16):
            for block in blocks:
                hidden = block(hidden)
        loss = loss_fn(head(hidden.float()), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === mutant: reentrant_and_a_batch_without_gradient -> blocks-untrained
def mend_recompute(blocks, head, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        hidden = x
        with torch.autocast("cpu", dtype=torch.float16):
            for block in blocks:
                hidden = checkpoint(block, hidden, use_reentrant=True)
            with torch.autocast("cpu", enabled=False):
                loss = loss_fn(head(hidden.float()), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === mutant: blocks_without_gradients -> blocks-untrained
def mend_recompute(blocks, head, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        hidden = x
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
            for block in blocks:
                hidden = block(hidden)
        loss = loss_fn(head(hidden.float()), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === mutant: first_block_only -> checkpoint-removed
def mend_recompute(blocks, head, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        hidden = x
        with torch.autocast("cpu", dtype=torch.float16):
            hidden = checkpoint(blocks[0], hidden, use_reentrant=False)
            for block in blocks[1:]:
                hidden = block(hidden)
            with torch.autocast("cpu", enabled=False):
                loss = loss_fn(head(hidden.float()), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === correct: function_with_its_region
class Again(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block, x):
        ctx.block = block
        ctx.save_for_backward(x)
        return block(x)

    @staticmethod
    def backward(ctx, gradient):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad(), torch.autocast("cpu", dtype=torch.float16):
            output = ctx.block(x)
        torch.autograd.backward(output, gradient)
        return None, x.grad


def mend_recompute(blocks, head, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        hidden = x.clone().requires_grad_()
        with torch.autocast("cpu", dtype=torch.float16):
            for block in blocks:
                hidden = Again.apply(block, hidden)
            with torch.autocast("cpu", enabled=False):
                loss = loss_fn(head(hidden.float()), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === correct: reentrant
def mend_recompute(blocks, head, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        hidden = x.clone().requires_grad_()
        with torch.autocast("cpu", dtype=torch.float16):
            for block in blocks:
                hidden = checkpoint(block, hidden, use_reentrant=True)
            with torch.autocast("cpu", enabled=False):
                loss = loss_fn(head(hidden.float()), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === correct: all_blocks_in_one
def mend_recompute(blocks, head, optimizer, scaler, loss_fn, batches):
    def body(x):
        for block in blocks:
            x = block(x)
        return x

    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            hidden = checkpoint(body, x, use_reentrant=False)
        loss = loss_fn(head(hidden.float()), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === correct: region_remembered_and_restored
class Again(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, block, x):
        ctx.block = block
        ctx.save_for_backward(x)
        return block(x)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, gradient):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            output = ctx.block(x)
        torch.autograd.backward(output, gradient)
        return None, x.grad


def mend_recompute(blocks, head, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        hidden = x.clone().requires_grad_()
        with torch.autocast("cpu", dtype=torch.float16):
            for block in blocks:
                hidden = Again.apply(block, hidden)
            with torch.autocast("cpu", enabled=False):
                loss = loss_fn(head(hidden.float()), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === correct: torchs_own_loop_over_blocks
def mend_recompute(blocks, head, optimizer, scaler, loss_fn, batches):
    from torch.utils.checkpoint import checkpoint_sequential

    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            hidden = checkpoint_sequential(blocks, len(blocks), x, use_reentrant=False)
            with torch.autocast("cpu", enabled=False):
                loss = loss_fn(head(hidden.float()), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === correct: region_inside_the_checkpoint
def run(block, x):
    with torch.autocast("cpu", dtype=torch.float16):
        return block(x)


def mend_recompute(blocks, head, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        hidden = x
        for block in blocks:
            hidden = checkpoint(run, block, hidden, use_reentrant=False)
        loss = loss_fn(head(hidden.float()), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === correct: block_that_opens_its_region
def mend_recompute(blocks, head, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        hidden = x.clone().requires_grad_()
        for block in blocks:
            hidden = Recompute.apply(torch.autocast("cpu", dtype=torch.float16)(block), hidden)
        loss = loss_fn(head(hidden.float()), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === correct: parameters_as_inputs
class Again(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block, x, *ps):
        ctx.block = block
        ctx.save_for_backward(x)
        return block(x)

    @staticmethod
    def backward(ctx, gradient):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        ps = list(ctx.block.parameters())
        with torch.enable_grad(), torch.autocast("cpu", dtype=torch.float16):
            output = ctx.block(x)
        return None, *torch.autograd.grad(output, [x, *ps], gradient)


def mend_recompute(blocks, head, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        hidden = x
        with torch.autocast("cpu", dtype=torch.float16):
            for block in blocks:
                hidden = Again.apply(block, hidden, *block.parameters())
            with torch.autocast("cpu", enabled=False):
                loss = loss_fn(head(hidden.float()), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === correct: head_in_the_checkpoint_too
def mend_recompute(blocks, head, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()

        def body(h):
            for block in blocks:
                h = block(h)
            with torch.autocast("cpu", enabled=False):
                return head(h.float())

        with torch.autocast("cpu", dtype=torch.float16):
            out = checkpoint(body, x, use_reentrant=False)
        loss = loss_fn(out, y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === correct: reentrant_with_a_dummy
def mend_recompute(blocks, head, optimizer, scaler, loss_fn, batches):
    dummy = torch.zeros((), requires_grad=True)
    for x, y in batches:
        optimizer.zero_grad()
        hidden = x
        with torch.autocast("cpu", dtype=torch.float16):
            for block in blocks:
                hidden = checkpoint(lambda h, _, b=block: b(h), hidden, dummy, use_reentrant=True)
            with torch.autocast("cpu", enabled=False):
                loss = loss_fn(head(hidden.float()), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
