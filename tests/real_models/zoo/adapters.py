"""Models of transformers with an adapter of peft: only the adapter is trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from real_models.zoo.model import Built, Model
from real_models.zoo.text import GPT2, GQA, T5, hf, pairs, tokens


def _adapted(
    name: str,
    kind: str,
    base: Callable[[], Built],
    config: str = "LoraConfig",
    gate: bool = False,
    **settings: Any,
) -> Model:
    def build() -> Built:
        import peft

        model, args, kwargs = base()
        return peft.get_peft_model(model, getattr(peft, config)(**settings)), args, kwargs

    return Model(f"peft/{name}", "peft", kind, build, gate=gate)


GPT = hf("GPT2LMHeadModel", "GPT2Config", tokens, **GPT2)
LLAMA_GQA = hf("LlamaForCausalLM", "LlamaConfig", tokens, **GQA)
T5_PAIRS = hf("T5ForConditionalGeneration", "T5Config", pairs, **T5)

MODELS: tuple[Model, ...] = (
    _adapted("lora-gpt2", "LoRA on Conv1D", GPT, r=4, target_modules=["c_attn"],
             fan_in_fan_out=True, lora_dropout=0.1),
    _adapted("lora-llama", "LoRA, frozen base", LLAMA_GQA, gate=True, r=4,
             target_modules=["q_proj", "v_proj"], lora_dropout=0.1),
    _adapted("dora-llama", "DoRA: norms of weights", LLAMA_GQA, r=4,
             target_modules=["q_proj", "v_proj"], use_dora=True),
    _adapted("lora-t5", "LoRA in encoder and decoder", T5_PAIRS, r=4, target_modules=["q", "v"]),
    _adapted("ia3-llama", "scaled activations", LLAMA_GQA, "IA3Config",
             target_modules=["k_proj", "v_proj", "down_proj"], feedforward_modules=["down_proj"]),
    _adapted("prompt-gpt2", "learned prompt", GPT, "PromptTuningConfig", num_virtual_tokens=4,
             task_type="CAUSAL_LM"),
    _adapted("prefix-llama", "learned keys and values", LLAMA_GQA, "PrefixTuningConfig",
             num_virtual_tokens=4, task_type="CAUSAL_LM"),
)  # fmt: skip
