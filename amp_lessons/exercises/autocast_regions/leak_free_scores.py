# %% statement points=2 minutes=10
# # A region that leaks
#
# This function leaks: 16-bit features leave the region, and meet the head's float32 weights.

# %% demo
def leaking_scores(backbone, head, x, dtype):
    with torch.autocast("cpu", dtype=dtype):
        features = backbone(x)
    return head(features)


try:
    leaking_scores(Linear(4, 8), Linear(8, 3), torch.ones(2, 4), torch.bfloat16)
except RuntimeError as error:
    print("RuntimeError:", error)

# %% text
# Write `leak_free_scores(backbone, head, x, dtype)`:
#
# - The backbone runs under autocast in `dtype`, which is bfloat16 or float16.
# - The head runs in float32, with autocast off, and the scores are float32.
# - Gradients of the scores reach the backbone, and both modules stay as they are.
#
# `x` is float32, and no region is open around the call.

# %% answer
def leak_free_scores(backbone, head, x, dtype):
    """Return float32 scores of shape (batch, classes): backbone in 16 bits, head in float32."""
    ### BEGIN SOLUTION
    with torch.autocast("cpu", dtype=dtype):
        features = backbone(x)
    return head(features.float())
    ### END SOLUTION

# %% hints
# - Print `features.dtype`. What does the head expect?
# - Inside the region autocast would cast the features for the head. Outside, you have to do it.
# - Cast the features to float32 where they leave the region.

# %% probe
from amp_lessons.exercises.autocast_regions import harness

probe = Probe(harness.score_cases, play=harness.scoring)

# %% judge
judge = Judge(same=within(1e-5), asked_for="a float32 tensor", tell=harness.telling(within(1e-5)))

# %% passed
# What leaves a region keeps its 16-bit dtype. Cast it at the border: gradients go back across.

# %% right disabled_subregion
def leak_free_scores(backbone, head, x, dtype):
    with torch.autocast("cpu", dtype=dtype):
        features = backbone(x)
        with torch.autocast("cpu", enabled=False):
            return head(features.to(torch.float32))

# %% right cast_before_it_leaves
def leak_free_scores(backbone, head, x, dtype):
    @torch.autocast("cpu", dtype=dtype, cache_enabled=False)
    def features():
        return backbone(x).type(torch.float32)

    return head(features())

# %% rule module-cast
# You cast a module, so its parameters are not float32 any more. Cast what crosses the border.
breaks = harness.differs("dtype of the parameters")
swap("head(features.float())", "head.to(features.dtype)(features).float()")
swap("head(features.float())", "head.double()(features.double()).float()")
unwrap("with torch.autocast") & swap("backbone(x)", "backbone.to(dtype)(x.to(dtype))")

# %% rule not-run
# The backbone or the head never ran. Call both: the backbone on `x`, and the head on its features.
def breaks(seen, right):
    parts = "autocast in the backbone", "autocast in the head"
    return any(harness.among(part, "run")(seen, right) for part in parts)
swap("return head(features.float())", "return features.float()")

# %% rule backbone-in-float32
# The backbone ran with autocast off. A CPU region around it casts its input and its weights.
breaks = harness.among("autocast in the backbone", "off")
unwrap("with torch.autocast")
unwrap("with torch.autocast") & swap("backbone(x)", "backbone(x.to(dtype))")

# %% rule head-in-region
# The head ran inside the region, so its matrix product was computed in 16 bits. Casting the scores
# to float32 afterwards doesn't bring the digits back. Call the head outside.
breaks = harness.among("autocast in the head", "on")
move("return head", after="features =")
move("return head", after="features =") & swap("head(features.float())", "head(features).float()")

# %% rule still-leaks
# The head took 16-bit features and should run in float32. Cast them where they leave the region.
breaks = harness.among("dtype that the head took", "float16", "bfloat16")
swap("features.float()", "features")
swap("head(features.float())", "head(features).float()")

# %% rule not-float32
# Your scores are {got}, and should be float32: return what the head gives.
breaks = harness.differs("dtype of the scores")
swap("head(features.float())", "head(features.float()).to(dtype)")

# %% rule graph-cut
# No gradient of the scores reaches the backbone: `.detach()`, `.data` and `no_grad` cut the graph.
breaks = harness.differs("gradient for the backbone")
swap("features.float()", "features.data.to(torch.float32)")
swap("with torch.autocast", "with torch.no_grad(), torch.autocast")

# %% rule other-dtype
# In the backbone autocast was {got}, and should be {wanted}. Pass `dtype` on to the region.
breaks = harness.differs("autocast in the backbone")
swap("dtype=dtype", "dtype=torch.bfloat16")
swap(", dtype=dtype", "")

# %% rule region-left-open
breaks = harness.differs("autocast after the call")
(unwrap("with torch.autocast") & put('torch.autocast("cpu", dtype=dtype).__enter__()',
    before="features =") & wrap('with torch.autocast("cpu", enabled=False):', "return head"))

# %% rule mode-changed
# You changed a module's mode with `train()` or `eval()`. A dtype needs neither.
breaks = harness.differs("mode of the modules")
put("head.train()", before="with")

# %% wrong softmax-added
# You returned probabilities or their logarithms. Return what the head gives: no softmax.
swap("head(features.float())", "head(features.float()).softmax(-1)")
of("cast_before_it_leaves", swap("head(features())", "nn.functional.softmax(head(features()), 1)"))
swap("head(features.float())", "head(features.float()).log_softmax(-1)")

# %% wrong returned-none
swap("return head", "head")

# %% wrong wrong-type
swap("head(features.float())", "head(features.float()).tolist()")
