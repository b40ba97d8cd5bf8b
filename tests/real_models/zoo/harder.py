"""Models of transformers whose forward looks at values, samples, or builds unusual attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from real_models.zoo.model import Built, Model, ids, image
from real_models.zoo.pictures_and_sound import TEXT, VIT, pixels
from real_models.zoo.text import BART, BERT, GQA, LLAMA, T5, hf, pairs, tokens


def _made(
    name: str,
    model: str,
    config: str,
    kind: str,
    settings: dict[str, Any],
    inputs: Callable[[], dict[str, Any]] = tokens,
    **options: Any,
) -> Model:
    return Model(name, "transformers", kind, hf(model, config, inputs, **settings), **options)


def _boxes() -> dict[str, Any]:
    return {"input_ids": ids(2, 16), "bbox": torch.randint(0, 1000, (2, 16, 4)).sort(-1).values}


def _steps() -> dict[str, Any]:
    return {
        "states": torch.randn(2, 5, 3), "actions": torch.randn(2, 5, 2),
        "rewards": torch.randn(2, 5, 1), "returns_to_go": torch.randn(2, 5, 1),
        "timesteps": torch.arange(5).repeat(2, 1),
    }  # fmt: skip


def _backbone() -> Any:
    from transformers import ResNetConfig

    return ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16, 16, 16], depths=[1, 1, 1, 1], layer_type="basic",
        out_features=["stage2", "stage3", "stage4"],
    )  # fmt: skip


def _deformable() -> Built:
    from transformers import DeformableDetrConfig, DeformableDetrForObjectDetection

    sizes = {key: BART[key] for key in BART if "layers" in key or "heads" in key or "ffn" in key}
    config = DeformableDetrConfig(
        use_timm_backbone=False, use_pretrained_backbone=False, backbone=None,
        backbone_config=_backbone(), d_model=32, num_queries=5, num_labels=4,
        num_feature_levels=3, encoder_n_points=2, decoder_n_points=2, **sizes,
    )  # fmt: skip
    return DeformableDetrForObjectDetection(config), (), {"pixel_values": image(size=64)}


def _qwen2_vl() -> Built:
    from transformers import Qwen2VLConfig, Qwen2VLForConditionalGeneration

    config = Qwen2VLConfig(
        text_config=GQA | {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0,
                                               "mrope_section": [1, 1, 2]}},
        vision_config={"depth": 2, "embed_dim": 32, "hidden_size": 32, "num_heads": 4,
                       "mlp_ratio": 2, "patch_size": 4, "spatial_merge_size": 2},
        image_token_id=95, vision_start_token_id=94, vision_end_token_id=93, video_token_id=92,
    )  # fmt: skip
    given = ids(1, 12, below=90)
    given[0, 1], given[0, 2:6], given[0, 6] = 94, 95, 93
    return (
        Qwen2VLForConditionalGeneration(config),
        (),
        {
            "input_ids": given,
            "attention_mask": torch.ones_like(given),
            "pixel_values": torch.randn(16, 3 * 2 * 4 * 4),
            "image_grid_thw": torch.tensor([[1, 4, 4]]),
            "mm_token_type_ids": (given == 95).int(),
        },
    )


def _blip() -> Built:
    from transformers import BlipConfig, BlipForConditionalGeneration

    text = TEXT | {"encoder_hidden_size": 32, "sep_token_id": 2}
    config = BlipConfig(text_config=text, vision_config=VIT, projection_dim=16)
    given = {"input_ids": ids(2, 8), **pixels()}
    return BlipForConditionalGeneration(config), (), given


MODELS: tuple[Model, ...] = (
    _made("switch", "SwitchTransformersForConditionalGeneration", "SwitchTransformersConfig",
          "experts chosen one by one",
          T5 | {"num_experts": 4, "num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1,
                "expert_capacity": 8}, pairs),
    _made("olmoe", "OlmoeForCausalLM", "OlmoeConfig", "mixture of experts",
          GQA | {"num_experts": 4, "num_experts_per_tok": 2}),
    _made("qwen2-moe", "Qwen2MoeForCausalLM", "Qwen2MoeConfig", "shared experts",
          GQA | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
                 "shared_expert_intermediate_size": 24}),
    _made("qwen3-next", "Qwen3NextForCausalLM", "Qwen3NextConfig", "gated delta rule, experts",
          GQA | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
                 "shared_expert_intermediate_size": 24, "head_dim": 16,
                 "linear_num_key_heads": 2, "linear_num_value_heads": 4,
                 "linear_key_head_dim": 8, "linear_value_head_dim": 8,
                 "layer_types": ["linear_attention", "full_attention"]}),
    _made("jamba", "JambaForCausalLM", "JambaConfig", "state space, attention, experts",
          GQA | {"num_experts": 2, "attn_layer_period": 2, "attn_layer_offset": 1,
                 "use_mamba_kernels": False, "mamba_d_state": 4, "mamba_dt_rank": 4}),
    _made("recurrent-gemma", "RecurrentGemmaForCausalLM", "RecurrentGemmaConfig",
          "linear recurrence",
          GQA | {"lru_width": 32, "attention_window_size": 8, "num_hidden_layers": 3}),
    _made("llama4", "Llama4ForCausalLM", "Llama4TextConfig", "complex rotary, experts",
          GQA | {"num_local_experts": 2, "intermediate_size_mlp": 48, "head_dim": 8,
                 "attention_chunk_size": 8}),
    _made("glm4", "Glm4ForCausalLM", "Glm4Config", "partial rotary", GQA | {"head_dim": 8}),
    _made("gemma3n", "Gemma3nForCausalLM", "Gemma3nTextConfig", "stacked streams",
          GQA | {"head_dim": 8, "sliding_window": 8, "vocab_size_per_layer_input": 96,
                 "hidden_size_per_layer_input": 8, "laurel_rank": 4, "num_kv_shared_layers": 0,
                 "layer_types": ["sliding_attention", "full_attention"],
                 "activation_sparsity_pattern": [0.5, 0.0], "intermediate_size": [48, 48]}),
    _made("big-bird", "BigBirdForMaskedLM", "BigBirdConfig", "random blocks",
          BERT | {"attention_type": "block_sparse", "block_size": 4, "num_random_blocks": 1,
                  "max_position_embeddings": 128},
          lambda: {"input_ids": ids(2, 64)}),
    _made("reformer", "ReformerModel", "ReformerConfig", "hashing, reversible layers",
          {"vocab_size": 96, "hidden_size": 32, "attention_head_size": 8,
           "num_attention_heads": 4, "feed_forward_size": 48, "attn_layers": ["local", "lsh"],
           "axial_pos_shape": [4, 4], "axial_pos_embds_dim": [16, 16], "num_buckets": 4,
           "local_attn_chunk_length": 4, "lsh_attn_chunk_length": 4, "is_decoder": False}),
    _made("funnel", "FunnelForMaskedLM", "FunnelConfig", "pooled sequence",
          {"vocab_size": 96, "block_sizes": [1, 1], "d_model": 32, "n_head": 4, "d_head": 8,
           "d_inner": 48, "num_decoder_layers": 1}),
    _made("led", "LEDForConditionalGeneration", "LEDConfig", "windowed encoder",
          {key: value for key, value in BART.items() if key != "max_position_embeddings"}
          | {"attention_window": [8, 8], "max_encoder_position_embeddings": 64,
             "max_decoder_position_embeddings": 64}, pairs),
    _made("perceiver", "PerceiverForMaskedLM", "PerceiverConfig", "latents",
          {"vocab_size": 96, "d_model": 32, "d_latents": 32, "num_latents": 8, "num_blocks": 1,
           "num_self_attends_per_block": 2, "num_self_attention_heads": 4,
           "num_cross_attention_heads": 4, "max_position_embeddings": 16,
           "qk_channels": 32, "v_channels": 32}, lambda: {"inputs": ids(2, 16)}),
    _made("layoutlm", "LayoutLMForTokenClassification", "LayoutLMConfig", "boxes of words",
          BERT, _boxes),
    _made("esm", "EsmForMaskedLM", "EsmConfig", "proteins, rotary",
          LLAMA | {"vocab_size": 33, "mask_token_id": 32, "position_embedding_type": "rotary"},
          lambda: {"input_ids": ids(2, 16, below=30)}),
    _made("canine", "CanineModel", "CanineConfig", "characters, hashed",
          BERT | {"downsampling_rate": 4, "local_transformer_stride": 16,
                  "num_hash_functions": 4, "num_hash_buckets": 64},
          lambda: {"input_ids": ids(2, 32)}),
    _made("decision", "DecisionTransformerModel", "DecisionTransformerConfig", "offline control",
          {"state_dim": 3, "act_dim": 2, "hidden_size": 32, "n_layer": 2, "n_head": 4,
           "max_ep_len": 16, "n_inner": 48}, _steps),
    Model("deformable-detr", "transformers", "sampled grids", _deformable),
    _made("yolos", "YolosForObjectDetection", "YolosConfig", "detection tokens",
          VIT | {"image_size": [32, 32], "num_detection_tokens": 4}, pixels),
    _made("dpt", "DPTForDepthEstimation", "DPTConfig", "depth",
          VIT | {"num_hidden_layers": 4, "backbone_out_indices": [0, 1, 2, 3],
                 "neck_hidden_sizes": [8, 8, 16, 16], "fusion_hidden_size": 16,
                 "reassemble_factors": [4, 2, 1, 0.5]}, pixels),
    _made("mobilevit", "MobileViTForImageClassification", "MobileViTConfig", "unfolded patches",
          {"image_size": 64, "hidden_sizes": [16, 24, 32], "neck_hidden_sizes":
           [8, 8, 16, 16, 16, 16, 32], "num_attention_heads": 4},
          lambda: {"pixel_values": image(size=64)}),
    Model("blip", "transformers", "captions", _blip),
    Model("qwen2-vl", "transformers", "picture patches packed", _qwen2_vl),
    _made("encodec", "EncodecModel", "EncodecConfig", "sound, LSTM, codebooks",
          {"num_filters": 4, "hidden_size": 16, "codebook_dim": 16, "codebook_size": 16,
           "upsampling_ratios": [4, 2], "num_lstm_layers": 1, "target_bandwidths": [24.0],
           "sampling_rate": 2000, "norm_type": "weight_norm"},
          lambda: {"input_values": torch.randn(2, 1, 400)}),
    _made("patch-mixer", "PatchTSMixerForPrediction", "PatchTSMixerConfig", "no attention",
          {"num_input_channels": 2, "context_length": 32, "prediction_length": 4,
           "patch_length": 8, "patch_stride": 8, "d_model": 16, "num_layers": 2},
          lambda: {"past_values": torch.randn(2, 32, 2)}),
)  # fmt: skip
