# %% statement points=3 minutes=15
# # A policy for FSDP2
#
# Write `shard_model(model, mesh)`. It shards a model with FSDP2, in place, so that
#
# - the linear layers take BF16 and multiply by BF16 weights,
# - the norms take FP32 and have FP32 weights: every `nn.LayerNorm` and `nn.RMSNorm`, also inside of
#   other modules,
# - gradients are added up in FP32,
# - the output of the model is FP32,
# - between the steps, every parameter is a shard in FP32, on the ranks of `mesh`.
#
# Use `fully_shard(module, mesh=mesh, mp_policy=MixedPrecisionPolicy(...))`. The check runs forward
# and backward in a group whose other ranks don't exist. It looks at dtypes, not at numbers.

# %% answer
def shard_model(model, mesh):
    """fully_shard the model and its norms, with a policy for each; nothing is returned."""
    ### BEGIN SOLUTION
    low, wide = torch.bfloat16, torch.float32
    norm_policy = MixedPrecisionPolicy(param_dtype=wide, output_dtype=low)
    for module in model.modules():
        if isinstance(module, nn.LayerNorm | nn.RMSNorm):
            fully_shard(module, mesh=mesh, mp_policy=norm_policy)
    policy = MixedPrecisionPolicy(param_dtype=low, reduce_dtype=wide, output_dtype=wide)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    ### END SOLUTION

# %% hints
# - A parameter belongs to the first `fully_shard` that reaches it. Which modules come first: the
#   inner ones or the model?
# - A policy has three dtypes: what the module computes in, what gradients are added up in, and what
#   it hands on.
# - A norm computes in FP32, and it hands on what the next layer takes.

# %% probe
from amp_lessons.exercises.ranks.harness_group import play_shards, shard_cases

probe = Probe(shard_cases, play=play_shards)

# %% judge
NORMS = ("LayerNorm", "RMSNorm")

def words(seen, key):
    return noted(seen, key) or ""

def norms(seen):
    """The dtypes of the norms' weights."""
    return [words(seen, f"all dtypes of {kind} weights") for kind in NORMS]

# %% passed
# FSDP2 casts for modules, not for operations. Your policies do the work of autocast's FP32 list.

# %% right every_layer_sharded
def shard_model(model, mesh):
    low, wide = torch.bfloat16, torch.float32
    for module in list(model.modules()):
        if isinstance(module, nn.Linear):
            fully_shard(module, mesh=mesh, mp_policy=MixedPrecisionPolicy(low, wide, low))
        elif "Norm" in type(module).__name__:
            fully_shard(module, mesh=mesh, mp_policy=MixedPrecisionPolicy(wide, wide, low))
    root = MixedPrecisionPolicy(low, wide, output_dtype=wide, cast_forward_inputs=False)
    fully_shard(model, mesh=mesh, mp_policy=root)

# %% rule model-cast
# You cast the model, so its shards have 16 bits, and small updates are lost. Leave it in FP32.
def breaks(seen, right):
    return "16" in words(seen, "parameters between the steps")
put("model.bfloat16()", before="norm_policy")
of("every_layer_sharded", put("model.to(torch.bfloat16)", after="low, wide"))

# %% rule mesh-forgotten
# You share parameters between 4 ranks, and the mesh has 2. Pass `mesh=mesh` to each `fully_shard`.
def breaks(seen, right):
    return "4" in words(seen, "ranks that share a parameter")
swap(", mesh=mesh", "", nth=0)
swap("fully_shard(model, mesh=mesh, ", "fully_shard(model, ")

# %% rule root-not-sharded
# Only {count} parameters are sharded. Call `fully_shard` on the model too, after the inner modules.
def breaks(seen, right):
    count, wanted = (noted(one, "parameters that are sharded") for one in (seen, right))
    return count is not None and count < wanted and {"count": f"{count} of {wanted}"}
drop("fully_shard(model")
of("every_layer_sharded", drop("elif") & drop("fully_shard(model"))

# %% rule layers-not-in-bf16
# Your linear layers have {dtype} weights. Give them a policy with `param_dtype=torch.bfloat16`.
def breaks(seen, right):
    dtype = noted(seen, "all dtypes of Linear weights")
    return dtype not in (None, "bfloat16") and {"dtype": dtype}
swap("fully_shard(model, mesh=mesh, mp_policy=policy)", "fully_shard(model, mesh=mesh)")
swap("param_dtype=low", "param_dtype=torch.float16")

# %% rule norm-output-not-cast-back
# Your norms hand FP32 on. A linear layer with BF16 weights then gets FP32 inputs, and it may raise
# an error. Let each norm cast back: `output_dtype=torch.bfloat16` in its policy.
def breaks(seen, right):
    inputs = words(seen, "all dtypes of Linear inputs")
    return inputs == "bfloat16, float32" and "float32" in norms(seen)
swap(", output_dtype=low", "")
swap("output_dtype=low", "output_dtype=wide")

# %% rule reduced-in-bf16
# Gradients are added up in BF16, and small ones get lost. Pass `reduce_dtype=torch.float32`.
def breaks(seen, right):
    return "bfloat16" in words(seen, "dtypes of gradients that are added up")
swap("reduce_dtype=wide, ", "")
of("every_layer_sharded", swap("(low, wide, low)", "(low, output_dtype=low)"))

# %% rule one-kind-of-norm
# Your {kind} modules run in BF16. `nn.RMSNorm` is no subclass of `nn.LayerNorm`, so name both.
def breaks(seen, right):
    low = [kind for kind in NORMS if noted(seen, f"all dtypes of {kind} weights") == "bfloat16"]
    return "float32" in norms(seen) and len(low) == 1 and {"kind": low[0]}
swap("nn.LayerNorm | nn.RMSNorm", "nn.LayerNorm")
of("every_layer_sharded", swap('"Norm" in', '"LayerNorm" in'))

# %% rule nested-norms
# Only some of your norms run in FP32. `model.children()` misses inner ones: use `model.modules()`.
def breaks(seen, right):
    return "bfloat16, float32" in norms(seen)
swap("model.modules()", "model.children()")
of("every_layer_sharded", swap("model.modules()", "model.children()"))

# %% rule norms-in-bf16
# Your norms have BF16 weights. One policy at the root holds for all modules. Give each norm its own
# `fully_shard` before that of the root, with `param_dtype=torch.float32`.
def breaks(seen, right):
    return "bfloat16" in norms(seen)
drop("for module")
swap("param_dtype=wide", "param_dtype=low, reduce_dtype=wide")

# %% rule norm-inputs-in-bf16
# Your norms have FP32 weights but take BF16 inputs. A policy casts the inputs to its `param_dtype`,
# and without one it casts nothing. Give the norms `param_dtype=torch.float32`.
def breaks(seen, right):
    return any("bfloat16" in words(seen, f"all dtypes of {kind} inputs") for kind in NORMS)
swap("param_dtype=wide, ", "")
swap("output_dtype=low)", "output_dtype=low, cast_forward_inputs=False)")

# %% rule output-in-bf16
# Your output is BF16, and so is the loss. Give the root's policy `output_dtype=torch.float32`.
def breaks(seen, right):
    return noted(seen, "output") == "bfloat16"
swap(", output_dtype=wide", "")
of("every_layer_sharded", swap(" output_dtype=wide,", ""))

# %% wrong root-first
# You shard the model first, and it takes all parameters. Shard the inner modules before it.
move("fully_shard(model", before="for module") & move("policy = ", before="fully_shard(model")
of("every_layer_sharded", put("fully_shard(model, mesh=mesh)", before="for module"))
