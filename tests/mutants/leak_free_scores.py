# === mutant: as_it_was -> still-leaks
def leak_free_scores(backbone, head, x, dtype):
    with torch.autocast("cpu", dtype=dtype):
        features = backbone(x)
    return head(features)


# === mutant: result_widened_not_the_features -> still-leaks
def leak_free_scores(backbone, head, x, dtype):
    with torch.autocast("cpu", dtype=dtype):
        features = backbone(x)
    return head(features).float()


# === mutant: disabled_region_without_a_cast -> still-leaks
def leak_free_scores(backbone, head, x, dtype):
    with torch.autocast("cpu", dtype=dtype):
        features = backbone(x)
        with torch.autocast("cpu", enabled=False):
            return head(features)


# === mutant: head_cast_to_the_features -> module-cast
def leak_free_scores(backbone, head, x, dtype):
    with torch.autocast("cpu", dtype=dtype):
        features = backbone(x)
    return head.to(features.dtype)(features).float()


# === mutant: backbone_cast_by_hand -> module-cast
def leak_free_scores(backbone, head, x, dtype):
    features = backbone.to(dtype)(x.to(dtype))
    return head(features.float())


# === mutant: head_moved_inside -> head-in-region
def leak_free_scores(backbone, head, x, dtype):
    with torch.autocast("cpu", dtype=dtype):
        return head(backbone(x)).float()


# === mutant: features_widened_inside -> head-in-region
def leak_free_scores(backbone, head, x, dtype):
    with torch.autocast("cpu", dtype=dtype):
        features = backbone(x).float()
        scores = head(features)
    return scores.float()


# === mutant: region_taken_away -> backbone-in-float32
def leak_free_scores(backbone, head, x, dtype):
    return head(backbone(x))


# === mutant: default_region_of_another_device -> backbone-in-float32
def leak_free_scores(backbone, head, x, dtype):
    with torch.autocast("cuda", dtype=dtype, enabled=torch.cuda.is_available()):
        features = backbone(x)
    return head(features.float())


# === mutant: result_narrowed_again -> not-float32
def leak_free_scores(backbone, head, x, dtype):
    with torch.autocast("cpu", dtype=dtype):
        features = backbone(x)
    return head(features.float()).to(dtype)


# === mutant: detached_at_the_border -> graph-cut
def leak_free_scores(backbone, head, x, dtype):
    with torch.autocast("cpu", dtype=dtype):
        features = backbone(x)
    return head(features.detach().float())


# === mutant: data_of_the_features -> graph-cut
def leak_free_scores(backbone, head, x, dtype):
    with torch.autocast("cpu", dtype=dtype):
        features = backbone(x)
    return head(features.data.to(torch.float32))


# === mutant: always_bfloat16 -> other-dtype
def leak_free_scores(backbone, head, x, dtype):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        features = backbone(x)
    return head(features.float())


# === mutant: only_the_input_cast -> backbone-in-float32
def leak_free_scores(backbone, head, x, dtype):
    features = backbone(x.to(dtype))
    return head(features.float())


# === mutant: head_forgotten -> not-run
def leak_free_scores(backbone, head, x, dtype):
    with torch.autocast("cpu", dtype=dtype):
        return backbone(x).float()


# === mutant: nothing_returned -> returned-none
def leak_free_scores(backbone, head, x, dtype):
    with torch.autocast("cpu", dtype=dtype):
        features = backbone(x)
    head(features.float())


# === mutant: probabilities_for_scores -> wrong-value
def leak_free_scores(backbone, head, x, dtype):
    with torch.autocast("cpu", dtype=dtype):
        features = backbone(x)
    return head(features.float()).softmax(-1)


# === mutant: a_list -> wrong-type
def leak_free_scores(backbone, head, x, dtype):
    with torch.autocast("cpu", dtype=dtype):
        features = backbone(x)
    return head(features.float()).tolist()


# === mutant: head_in_double -> module-cast
def leak_free_scores(backbone, head, x, dtype):
    with torch.autocast("cpu", dtype=dtype):
        features = backbone(x)
    return head.double()(features.double()).float()



# === correct: disabled_subregion
def leak_free_scores(backbone, head, x, dtype):
    with torch.autocast("cpu", dtype=dtype):
        features = backbone(x)
        with torch.autocast("cpu", enabled=False):
            return head(features.to(torch.float32))


# === correct: decorator_and_the_heads_own_dtype
def leak_free_scores(backbone, head, x, dtype):
    features = torch.autocast("cpu", dtype=dtype)(backbone)(x)
    return head(features.to(next(head.parameters()).dtype))


# === correct: widened_before_it_leaves
def leak_free_scores(backbone, head, x, dtype):
    @torch.autocast("cpu", dtype=dtype, cache_enabled=False)
    def features():
        return backbone(x).type(torch.float32)

    return head(features())


# === mutant: left_open -> region-left-open
def leak_free_scores(backbone, head, x, dtype):
    torch.autocast("cpu", dtype=dtype).__enter__()
    features = backbone(x)
    with torch.autocast("cpu", enabled=False):
        return head(features.float())


# === mutant: eval_left -> mode-changed
def leak_free_scores(backbone, head, x, dtype):
    backbone.eval()
    head.eval()
    with torch.autocast("cpu", dtype=dtype):
        features = backbone(x)
    return head(features.float())


# === correct: hook
def leak_free_scores(backbone, head, x, dtype):
    handle = head.register_forward_pre_hook(lambda m, a: (a[0].float(),))
    try:
        with torch.autocast("cpu", dtype=dtype):
            features = backbone(x)
        return head(features)
    finally:
        handle.remove()
