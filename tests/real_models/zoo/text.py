"""Language models of transformers: decoders, encoders, and both together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from real_models.zoo.model import Built, Model, ids

# Names differ from config to config; these are the sizes that all of them get.
LLAMA = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GQA = LLAMA | {"num_key_value_heads": 2}
BERT = LLAMA | {"type_vocab_size": 2}


def hf(
    model: str,
    config: str,
    inputs: Callable[[], dict[str, Any]],
    attention: str = "",
    **settings: Any,
) -> Callable[[], Built]:
    """A builder of transformers' class ``model`` with its ``config``, and its keyword inputs."""

    def build() -> Built:
        import transformers

        made = getattr(transformers, config)(**settings)
        if attention:
            made._attn_implementation = attention
        return getattr(transformers, model)(made), (), inputs()

    return build


def changed(build: Callable[[], Built], change: Callable[[Any], Any]) -> Callable[[], Built]:
    """A builder that then does something to the model, such as freezing it."""

    def build_and_change() -> Built:
        model, args, kwargs = build()
        change(model)
        return model, args, kwargs

    return build_and_change


def tokens() -> dict[str, Any]:
    return {"input_ids": ids(2, 16)}


def padded() -> dict[str, Any]:
    mask = ids(2, 16).ge(0).long()
    mask[0, 11:] = 0
    return {"input_ids": ids(2, 16), "attention_mask": mask}


def labelled() -> dict[str, Any]:
    given = ids(2, 16)
    return {"input_ids": given, "labels": given}


def pairs() -> dict[str, Any]:
    return {"input_ids": ids(2, 16), "decoder_input_ids": ids(2, 8)}


def _causal(name: str, prefix: str, kind: str, settings: dict[str, Any], **options: Any) -> Model:
    inputs = options.pop("inputs", tokens)
    attention = options.pop("attention", "")
    head = options.pop("head", "ForCausalLM")
    config = options.pop("config", f"{prefix}Config")
    build = hf(prefix + head, config, inputs, attention, **settings)
    return Model(name, "transformers", kind, build, **options)


