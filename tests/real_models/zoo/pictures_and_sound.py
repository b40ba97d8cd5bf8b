"""Models of transformers that see, hear, or join a picture with a text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from real_models.zoo.model import Built, Model, ids, image
from real_models.zoo.text import BART, GQA, hf

VIT = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "image_size": 32, "patch_size": 8,
}  # fmt: skip
TEXT = {
    "vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "max_position_embeddings": 32,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
WAV = {
    "vocab_size": 32, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "conv_dim": (16, 16), "conv_stride": (5, 4), "conv_kernel": (10, 8),
    "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4, "mask_time_prob": 0.0, "apply_spec_augment": False,
}  # fmt: skip


def pixels() -> dict[str, Any]:
    return {"pixel_values": image()}


def picture_and_text() -> dict[str, Any]:
    return {"input_ids": ids(2, 8), "pixel_values": image()}


def wave() -> dict[str, Any]:
    return {"input_values": torch.randn(2, 800)}


def _seen(
    name: str,
    model: str,
    config: str,
    kind: str,
    settings: dict[str, Any],
    inputs: Callable[[], dict[str, Any]] = pixels,
    **options: Any,
) -> Model:
    return Model(name, "transformers", kind, hf(model, config, inputs, **settings), **options)


def _whisper_inputs() -> dict[str, Any]:
    return {"input_features": torch.randn(2, 16, 64), "decoder_input_ids": ids(2, 8)}


def _sam_inputs() -> dict[str, Any]:
    points = torch.tensor([[[[4.0, 4.0]]], [[[9.0, 2.0]]]])
    return {"pixel_values": image(size=32), "input_points": points}


def _sam() -> Built:
    from transformers import SamConfig, SamModel

    config = SamConfig(
        vision_config={
            "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 32,
            "patch_size": 8, "output_channels": 16, "window_size": 2, "global_attn_indexes": [1],
            "mlp_dim": 48, "num_pos_feats": 8,
        },
        prompt_encoder_config={"hidden_size": 16, "image_size": 32, "patch_size": 8,
                               "mask_input_channels": 4},
        mask_decoder_config={"hidden_size": 16, "mlp_dim": 32, "num_attention_heads": 2,
                             "num_hidden_layers": 2, "iou_head_hidden_dim": 16},
    )  # fmt: skip
    return SamModel(config), (), _sam_inputs()


def _llava() -> Built:
    from transformers import (
        CLIPVisionConfig,
        LlamaConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
    )

    config = LlavaConfig(
        vision_config=CLIPVisionConfig(**VIT), text_config=LlamaConfig(**GQA), image_token_id=95,
        vision_feature_layer=-1,
    )  # fmt: skip
    given = ids(2, 24, below=90)
    given[:, 1:17] = 95
    return LlavaForConditionalGeneration(config), (), {"input_ids": given, **pixels()}


def _detr() -> Built:
    from transformers import DetrConfig, DetrForObjectDetection, ResNetConfig

    backbone = ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic",
        out_features=["stage2"],
    )  # fmt: skip
    sizes = {key: BART[key] for key in BART if "layers" in key or "heads" in key or "ffn" in key}
    config = DetrConfig(
        use_timm_backbone=False, use_pretrained_backbone=False, backbone=None,
        backbone_config=backbone, d_model=32, num_queries=5, num_labels=4, **sizes,
    )  # fmt: skip
    return DetrForObjectDetection(config), (), pixels()


CLIP = {"text_config": TEXT, "vision_config": VIT, "projection_dim": 16}

MODELS: tuple[Model, ...] = (
    _seen("vit", "ViTForImageClassification", "ViTConfig", "patches", VIT, gate=True),
    _seen("deit", "DeiTForImageClassification", "DeiTConfig", "a distillation token", VIT),
    _seen("dinov2", "Dinov2ForImageClassification", "Dinov2Config", "layer scale", VIT),
    _seen("dinov3", "DINOv3ViTModel", "DINOv3ViTConfig", "rotary, registers", VIT),
    _seen("beit", "BeitForImageClassification", "BeitConfig", "relative bias",
          VIT | {"use_relative_position_bias": True}),
    _seen("swin", "SwinForImageClassification", "SwinConfig", "shifted windows",
          {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [2, 2],
           "num_heads": [2, 4], "window_size": 4}),
    _seen("swin-v2", "Swinv2ForImageClassification", "Swinv2Config", "cosine attention",
          {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [2, 2],
           "num_heads": [2, 4], "window_size": 4}),
    _seen("convnext", "ConvNextForImageClassification", "ConvNextConfig", "depthwise, layer norm",
          {"hidden_sizes": [16, 32], "depths": [1, 1], "num_stages": 2}),
    _seen("convnext-v2", "ConvNextV2ForImageClassification", "ConvNextV2Config",
          "response normalisation", {"hidden_sizes": [16, 32], "depths": [1, 1], "num_stages": 2}),
    _seen("resnet-hf", "ResNetForImageClassification", "ResNetConfig", "batch norm",
          {"embedding_size": 8, "hidden_sizes": [16, 32], "depths": [1, 1]}),
    _seen("segformer", "SegformerForSemanticSegmentation", "SegformerConfig", "segmentation",
          {"num_encoder_blocks": 2, "depths": [1, 1], "sr_ratios": [2, 1],
           "hidden_sizes": [16, 32], "patch_sizes": [7, 3], "strides": [4, 2],
           "num_attention_heads": [2, 4], "mlp_ratios": [2, 2], "decoder_hidden_size": 16}),
    _seen("videomae", "VideoMAEForVideoClassification", "VideoMAEConfig", "3D patches",
          VIT | {"num_frames": 4}, lambda: {"pixel_values": torch.rand(2, 4, 3, 32, 32)}),
    _seen("vit-mae", "ViTMAEForPreTraining", "ViTMAEConfig", "random masking",
          VIT | {"decoder_hidden_size": 32, "decoder_num_hidden_layers": 1,
                 "decoder_num_attention_heads": 4, "decoder_intermediate_size": 48}),
    Model("sam", "transformers", "prompts, windows", _sam),
    Model("detr", "transformers", "object queries", _detr),
    _seen("clip", "CLIPModel", "CLIPConfig", "two towers", CLIP, picture_and_text),
    _seen("siglip", "SiglipModel", "SiglipConfig", "two towers", {"text_config": TEXT,
          "vision_config": VIT}, picture_and_text),
    Model("llava", "transformers", "picture tokens in a llama", _llava),
    _seen("whisper", "WhisperForConditionalGeneration", "WhisperConfig", "speech to text",
          BART | {"num_mel_bins": 16, "max_source_positions": 32, "max_target_positions": 32},
          _whisper_inputs),
    _seen("wav2vec2", "Wav2Vec2ForCTC", "Wav2Vec2Config", "raw sound", WAV, wave),
    _seen("wav2vec2-ctc", "Wav2Vec2ForCTC", "Wav2Vec2Config", "CTC loss", WAV,
          lambda: {**wave(), "labels": ids(2, 5, below=30)}),
    _seen("hubert", "HubertForCTC", "HubertConfig", "raw sound", WAV, wave),
    _seen("wavlm", "WavLMForCTC", "WavLMConfig", "gated relative bias", WAV, wave),
    _seen("ast", "ASTForAudioClassification", "ASTConfig", "spectrograms",
          {k: v for k, v in VIT.items() if k != "image_size"}
          | {"num_mel_bins": 16, "max_length": 32, "frequency_stride": 8, "time_stride": 8},
          lambda: {"input_values": torch.randn(2, 32, 16)}),
    _seen("time-series", "PatchTSTForPrediction", "PatchTSTConfig", "forecasting",
          {"num_input_channels": 2, "context_length": 32, "prediction_length": 4, "d_model": 32,
           "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 48, "patch_length": 8,
           "patch_stride": 8}, lambda: {"past_values": torch.randn(2, 32, 2)}),
)  # fmt: skip
