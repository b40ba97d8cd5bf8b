"""Parts of diffusion models, from diffusers: UNets, transformers, autoencoders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from real_models.zoo.model import Built, Model, image

BLOCKS = {
    "block_out_channels": (16, 32), "layers_per_block": 1, "norm_num_groups": 4,
}  # fmt: skip
CROSS = {
    "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
    "cross_attention_dim": 16, "attention_head_dim": 4, "sample_size": 8,
}  # fmt: skip
CONTROL = {key: CROSS[key] for key in CROSS if key != "sample_size"} | {
    "conditioning_embedding_out_channels": (4, 8, 8, 16),
}
UP = {"up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D")}
ENCODER = {
    "down_block_types": ("DownEncoderBlock2D", "DownEncoderBlock2D"),
    "up_block_types": ("UpDecoderBlock2D", "UpDecoderBlock2D"), "latent_channels": 4,
}  # fmt: skip


def noisy(channels: int = 4, size: int = 8, **others: Any) -> dict[str, Any]:
    """A latent, and a time step for each of a batch of two."""
    return {"sample": torch.randn(2, channels, size, size), "timestep": torch.tensor([7, 400]),
            **others}  # fmt: skip


def _part(
    name: str,
    cls: str,
    kind: str,
    settings: dict[str, Any],
    inputs: Callable[[], dict[str, Any]],
    **options: Any,
) -> Model:
    def build() -> Built:
        import diffusers

        return getattr(diffusers, cls)(**settings), (), inputs()

    return Model(f"diffusers/{name}", "diffusers", kind, build, **options)


def _words(size: int = 16, length: int = 5) -> torch.Tensor:
    return torch.randn(2, length, size)


def _control() -> dict[str, Any]:
    return noisy(encoder_hidden_states=_words(), controlnet_cond=image(size=64))


def _added() -> dict[str, Any]:
    extra = {"text_embeds": torch.randn(2, 8), "time_ids": torch.rand(2, 6)}
    return noisy(encoder_hidden_states=_words(), added_cond_kwargs=extra)


def _flux() -> dict[str, Any]:
    return {
        "hidden_states": torch.randn(2, 16, 8), "encoder_hidden_states": _words(),
        "pooled_projections": torch.randn(2, 8), "timestep": torch.tensor([0.1, 0.6]),
        "img_ids": torch.zeros(16, 3), "txt_ids": torch.zeros(5, 3),
    }  # fmt: skip


def _sd3() -> dict[str, Any]:
    return {
        "hidden_states": torch.randn(2, 4, 8, 8), "encoder_hidden_states": _words(),
        "pooled_projections": torch.randn(2, 16), "timestep": torch.tensor([7, 400]),
    }  # fmt: skip


MODELS: tuple[Model, ...] = (
    _part("unet", "UNet2DModel", "self attention",
          BLOCKS | {"down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
                    "up_block_types": ("AttnUpBlock2D", "UpBlock2D"), "sample_size": 16,
                    "attention_head_dim": 4},
          lambda: noisy(3, 16)),
    _part("unet-text", "UNet2DConditionModel", "cross attention, as in Stable Diffusion 1.5",
          BLOCKS | CROSS | UP, lambda: noisy(encoder_hidden_states=_words()), gate=True),
    _part("unet-text-fp16", "UNet2DConditionModel", "FP16",
          BLOCKS | CROSS | UP, lambda: noisy(encoder_hidden_states=_words()),
          dtype=torch.float16),
    _part("unet-xl", "UNet2DConditionModel", "added conditions, as in SDXL",
          BLOCKS | CROSS | UP | {"addition_embed_type": "text_time",
                                 "addition_time_embed_dim": 8, "use_linear_projection": True,
                                 "projection_class_embeddings_input_dim": 56},
          _added),
    _part("controlnet", "ControlNetModel", "a control image",
          BLOCKS | CONTROL, _control),
    _part("vae", "AutoencoderKL", "group norm, one head of attention", BLOCKS | ENCODER,
          lambda: {"sample": image(size=16)}),
    _part("vae-tiny", "AutoencoderTiny", "no norms",
          {"encoder_block_out_channels": (8, 8), "decoder_block_out_channels": (8, 8),
           "num_encoder_blocks": (1, 1), "num_decoder_blocks": (1, 1),
           "upsampling_scaling_factor": 2},
          lambda: {"sample": image(size=16)}),
    _part("vq", "VQModel", "a codebook",
          BLOCKS | ENCODER | {"latent_channels": 4, "num_vq_embeddings": 16, "vq_embed_dim": 4},
          lambda: {"sample": image(size=16)}),
    _part("dit", "DiTTransformer2DModel", "adaptive layer norm",
          {"num_attention_heads": 4, "attention_head_dim": 8, "in_channels": 4, "num_layers": 2,
           "sample_size": 8, "patch_size": 2, "num_embeds_ada_norm": 10, "norm_num_groups": 4},
          lambda: {"hidden_states": torch.randn(2, 4, 8, 8), "timestep": torch.tensor([7, 400]),
                   "class_labels": torch.tensor([1, 3])}),
    _part("pixart", "PixArtTransformer2DModel", "adaptive layer norm, captions",
          {"num_attention_heads": 4, "attention_head_dim": 8, "num_layers": 2, "sample_size": 8,
           "cross_attention_dim": 32, "caption_channels": 16, "use_additional_conditions": False,
           "norm_num_groups": 4},
          lambda: {"hidden_states": torch.randn(2, 4, 8, 8), "encoder_hidden_states": _words(),
                   "timestep": torch.tensor([7, 400]),
                   "added_cond_kwargs": {"resolution": None, "aspect_ratio": None}}),
    _part("sd3", "SD3Transformer2DModel", "joint attention",
          {"sample_size": 8, "patch_size": 2, "in_channels": 4, "num_layers": 2,
           "attention_head_dim": 8, "num_attention_heads": 4, "joint_attention_dim": 16,
           "caption_projection_dim": 32, "pooled_projection_dim": 16, "out_channels": 4,
           "pos_embed_max_size": 8},
          _sd3),
    _part("flux", "FluxTransformer2DModel", "joint attention, rotary",
          {"in_channels": 8, "num_layers": 1, "num_single_layers": 1, "attention_head_dim": 16,
           "num_attention_heads": 2, "joint_attention_dim": 16, "pooled_projection_dim": 8,
           "axes_dims_rope": (4, 6, 6)},
          _flux),
)  # fmt: skip