MOE = GQA | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
MLA = LLAMA | {
    "num_key_value_heads": 4,
    "q_lora_rank": 16,
    "kv_lora_rank": 8,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "v_head_dim": 8,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "moe_intermediate_size": 24,
    "first_k_dense_replace": 1,
    "n_group": 1,
    "topk_group": 1,
}
GPT2 = {
    "vocab_size": 96, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4,
    "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
T5 = {
    "vocab_size": 96, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4,
    "decoder_start_token_id": 0,
}  # fmt: skip
BART = {
    "vocab_size": 96, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48, "max_position_embeddings": 64,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 2, "forced_eos_token_id": 2,
}  # fmt: skip


def _freeze_all_but_the_head(model: Any) -> None:
    model.requires_grad_(False)
    model.lm_head.requires_grad_(True)


def _llama_with_past() -> Built:
    """One decoding step: a key-value cache of eight tokens, and one new token."""
    from transformers import DynamicCache

    model, _, _ = LLAMA_TOKENS()
    cache = DynamicCache(config=model.config)
    for layer in range(2):
        cache.update(torch.randn(2, 2, 8, 8), torch.randn(2, 2, 8, 8), layer)
    return model, (), {"input_ids": ids(2, 1), "past_key_values": cache}


GPT2_TOKENS = hf("GPT2LMHeadModel", "GPT2Config", tokens, **GPT2)
LLAMA_TOKENS = hf("LlamaForCausalLM", "LlamaConfig", tokens, **GQA)
BERT_PADDED = hf("BertForMaskedLM", "BertConfig", padded, **BERT)


def _variant(name: str, kind: str, build: Callable[[], Built], **options: Any) -> Model:
    return Model(name, "transformers", kind, build, **options)


# What people do with such a model before they train it or ask it.
VARIANTS: tuple[Model, ...] = (
    _variant("gpt2-fp16", "FP16", GPT2_TOKENS, dtype=torch.float16),
    _variant("llama-fp16", "FP16", LLAMA_TOKENS, dtype=torch.float16),
    _variant("bert-fp16", "FP16", BERT_PADDED, dtype=torch.float16),
    _variant("llama-bf16-weights", "weights in BF16", changed(LLAMA_TOKENS,
             lambda model: model.to(torch.bfloat16))),
    _variant("llama-fp16-weights", "weights in FP16 under BF16", changed(LLAMA_TOKENS,
             lambda model: model.to(torch.float16))),
    _variant("gpt2-checkpointing", "gradient checkpointing", changed(GPT2_TOKENS,
             lambda model: model.gradient_checkpointing_enable())),
    _variant("llama-checkpointing", "gradient checkpointing", changed(LLAMA_TOKENS,
             lambda model: model.gradient_checkpointing_enable())),
    _variant("llama-head-only", "all frozen but the head", changed(LLAMA_TOKENS,
             _freeze_all_but_the_head)),
    _variant("llama-decoding", "one token after a cache of keys and values", _llama_with_past,
             train=False, grad=False),
    _variant("bert-eval", "evaluation with gradients", BERT_PADDED, train=False),
    _variant("bert-all-states", "all hidden states and attentions returned",
             hf("BertForMaskedLM", "BertConfig",
                lambda: {**tokens(), "output_hidden_states": True, "output_attentions": True},
                "eager", **BERT)),
)  # fmt: skip

MODELS: tuple[Model, ...] = (
    *VARIANTS,
    _causal("gpt2", "GPT2", "learned positions", GPT2, head="LMHeadModel", gate=True),
    _causal("gpt2-eager", "GPT2", "attention written out", GPT2, head="LMHeadModel",
            attention="eager"),
    _causal("gpt2-padded", "GPT2", "a padding mask", GPT2, head="LMHeadModel", inputs=padded),
    _causal("gpt2-loss", "GPT2", "labels, so a loss", GPT2, head="LMHeadModel", inputs=labelled),
    _causal("gpt2-eval", "GPT2", "evaluation, no gradients", GPT2, head="LMHeadModel",
            train=False, grad=False),
    _causal("gpt-neox", "GPTNeoX", "rotary, parallel blocks", LLAMA),
    _causal("gpt-neo", "GPTNeo", "local attention",
            {"vocab_size": 96, "hidden_size": 32, "num_layers": 2, "num_heads": 4,
             "attention_types": [[["global", "local"], 1]], "window_size": 8,
             "max_position_embeddings": 64}),
    _causal("gpt-j", "GPTJ", "rotary in pairs", GPT2 | {"rotary_dim": 4}),
    _causal("llama", "Llama", "rotary, GQA, RMSNorm", GQA, gate=True),
    _causal("llama-eager", "Llama", "attention written out", GQA, attention="eager"),
    _causal("llama-padded", "Llama", "a padding mask", GQA, inputs=padded),
    _causal("llama-loss", "Llama", "labels, so a loss", GQA, inputs=labelled),
    _causal("mistral", "Mistral", "sliding window", GQA | {"sliding_window": 8}),
    _causal("qwen2", "Qwen2", "GQA, biased queries", GQA),
    _causal("qwen3", "Qwen3", "normed queries", GQA | {"head_dim": 16}),
    _causal("qwen3-moe", "Qwen3Moe", "mixture of experts", MOE | {"head_dim": 8}),
    _causal("gemma", "Gemma", "scaled embeddings", GQA | {"head_dim": 16}),
    _causal("gemma2", "Gemma2", "soft-capped logits", GQA | {"head_dim": 16,
            "sliding_window": 8}),
    _causal("gemma3", "Gemma3", "local and global layers", GQA | {"head_dim": 16,
            "sliding_window": 8}, config="Gemma3TextConfig"),
    _causal("olmo", "Olmo", "norms without weights", GQA),
    _causal("olmo2", "Olmo2", "norms after the block", GQA),
    _causal("phi", "Phi", "partial rotary", LLAMA),
    _causal("phi3", "Phi3", "one projection for q, k, v", GQA),
    _causal("mixtral", "Mixtral", "mixture of experts",
            GQA | {"num_local_experts": 4, "num_experts_per_tok": 2}),
    _causal("deepseek-v2", "DeepseekV2", "MLA, mixture of experts", MLA),
    _causal("deepseek-v3", "DeepseekV3", "MLA, mixture of experts", MLA),
    _causal("falcon", "Falcon", "one key head", {"vocab_size": 96, "hidden_size": 32,
            "num_hidden_layers": 2, "num_attention_heads": 4, "multi_query": True}),
    _causal("falcon-alibi", "Falcon", "ALiBi", {"vocab_size": 96, "hidden_size": 32,
            "num_hidden_layers": 2, "num_attention_heads": 4, "alibi": True}),
    _causal("bloom", "Bloom", "ALiBi", {"vocab_size": 96, "hidden_size": 32, "n_layer": 2,
            "n_head": 4}),
    _causal("mpt", "Mpt", "ALiBi", {"vocab_size": 96, "d_model": 32, "n_layers": 2, "n_heads": 4,
            "max_seq_len": 64}),
    _causal("opt", "OPT", "biased, ReLU", {"vocab_size": 96, "hidden_size": 32, "ffn_dim": 48,
            "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 64,
            "word_embed_proj_dim": 32, "pad_token_id": 0}),
    _causal("starcoder2", "Starcoder2", "sliding window", GQA | {"sliding_window": 8}),
    _causal("cohere", "Cohere", "parallel blocks, scaled logits", GQA),
    _causal("stablelm", "StableLm", "partial rotary", GQA),
    _causal("granite", "Granite", "scaled residuals", GQA),
    _causal("gpt-oss", "GptOss", "attention sinks, experts",
            GQA | {"num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 8,
                   "sliding_window": 8}, attention="eager"),
    _causal("mamba", "Mamba", "state space, slow path",
            {"vocab_size": 96, "hidden_size": 32, "state_size": 4, "num_hidden_layers": 2}),
    _causal("mamba2", "Mamba2", "state space, chunks",
            {"vocab_size": 96, "hidden_size": 32, "state_size": 8, "num_hidden_layers": 2,
             "num_heads": 8, "head_dim": 8, "n_groups": 2, "chunk_size": 8}),
    _causal("rwkv", "Rwkv", "linear attention",
            {"vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, "context_length": 64}),
    _causal("bert", "Bert", "encoder", BERT, head="ForMaskedLM", inputs=padded, gate=True),
    _causal("bert-classifier", "Bert", "no mask", BERT, head="ForSequenceClassification"),
    _causal("roberta", "Roberta", "encoder", BERT, head="ForMaskedLM"),
    _causal("distilbert", "DistilBert", "encoder",
            {"vocab_size": 96, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48,
             "max_position_embeddings": 64}, head="ForSequenceClassification"),
    _causal("albert", "Albert", "shared layers", BERT | {"embedding_size": 16},
            head="ForMaskedLM"),
    _causal("electra", "Electra", "encoder", BERT | {"embedding_size": 16},
            head="ForPreTraining"),
    _causal("deberta-v2", "DebertaV2", "disentangled attention",
            BERT | {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
            head="ForMaskedLM"),
    _causal("modernbert", "ModernBert", "local attention, rotary",
            LLAMA | {"local_attention": 8, "global_attn_every_n_layers": 2},
            head="ForMaskedLM"),
    _causal("longformer", "Longformer", "windowed attention",
            BERT | {"attention_window": [8, 8]}, head="ForMaskedLM"),
    _causal("t5", "T5", "encoder-decoder, relative bias", T5, head="ForConditionalGeneration",
            inputs=pairs, gate=True),
    _causal("mt5", "MT5", "gated feed-forward",
            T5 | {"feed_forward_proj": "gated-gelu"}, head="ForConditionalGeneration",
            inputs=pairs),
    _causal("bart", "Bart", "cross attention", BART, head="ForConditionalGeneration",
            inputs=pairs),
    _causal("pegasus", "Pegasus", "sinusoidal positions", BART, head="ForConditionalGeneration",
            inputs=pairs),
    _causal("xlnet", "XLNet", "relative attention",
            {"vocab_size": 96, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48},
            head="LMHeadModel"),
    _causal("fnet", "FNet", "Fourier transforms", BERT | {"use_tpu_fourier_optimizations": False},
            head="ForMaskedLM"),
)  # fmt: skip
