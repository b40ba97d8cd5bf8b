# %% statement points=3 minutes=15
# # Case 9: a scale that sinks
#
# An encoder learns which `z` belongs to which `x`. Each pair of a batch gets a score: the product
# of the two embeddings, divided by a temperature. The right pairs are on the diagonal. The
# embeddings are large, and so is the temperature.

# %% demo
def matched(encoder, optimizer, scaler, batches, temperature):
    losses = []
    for x, z in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            scores = (encoder(x) @ encoder(z).T) / temperature
            loss = cross_entropy(scores, torch.arange(len(x)))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


def pairs(count):
    random = torch.Generator().manual_seed(0)
    xs = [300 * torch.randn(8, 6, generator=random) for _ in range(count)]
    return [(x, x + 90 * torch.randn(8, 6, generator=random)) for x in xs]


torch.manual_seed(0)
encoder, its_scaler = nn.Linear(6, 16), scaler()
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.02)
print(matched(encoder, optimizer, its_scaler, pairs(8), 2e5), "scale", its_scaler.get_scale())

# %% text
# Fix it. Call your version `fix_similarity` and keep the arguments. Return the list of losses, as
# numbers or as tensors with one element. The program has to run on a GPU without BF16, so no part
# of it may use BF16. Autocast stays in FP16, and the encoder's matrix products run in FP16.

# %% answer
def fix_similarity(encoder, optimizer, scaler, batches, temperature):
    """Train on each batch of pairs once, in FP16 with the scaler; return the losses."""
    ### BEGIN SOLUTION
    losses = []
    for x, z in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            scores = (encoder(x) / temperature) @ encoder(z).T
            loss = cross_entropy(scores, torch.arange(len(x)))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses
    ### END SOLUTION

# %% hints
# - Is the loss finite before it is scaled? Which operation gives the first inf?
# - The score is a product of two large numbers, divided by a third. Which order would you choose?
# - Under autocast, `a.float() @ b.float().T` is cast to FP16 again. How can you switch that off?

# %% probe
from amp_lessons.exercises.clinic import harness_losses as harness

probe = Probe(harness.similarity_cases, harness.play_similarity)

# %% judge
judge = Judge(same=within(1e-2), pairs=False, asked_for="a list of losses")

# %% passed
# If the scale sinks to nothing, look for the first inf of the forward pass. Here, divide first.

# %% right wide
def fix_similarity(encoder, optimizer, scaler, batches, temperature):
    losses = []
    for x, z in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            a, b = encoder(x), encoder(z)
            with torch.autocast("cpu", enabled=False):
                scores = (a.float() @ b.float().T) / temperature
            loss = cross_entropy(scores, torch.arange(len(x)))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses

# %% right after_the_region
def fix_similarity(encoder, optimizer, scaler, batches, temperature):
    losses = []
    for x, z in batches:
        with torch.autocast("cpu", dtype=torch.float16):
            both = encoder(torch.cat([x, z]))
        a, b = both.float().chunk(2)
        scores = torch.einsum("ik,jk->ij", a, b) / temperature
        loss = -log_softmax(scores, dim=1).diagonal().mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.detach())
    return losses

# %% rule losses-not-returned
# Your function returned no losses. Put that of each batch into a list, and return it.
breaks = harness.no_losses
drop("return losses")
swap("return losses", "print(losses)")

# %% rule another-precision
# {found} The scores may be in FP16 or in FP32.
def breaks(seen, right):
    if noted(seen, "operations in BF16") not in (None, "none"):
        return {"found": "Your program uses BF16, but it has to run on a GPU without BF16."}
    if "float32" in (noted(seen, "dtype from the encoder") or ""):
        return {"found": "The encoder runs in FP32. Keep it in the FP16 region."}
of("wide", swap("a.float() @ b.float().T", "(a.bfloat16() @ b.bfloat16().T).float()"))

# %% wrong overflow-before-the-division
# The product of two embeddings goes beyond 65504 before anything divides it, and inf stays inf.
# Divide before you multiply, or multiply in FP32 with autocast switched off.
swap("(encoder(x) / temperature) @ encoder(z).T", "(encoder(x) @ encoder(z).T) / temperature")
of("wide", swap("a.float() @ b.float().T", "(a @ b.T).float()"))

# %% wrong scores-clamped
# You cut the products off at 65504, so all large scores are equal. Divide before you multiply.
of("wide", swap("a.float() @ b.float().T", "(a @ b.T).clamp(-65504, 65504)"))
of("wide", swap("a.float() @ b.float().T", "(a @ b.T).nan_to_num()"))

# %% wrong one-side-detached
# Only one of the two embeddings gets a gradient. Don't detach either of them.
swap("encoder(z).T", "encoder(z).detach().T")
of("wide", swap("b.float().T", "b.data.float().T"))

# %% wrong scores-near-zero
# Your scores are almost 0, so all pairs look alike. You divide by the temperature twice, or you
# normalise the embeddings as well. Divide the product once.
swap("encoder(z).T", "(encoder(z) / temperature).T")
of("wide", swap(") / temperature", ") / temperature / temperature"))

# %% wrong temperature-forgotten
# You don't divide the scores by the temperature, so they are far too large.
of("wide", swap(" / temperature", ""))
of("wide", swap(" / temperature", " / 1"))

# %% wrong embeddings-normalised
# You normalise the embeddings, so the scores are cosines. Divide their product by the temperature.
of("wide", swap(" / temperature", "") &
    put("a, b = (nn.functional.normalize(t.float()) for t in (a, b))", after="a, b ="))
of("wide", swap("(a.float() @ b.float().T) / temperature",
    "torch.cosine_similarity(a.float()[:, None], b.float(), dim=2)"))

# %% wrong nan-stepped
# The scores overflow, and without the scaler NaN goes into the weights. Keep it, and divide first.
(swap("(encoder(x) / temperature) @ encoder(z).T", "(encoder(x) @ encoder(z).T) / temperature") &
    swap("scaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()",
    "loss.backward()\noptimizer.step()"))
of("wide", unwrap('with torch.autocast("cpu", enabled=False)') &
    put("scaler = torch.amp.GradScaler('cpu', enabled=False)", before="for x, z"))
