# %% statement points=3 minutes=20
# # The loss in pieces
#
# Write `chunked_loss(hidden, head, targets, pieces)`. It ends the step of a language model: the
# last layer, the mean cross-entropy, and the backward pass. The logits of all tokens together don't
# fit into memory.
#
# - `hidden` (tokens, width) is what the model's body put out: BF16, with its graph. `head` (words,
#   width) is an FP32 parameter. The logits are `hidden @ head.T`, computed in BF16.
# - Take the tokens in `pieces` pieces, at most as many as tokens. The last piece may be smaller.
#   Only the logits of one piece, and of the one before it, may be alive.
# - `targets` (tokens,) holds the word of each token. Ignore those that are -100, as `cross_entropy`
#   does. At least one is real, but a piece may have none.
# - Compute the loss from logits in FP32. It is the mean over all real tokens.
# - Afterwards `head.grad` and the gradients of the body's parameters are those of this mean. Add to
#   what `head.grad` may hold already, in FP32. The backward pass goes through the body once.
#
# Return the loss, as a float or as a tensor with one element.

# %% answer
def chunked_loss(hidden, head, targets, pieces):
    """The mean loss of all real tokens; its gradients are in head.grad and in the body."""
    ### BEGIN SOLUTION
    real = (targets != -100).sum()
    leaf = hidden.detach().requires_grad_()
    total = 0.0
    for h, t in zip(leaf.chunk(pieces), targets.chunk(pieces), strict=True):
        logits = h @ head.to(h.dtype).T
        loss = cross_entropy(logits.float(), t, reduction="sum") / real
        loss.backward()
        total += loss.item()
    hidden.backward(leaf.grad)
    return total
    ### END SOLUTION

# %% hints
# - When does autograd let go of a piece's logits? What must come before the next piece?
# - By which number do you divide the sum of a piece's losses, so that the sums add up to the mean?
# - If you call `backward()` for each piece, it shouldn't go on into the body each time. Let it end
#   at a detached copy of `hidden`, and go through the body at the end, with the copy's gradient.

# %% probe
from amp_lessons.exercises.memory.harness_pieces import piece_cases, play_pieces

own = ("torch.nn.functional:linear_cross_entropy",)
probe = Probe(piece_cases, play=play_pieces, own=own)

# %% judge
from amp_lessons.exercises.memory.harness_pieces import same_step

judge = Judge(same=same_step, asked_for="a number")

# %% passed
# You traded one large product for several small ones. The loss and the gradients are the same, and
# only one piece's logits need memory.

