# === mutant: reduce_dtype_left_out -> reduced-in-bf16
def shard_model(model, mesh):
    for module in model.modules():
        if isinstance(module, (nn.LayerNorm, nn.RMSNorm)):
            policy = MixedPrecisionPolicy(param_dtype=torch.float32, output_dtype=torch.bfloat16)
            fully_shard(module, mesh=mesh, mp_policy=policy)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, output_dtype=torch.float32)
    fully_shard(model, mesh=mesh, mp_policy=policy)


# === mutant: param_dtype_only -> reduced-in-bf16
def shard_model(model, mesh):
    fully_shard(model, mesh=mesh, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))


# === mutant: one_policy_for_all -> norms-in-bf16
def shard_model(model, mesh):
    policy = MixedPrecisionPolicy(
        param_dtype=torch.bfloat16, reduce_dtype=torch.float32, output_dtype=torch.float32
    )
    fully_shard(model, mesh=mesh, mp_policy=policy)


# === mutant: output_as_it_comes -> output-in-bf16
def shard_model(model, mesh):
    for module in model.modules():
        if isinstance(module, (nn.LayerNorm, nn.RMSNorm)):
            policy = MixedPrecisionPolicy(param_dtype=torch.float32, output_dtype=torch.bfloat16)
            fully_shard(module, mesh=mesh, mp_policy=policy)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    fully_shard(model, mesh=mesh, mp_policy=policy)


# === mutant: norms_hand_on_fp32 -> norm-output-not-cast-back
def shard_model(model, mesh):
    for module in model.modules():
        if isinstance(module, (nn.LayerNorm, nn.RMSNorm)):
            policy = MixedPrecisionPolicy(param_dtype=torch.float32)
            fully_shard(module, mesh=mesh, mp_policy=policy)
    policy = MixedPrecisionPolicy(
        param_dtype=torch.bfloat16, reduce_dtype=torch.float32, output_dtype=torch.float32
    )
    fully_shard(model, mesh=mesh, mp_policy=policy)


# === mutant: bfloat16_first -> model-cast
def shard_model(model, mesh):
    model.bfloat16()
    policy = MixedPrecisionPolicy(
        param_dtype=torch.bfloat16, reduce_dtype=torch.float32, output_dtype=torch.float32
    )
    fully_shard(model, mesh=mesh, mp_policy=policy)


# === mutant: no_policy_at_all -> no-policy
def shard_model(model, mesh):
    fully_shard(model, mesh=mesh)


# === mutant: only_the_norms -> root-not-sharded
def shard_model(model, mesh):
    for module in model.modules():
        if isinstance(module, (nn.LayerNorm, nn.RMSNorm)):
            policy = MixedPrecisionPolicy(param_dtype=torch.float32, output_dtype=torch.bfloat16)
            fully_shard(module, mesh=mesh, mp_policy=policy)


# === mutant: bfloat16_everywhere_it_can_be_said -> reduced-in-bf16
def shard_model(model, mesh):
    low, wide = torch.bfloat16, torch.float32
    for module in model.modules():
        if isinstance(module, (nn.LayerNorm, nn.RMSNorm)):
            fully_shard(module, mesh=mesh, mp_policy=MixedPrecisionPolicy(wide, low, low))
    fully_shard(model, mesh=mesh, mp_policy=MixedPrecisionPolicy(low, low, wide))


# === mutant: from_the_outside_in -> root-first
def shard_model(model, mesh):
    fully_shard(model, mesh=mesh, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32, torch.float32))
    for m in model.modules():
        if isinstance(m, (nn.LayerNorm, nn.RMSNorm)):
            fully_shard(m, mesh=mesh, mp_policy=MixedPrecisionPolicy(torch.float32, torch.float32, torch.bfloat16))


# === mutant: mesh_left_out -> wrong-value
def shard_model(model, mesh):
    for m in model.modules():
        if isinstance(m, (nn.LayerNorm, nn.RMSNorm)):
            fully_shard(m, mp_policy=MixedPrecisionPolicy(torch.float32, torch.float32, torch.bfloat16))
    fully_shard(model, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32, torch.float32))


# === mutant: norms_at_the_top_only -> wrong-value
def shard_model(model, mesh):
    for m in model.children():
        if isinstance(m, (nn.LayerNorm, nn.RMSNorm)):
            fully_shard(m, mesh=mesh, mp_policy=MixedPrecisionPolicy(torch.float32, torch.float32, torch.bfloat16))
    fully_shard(model, mesh=mesh, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32, torch.float32))


# === correct: every_layer_sharded
def shard_model(model, mesh):
    linear = MixedPrecisionPolicy(
        param_dtype=torch.bfloat16, reduce_dtype=torch.float32, output_dtype=torch.bfloat16
    )
    norm = MixedPrecisionPolicy(
        param_dtype=torch.float32, reduce_dtype=torch.float32, output_dtype=torch.bfloat16
    )
    for module in list(model.modules()):
        if isinstance(module, nn.Linear):
            fully_shard(module, mesh=mesh, mp_policy=linear)
        elif "Norm" in type(module).__name__:
            fully_shard(module, mesh=mesh, mp_policy=norm)
    root = MixedPrecisionPolicy(
        torch.bfloat16, torch.float32, output_dtype=torch.float32, cast_forward_inputs=False
    )
    fully_shard(model, mesh=mesh, mp_policy=root)


# === correct: recursive_and_returned
def shard_model(model, mesh):
    def visit(module):
        for child in module.children():
            visit(child)
        if isinstance(module, nn.LayerNorm) or isinstance(module, nn.RMSNorm):
            policy = MixedPrecisionPolicy(
                param_dtype=torch.float32, reduce_dtype=torch.float32, output_dtype=torch.bfloat16
            )
            fully_shard(module, mesh=mesh, mp_policy=policy)

    visit(model)
    return fully_shard(
        model,
        mesh=mesh,
        mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32, torch.float32),
    )


# === correct: blocks_too
def shard_model(model, mesh):
    low, wide = torch.bfloat16, torch.float32
    for module in reversed(list(model.modules())[1:]):
        if isinstance(module, (nn.LayerNorm, nn.RMSNorm)):
            fully_shard(module, mesh=mesh, mp_policy=MixedPrecisionPolicy(wide, wide, low))
        elif list(module.children()):
            fully_shard(module, mesh=mesh, mp_policy=MixedPrecisionPolicy(low, wide))
    fully_shard(model, mesh=mesh, mp_policy=MixedPrecisionPolicy(low, wide, wide))


# === correct: each_layer_casts_its_own_input
def shard_model(model, mesh):
    wide = torch.float32
    for module in model.modules():
        if isinstance(module, (nn.LayerNorm, nn.RMSNorm)):
            fully_shard(module, mesh=mesh, mp_policy=MixedPrecisionPolicy(wide, wide))
        elif isinstance(module, nn.Linear):
            fully_shard(module, mesh=mesh, mp_policy=MixedPrecisionPolicy(torch.bfloat16, wide))
    fully_shard(model, mesh=mesh, mp_policy=MixedPrecisionPolicy(output_dtype=wide))


# === correct: linear_layers_told_apart
def shard_model(model, mesh):
    for m in list(model.modules()):
        if isinstance(m, nn.Linear):
            fully_shard(m, mesh=mesh, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32, torch.float32))
    fully_shard(model, mesh=mesh)