# %% right gradients_by_hand
@torch.no_grad()
def chunked_loss(hidden, head, targets, pieces):
    low = head.to(hidden.dtype)
    real = targets != -100
    for_hidden, for_head = torch.empty_like(hidden), torch.zeros_like(head)
    total = torch.zeros(())
    size = -(-len(hidden) // pieces)
    for start in range(0, len(hidden), size):
        piece = slice(start, start + size)
        logits = (hidden[piece] @ low.T).float()
        rows, words = torch.arange(len(logits)), targets[piece].clamp(min=0)
        log_z = logits.logsumexp(1)
        total += ((log_z - logits[rows, words]) * real[piece]).sum()
        grad = (logits - log_z[:, None]).exp_()
        grad[rows, words] -= 1
        grad *= real[piece, None] / real.sum()
        grad = grad.to(hidden.dtype)
        for_hidden[piece] = grad @ low
        for_head += grad.T @ hidden[piece]
    head.grad = for_head if head.grad is None else head.grad + for_head
    hidden.backward(for_hidden)
    return total / real.sum()

# %% right computed_again
def chunked_loss(hidden, head, targets, pieces):
    from torch.utils.checkpoint import checkpoint

    def of_piece(h, t):
        with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
            logits = h @ head.T
        return cross_entropy(logits.float(), t, reduction="sum")

    parts = zip(hidden.tensor_split(pieces), targets.tensor_split(pieces), strict=True)
    losses = [checkpoint(of_piece, h, t, use_reentrant=False) for h, t in parts]
    loss = sum(losses) / targets.ne(-100).sum()
    loss.backward()
    return loss

# %% right gradients_in_the_forward
class Pieces(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, head, targets, pieces):
        size = -(-len(hidden) // pieces)
        total, grads, for_head = 0.0, [], torch.zeros_like(head)
        real = max(int((targets >= 0).sum()), 1)
        for h, t in zip(hidden.split(size), targets.split(size), strict=True):
            with torch.enable_grad():
                h, w = h.detach().requires_grad_(), head.detach().requires_grad_()
                loss = cross_entropy((h @ w.bfloat16().T).float(), t, reduction="sum") / real
                for_h, for_w = torch.autograd.grad(loss, (h, w))
            grads.append(for_h)
            for_head += for_w
            total += loss.detach()
        ctx.save_for_backward(torch.cat(grads), for_head)
        return total

    @staticmethod
    def backward(ctx, grad):
        for_hidden, for_head = ctx.saved_tensors
        return grad * for_hidden, grad * for_head, None, None

def chunked_loss(hidden, head, targets, pieces):
    loss = Pieces.apply(hidden, head, targets, pieces)
    loss.backward()
    return loss.detach()

# %% right means_weighted
def chunked_loss(hidden, head, targets, pieces):
    real = targets.ne(-100)
    below, total = hidden.detach(), 0.0
    below.requires_grad = True
    size = (len(hidden) + pieces - 1) // pieces
    for number in range(pieces):
        part = slice(number * size, (number + 1) * size)
        share = real[part].sum() / real.sum()
        if share > 0:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = share * cross_entropy(F.linear(below[part], head), targets[part])
            loss.backward()
            total += float(loss)
    torch.autograd.backward(hidden, below.grad)
    return total

# %% rule through-the-body-again
# The second `backward()` raises, because each one goes on into the body, whose graph is freed by
# then. Let them end at `hidden.detach().requires_grad_()`, and call `hidden.backward(...)` once.
def breaks(seen, right):
    message = str(seen.get("error", {}).get("message"))
    return "backward through the graph a second time" in message
swap("hidden.detach().requires_grad_()", "hidden") & drop("hidden.backward")
move("hidden.backward(leaf.grad)", before="total +=")

# %% rule all-alive
# The logits of several pieces are alive at once. Compute them piece by piece, and run the backward
# pass of a piece before you begin the next one: until then autograd keeps its FP32 logits.
def breaks(seen, right):
    return noted(seen, "logits alive at once") == "of several pieces"
drop("loss.backward") & swap("loss.item()", "loss") & put("total.backward()", before="hidden.back")
(put("all_logits = leaf @ head.to(leaf.dtype).T", before="for h") & swap("in zip(leaf.chunk",
    "in zip(all_logits.chunk") & swap("logits = h @ head.to(h.dtype).T", "logits = h") &
    swap("loss.backward()", "loss.backward(retain_graph=True)"))
put("pieces = 1", before="real = ")
put("kept.append(logits)", after="logits = ") & put("kept = []", before="for h")
of("computed_again", swap("checkpoint(of_piece, h, t, use_reentrant=False)", "of_piece(h, t)"))

# %% rule body-each-time
# Your backward pass goes through the whole body {times} times, and that is most of the work of a
# step. Collect the gradient of `hidden` over the pieces, and call `hidden.backward(...)` once.
def breaks(seen, right):
    times = noted(seen, "backward passes through the body") or 0
    return times > 1 and {"times": times}
(swap("hidden.detach().requires_grad_()", "hidden") & drop("hidden.backward") &
    swap("loss.backward()", "loss.backward(retain_graph=True)"))
(drop("hidden.backward") & put("hidden.backward(leaf.grad, retain_graph=True); leaf.grad = None",
    before="total +="))

# %% rule body-not-reached
# The body gets no gradient: `backward()` ends at your detached copy of `hidden`. Pass the copy's
# gradient on, with `hidden.backward(...)`.
def breaks(seen, right):
    return noted(seen, "backward passes through the body") == 0
drop("hidden.backward")
swap("hidden.backward(leaf.grad)", "hidden.grad = leaf.grad")

# %% rule loss-in-16-bits
# The loss is in 16 bits, or a part of it: there a loss of 9.46 is 9.5. Convert the logits of the
# piece with `.float()`, and add up the losses in FP32.
def breaks(seen, right):
    return noted(seen, "the loss is computed in") == "16 bits"
swap("logits.float()", "logits")
of("gradients_by_hand", swap("(hidden[piece] @ low.T).float()", "hidden[piece] @ low.T"))
swap("total = 0.0", "total = hidden.new_zeros(())") & swap("loss.item()", "loss.detach()")

# %% rule added-up-in-16-bits
# The head's gradients of the pieces are added up in BF16, which rounds away what is small beside
# the sum. Keep the sum in FP32. If you cast the head once, don't let its copy collect the gradient.
def breaks(seen, right):
    return noted(seen, "the head's gradients are added up in") == "16 bits"
(put("low = head.detach().to(leaf.dtype).requires_grad_()", before="for h") &
    swap("head.to(h.dtype).T", "low.T") & put("head.grad = low.grad.float()", before="return"))
of("computed_again", put("low = head.to(hidden.dtype)", before="def of") & swap("head.T", "low.T"))

# %% rule head-without-gradient
# `head.grad` is None, so the head isn't trained. Detach `hidden` alone, and use `head` itself.
def breaks(seen, right):
    return noted(seen, "gradient of the head") == "None"
swap("head.to(h.dtype)", "head.detach().to(h.dtype)")
swap("head.to(h.dtype)", "head.data.to(h.dtype)")
of("gradients_by_hand", drop("head.grad ="))

# %% wrong mean-of-means
# You took the mean over each piece, and the mean of those. A token in a piece with few real tokens
# then counts more than others. Divide each piece's sum of losses by all the real tokens.
swap(', reduction="sum") / real', ") / pieces")
of("means_weighted", swap("share * cross", "1 / pieces * cross"))
swap("/ real\n", "/ (t != -100).sum() / pieces\n")

# %% wrong means-added-up
# You added up the means of the pieces, so the loss and its gradients are about as many times too
# large as there are pieces. Divide each piece's sum of losses by the real tokens of all pieces.
swap(', reduction="sum") / real', ")")
swap("/ real\n", "/ (t != -100).sum()\n")
of("means_weighted", swap("share * ", ""))

# %% wrong weighted-by-length
# You weight each piece's mean by all its tokens, and the mean is over its real ones. Add up sums of
# losses, and divide by the real tokens of all pieces.
swap(', reduction="sum") / real', ") * len(t) / len(targets)")
of("means_weighted", swap("share * cross", "len(real[part]) / len(real) * cross") &
    unwrap("if share"))

# %% wrong running-count
# You divide by the real tokens so far. Count those of all pieces before the first backward pass.
(swap("real = (targets != -100).sum()", "real = 0") &
    put("real += (t != -100).sum()", before="logits"))
of("means_weighted", swap("real[part].sum() / real.sum()",
    "real[part].sum() / real[:part.stop].sum()"))
(swap("real = (targets != -100).sum()", "real = 0") & swap("total += loss.item()",
    "total += loss.item() * real") & put("real += (t != -100).sum()", before="logit") &
    swap("return total", "return total / int(real)"))

# %% wrong sum-over-pieces
# You divide the sum of the losses by the number of pieces. For a mean over tokens, divide by the
# number of real tokens.
swap("/ real\n", "/ pieces\n")
of("gradients_in_the_forward", swap("max(int((targets >= 0).sum()), 1)", "pieces"))

# %% wrong ignored-counted
# You divided by the number of all tokens, ignored ones too. Count the targets that aren't -100.
swap("(targets != -100).sum()", "len(targets)")
of("gradients_in_the_forward", swap("int((targets >= 0).sum())", "targets.numel()"))

# %% wrong word-0-ignored
# You don't count the tokens whose target is 0, and that is a word too. Compare with -100.
swap("targets != -100", "targets > 0")
of("gradients_in_the_forward", swap("targets >= 0", "targets > 0"))

# %% wrong nothing-times-zero
# Your loss is NaN. The mean over a piece without a real token is 0/0, and a weight of 0 leaves it
# NaN. Use `reduction="sum"`, or skip such a piece.
swap(', reduction="sum") / real', ") * ((t != -100).sum() / real)")
of("means_weighted", unwrap("if share"))

# %% wrong divided-twice
# Your gradients are too small, since you divide twice. `cross_entropy` divides already unless you
# pass `reduction="sum"`. Then one division by the number of real tokens is all.
swap(', reduction="sum") / real', ") / real")
swap("/ real\n", "/ real / pieces\n")
of("means_weighted", swap("share * cross", "share / pieces * cross"))
swap("hidden.backward(leaf.grad)", "hidden.backward(leaf.grad / real); head.grad /= real")

# %% wrong sum-not-divided
# Your gradients are those of the sum of the losses. Divide before you call `backward()`.
swap("/ real\n", "/ 1\n") & swap("return total", "return total / real")
swap("/ real\n", "/ 1\n")
of("gradients_in_the_forward", swap("max(int((targets >= 0).sum()), 1)", "1"))
(of("gradients_in_the_forward", swap(" / real", "")) & swap("return total", "return total / real"))

# %% wrong last-tokens-dropped
# You leave out the last tokens, where their number isn't a multiple of `pieces`. A size that is
# rounded down leaves a rest. Use `chunk`, or round the size up.
(put("size = len(hidden) // pieces", before="for h") & swap("leaf.chunk(pieces)",
    "leaf.split(size)[:pieces]") & swap("targets.chunk(pieces)", "targets.split(size)[:pieces]"))
of("means_weighted", swap("(len(hidden) + pieces - 1) // pieces", "len(hidden) // pieces"))

# %% wrong loss-of-the-last-piece
# You return the loss of the last piece. Add up the losses of all pieces.
swap("total += loss.item()", "total = loss.item()")
swap("return total", "return loss")
of("means_weighted", swap("total += float(loss)", "total = loss"))

# %% wrong gradient-of-before-lost
# `head.grad` held a gradient already, and it is gone. Add yours to it, as `backward()` does.
put("head.grad = None", before="for h")
of("gradients_by_hand", swap("head.grad = for_head if head.grad is None else head.grad + for_head",
    "head.grad = for_head"))

# %% wrong head-of-the-last-piece
# `head.grad` has the gradient of the last piece alone. Add up those of all pieces.
put("head.grad = None", before="loss.backward()")
of("gradients_by_hand", swap("for_head += grad.T @ hidden[piece]", "for_head = (grad.T @"
    " hidden[piece]).float()") & swap("head.grad + for_head", "for_head"))
of("gradients_by_hand", swap("for_head += grad.T @ hidden[piece]", "for_head = (grad.T @"
    " hidden[piece]).float()"))

# %% wrong body-of-the-last-piece
# The gradient that you pass on to the body is that of the last piece alone, and 0 for the tokens
# before. Collect the gradients of all pieces.
of("gradients_by_hand", swap("for_hidden[piece] =", "for_hidden.zero_()[piece] ="))
put("leaf.grad = None", before="loss.backward()")

# %% wrong ready-made
# %% program torch_has_it
def chunked_loss(hidden, head, targets, pieces):
    from torch.nn import LinearCrossEntropyOptions
    from torch.nn.functional import linear_cross_entropy

    options = LinearCrossEntropyOptions(batch_chunk_size=-(-len(hidden) // pieces))
    loss = linear_cross_entropy(hidden.float(), head, targets, options=options)
    loss.backward()
    return loss
