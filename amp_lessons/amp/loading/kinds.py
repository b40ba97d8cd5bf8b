"""Inputs for a model of a library that says, in its config, what its forward takes.

transformers, diffusers, timm and torchvision's classifiers are known. What is made has the sizes
that a person chose, or else the config's own, and at most 512 tokens.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import nn

from amp_lessons.amp.loading.inputs import Spec
from amp_lessons.amp.loading.model_spec import LoadError

BATCH, LENGTH, IMAGE, SAMPLES, FRAMES = 2, 512, 224, 16_000, 8
"""Defaults: of a batch, a text's tokens, an image's side, a second of sound, a video's pictures."""

CLAP_FRAMES = 1001
"""Ten seconds at 48 kHz, a frame for each 480 samples, as CLAP's feature extractor makes them."""
COMPARED = ("input_ids", "pixel_values", "input_features")
"""What a model with two towers compares: texts with pictures or with sound."""

PER_TOKEN = ("ForCausalLM", "LMHeadModel", "ForMaskedLM", "ForConditionalGeneration")
PER_EXAMPLE = ("SequenceClassification", "ImageClassification", "AudioClassification")
FEATURES = ("input_feat_per_channel", "feature_projection_input_dim", "num_mel_bins")
OFFSET = ("roberta", "camembert", "longformer", "mpnet", "data2vec-text", "ibert", "esm", "xmod",
          "layoutlmv3", "clap")  # fmt: skip
"""Model types whose positions begin after the padding id, so that fewer tokens fit."""
PADDING_ROWS = 2
"""More rows than positions in some tables: BART's and OPT's begin at the third, RoBERTa's too."""


@dataclass(frozen=True)
class ChosenSizes:
    """What a person chose; None for the default."""

    batch: int | None = None
    length: int | None = None
    image: int | None = None

    @property
    def examples(self) -> int:
        return BATCH if self.batch is None else self.batch


def made(model: nn.Module, sizes: ChosenSizes, labels: bool) -> dict[str, Spec]:
    """Inputs by the names of the forward's parameters; {} for a model of no library known here.

    Args:
        model: whose class and config say what it takes.
        sizes: what a person chose.
        labels: whether a Hugging Face model gets labels too.

    Raises:
        LoadError: for an input that has no rule here.
    """
    whole, adapted = model, cast(Any, model)
    if hasattr(model, "get_base_model"):  # peft's: its forward takes what the base model's does
        model = adapted.get_base_model()
    of = {part for kind in type(model).__mro__ for part in [kind.__module__.partition(".")[0]]}
    config = getattr(model, "config", None)
    if "transformers" in of and config is not None and hasattr(model, "main_input_name"):
        specs = _Text(model, config, sizes, labels).specs()
    elif "diffusers" in of and config is not None:
        specs = _diffusion(model, config, sizes)
    elif isinstance(getattr(model, "default_cfg", None), Mapping):
        specs = _timm(model, sizes)
    elif type(model).__module__.count(".") == 2 and "torchvision" in of:
        side = sizes.image or (299 if "Inception" in type(model).__name__ else IMAGE)
        specs = {"x": Spec((sizes.examples, 3, side, side))}
    else:
        return {}
    return _positions(whole, model, specs)


def past_the_config(model: nn.Module, sizes: ChosenSizes) -> str:
    """A line if a text is longer than what a model of transformers was made for; else ""."""
    config = getattr(model, "config", None)
    if config is None or getattr(model, "main_input_name", "") != "input_ids":
        return ""
    most = _Text(model, config, sizes, labels=False).past_the_config()
    return (
        f"{sizes.length} tokens: its config names {most}, but this model takes more"
        if most is not None
        else ""
    )


def told(specs: Mapping[str, Spec]) -> str:
    """The inputs as a person would write them, such as "input_ids=2,512:int64"."""
    return " ".join(str(Spec(spec.shape, spec.dtype, name)) for name, spec in specs.items())


class _Text:
    """Inputs of a model of transformers: text, pictures, sound, and labels."""

    def __init__(self, model: Any, config: Any, sizes: ChosenSizes, labels: bool) -> None:
        self.model, self.sizes, self.labels = model, sizes, labels
        self.config = config
        text = getattr(config, "get_text_config", lambda **_: config)
        self.text = text()
        self.main: str = model.main_input_name
        self.parameters = inspect.signature(model.forward).parameters

    def specs(self) -> dict[str, Spec]:
        names = [self.main, *self._required()]
        if self._compares():
            names += [name for name in COMPARED if name in self.parameters]
        found = {name: self._one(name) for name in dict.fromkeys(names)}
        if self.labels and "labels" in self.parameters:
            found |= self._wanted()
        if getattr(self.config, "is_encoder_decoder", False) and (
            "decoder_input_ids" in self.parameters
        ):
            found["decoder_input_ids"] = self._ids(decoder=True)
        return found

    def _compares(self) -> bool:
        """Whether a text comes with a picture or a sound, and not only if somebody has one."""
        towers = hasattr(self.model, "text_model") and hasattr(self.model, "vision_model")
        scaled = hasattr(self.model, "logit_scale") or hasattr(self.model, "logit_scale_a")
        return towers or scaled or getattr(self.config, "model_type", "") == "vilt"

    def _required(self) -> list[str]:
        kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        return [
            name
            for name, parameter in self.parameters.items()
            if parameter.default is inspect.Parameter.empty and parameter.kind not in kinds
        ]

    def _one(self, name: str) -> Spec:
        makers: dict[str, Callable[[], Spec]] = {
            "input_ids": self._ids,
            "decoder_input_ids": lambda: self._ids(decoder=True),
            "attention_mask": self._mask,
            "pixel_values": self._picture,
            "input_features": self._features,
            "input_values": self._sound,
        }
        if name in makers:
            return makers[name]()
        raise LoadError(
            f"{type(self.model).__name__} takes {name}, and no rule here says its shape: give it "
            f"with --input {name}=SIZES"
        )

    def _length(self, decoder: bool = False) -> int:
        most = self._most(decoder)
        asked = self.sizes.length
        if asked is None:
            return min(most or LENGTH, LENGTH)
        if most is not None and asked > most and _looks_up_positions(self.model, most):
            raise LoadError(
                f"{asked} tokens are too many: --length is at most {most} here, for the model has "
                "no more positions"
            )
        return asked

    def _most(self, decoder: bool = False) -> int | None:
        """How many tokens the config has positions for; None if it doesn't say."""
        names = ["max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length"]
        if decoder:
            names.insert(0, "max_target_positions")
        most = next((n for n in (getattr(self.text, a, None) for a in names) if n), None)
        if not isinstance(most, int) or most < 1:
            return None
        kind = str(getattr(self.text, "model_type", ""))
        if any(name in kind for name in OFFSET):
            most -= (getattr(self.text, "pad_token_id", 0) or 0) + 1
        return max(1, most)

    def past_the_config(self) -> int | None:
        """The config's positions, if more tokens than these were asked for."""
        most, asked = self._most(), self.sizes.length
        return most if most is not None and asked is not None and asked > most else None

    def _ids(self, decoder: bool = False) -> Spec:
        owner = self.text
        if decoder and getattr(self.config, "decoder", None) is not None:
            owner = self.config.decoder if not isinstance(self.config.decoder, dict) else owner
        below = getattr(owner, "vocab_size", None) or getattr(self.config, "vocab_size", None)
        bound = below if isinstance(below, int) else None
        return Spec((self.sizes.examples, self._length(decoder)), torch.int64, below=bound)

    def _mask(self) -> Spec:
        return Spec((self.sizes.examples, self._length()), torch.int64)

    def _vision(self, name: str, default: Any) -> Any:
        for owner in (self.config, getattr(self.config, "vision_config", None)):
            owner = getattr(owner, "encoder", owner) if name != "encoder" else owner
            value = getattr(owner, name, None)
            if value is not None:
                return value
        return default

    def _picture(self) -> Spec:
        height, width = _pair(self.sizes.image or self._vision("image_size", IMAGE))
        shape: tuple[int, ...] = (self._vision("num_channels", 3), height, width)
        several = any(hasattr(self.config, name) for name in ("tubelet_size", "num_frames"))
        if "Video" in type(self.model).__name__ or several:
            shape = (self._vision("num_frames", FRAMES), *shape)
        return Spec((self.sizes.examples, *shape))

    def _features(self) -> Spec:
        sound = getattr(self.config, "audio_config", self.config)
        if hasattr(sound, "spec_size") and hasattr(sound, "num_mel_bins"):  # CLAP's: a picture
            parts = 4 if getattr(sound, "enable_fusion", False) else 1
            frames = min(CLAP_FRAMES, sound.spec_size**2 // sound.num_mel_bins)
            return Spec((self.sizes.examples, parts, frames, sound.num_mel_bins))
        mel = getattr(self.config, "num_mel_bins", None)
        if mel and hasattr(self.config, "max_source_positions") and self._conv_halves():
            frames = self.sizes.length or 2 * self.config.max_source_positions
            return Spec((self.sizes.examples, mel, frames))
        widths = (getattr(self.config, name, None) for name in FEATURES)
        width = next((width for width in widths if width), 80)
        return Spec((self.sizes.examples, self.sizes.length or LENGTH, width))

    def _conv_halves(self) -> bool:
        """Whisper takes bands before frames, twice as many as it has positions."""
        return "whisper" in str(getattr(self.config, "model_type", ""))

    def _sound(self) -> Spec:
        if hasattr(self.config, "num_mel_bins") and hasattr(self.config, "max_length"):
            shape = (self.sizes.length or self.config.max_length, self.config.num_mel_bins)
            return Spec((self.sizes.examples, *shape))
        samples = self.sizes.length or SAMPLES
        channels = getattr(self.config, "audio_channels", None)
        if channels or getattr(self.config, "model_type", "") == "dac":  # codecs of sound
            return Spec((self.sizes.examples, channels or 1, samples))
        return Spec((self.sizes.examples, samples))

    def _wanted(self) -> dict[str, Spec]:
        name, count = type(self.model).__name__, getattr(self.config, "num_labels", 2)
        examples = self.sizes.examples
        if name.endswith(PER_TOKEN):
            whole = getattr(self.config, "is_encoder_decoder", False) or self.main != "input_ids"
            return {"labels": self._ids(decoder=whole)}
        if name.endswith("TokenClassification"):
            return {"labels": Spec((examples, self._length()), torch.int64, below=count)}
        if name.endswith(PER_EXAMPLE):
            if count == 1:
                return {"labels": Spec((examples,))}
            return {"labels": Spec((examples,), torch.int64, below=count)}
        if name.endswith("SemanticSegmentation"):
            sides = self._picture().shape[-2:]
            return {"labels": Spec((examples, *sides), torch.int64, below=count)}
        return {}


def _diffusion(model: nn.Module, config: Any, sizes: ChosenSizes) -> dict[str, Spec]:
    """Inputs of diffusers' UNets, autoencoders and diffusion transformers."""
    examples, name = sizes.examples, type(model).__name__
    height, width = _pair(sizes.image or config.get("sample_size") or 64)
    channels = config.get("in_channels", 3)
    image = Spec((examples, channels, height, width))
    text, cross = sizes.length or 77, _cross(config)
    moment = Spec((examples,), torch.int64, below=1000)
    if name == "FluxTransformer2DModel":
        return _flux(config, sizes)
    rules: dict[str, Spec] = {
        "sample": image,
        "hidden_states": image,
        "timestep": moment,
        "encoder_hidden_states": Spec((examples, text, cross)),
        "pooled_projections": Spec((examples, config.get("pooled_projection_dim") or cross)),
        "controlnet_cond": Spec((examples, 3, 8 * height, 8 * width)),
    }
    takes = inspect.signature(model.forward).parameters
    asked = {key: spec for key, spec in rules.items() if key in takes}
    if not cross:
        asked.pop("encoder_hidden_states", None)
    classes = config.get("num_embeds_ada_norm") or config.get("num_class_embeds")
    if classes and "class_labels" in takes and (name.startswith("DiT") or name.startswith("UNet")):
        asked["class_labels"] = Spec((examples,), torch.int64, below=classes)
    if config.get("addition_embed_type") == "text_time":
        width = config["projection_class_embeddings_input_dim"]
        width -= 6 * config["addition_time_embed_dim"]
        asked["added_cond_kwargs.text_embeds"] = Spec((examples, width))
        asked["added_cond_kwargs.time_ids"] = Spec((examples, 6))
    return asked


def _flux(config: Any, sizes: ChosenSizes) -> dict[str, Spec]:
    """Packed patches of 2 by 2: a picture of 1,024 pixels is 64 by 64 of them."""
    examples, text = sizes.examples, sizes.length or LENGTH
    patches = ((sizes.image or 64) // 2 if sizes.image else 64) ** 2
    found = {
        "hidden_states": Spec((examples, patches, config["in_channels"])),
        "encoder_hidden_states": Spec((examples, text, config["joint_attention_dim"])),
        "pooled_projections": Spec((examples, config["pooled_projection_dim"])),
        "timestep": Spec((examples,)),
        "img_ids": Spec((patches, 3)),
        "txt_ids": Spec((text, 3)),
    }
    if config.get("guidance_embeds"):
        found["guidance"] = Spec((examples,))
    return found


def _cross(config: Any) -> int:
    """The width of the text that a denoising model looks at; 0 for none."""
    names = ("cross_attention_dim", "joint_attention_dim", "caption_channels")
    if config.get("encoder_hid_dim"):
        return int(config["encoder_hid_dim"])
    width = next((config[name] for name in reversed(names) if config.get(name)), 0)
    return int(width[0] if isinstance(width, list | tuple) else width)


def _timm(model: Any, sizes: ChosenSizes) -> dict[str, Spec]:
    config: Mapping[str, Any] = model.default_cfg
    channels, height, width = config.get("input_size") or (3, IMAGE, IMAGE)
    if sizes.image:
        height = width = sizes.image
    return {"x": Spec((sizes.examples, channels, height, width))}


def _looks_up_positions(model: nn.Module, most: int) -> bool:
    """Whether the positions are rows of a table, so that there are no others."""
    return any(
        isinstance(module, nn.Embedding)
        and ("pos" in name.rpartition(".")[2] or name.endswith("wpe"))
        and most <= module.num_embeddings <= most + PADDING_ROWS
        for name, module in model.named_modules()
    )


def _positions(whole: nn.Module, model: nn.Module, specs: dict[str, Spec]) -> dict[str, Spec]:
    """Names that the outer forward knows: a first input may be called otherwise there."""
    takes = inspect.signature(whole.forward).parameters
    if whole is not model or len(specs) != 1:
        return specs
    (name, spec), first = next(iter(specs.items())), next(iter(takes), "")
    return specs if name in takes or not first else {first: spec}


def _pair(size: Any) -> tuple[int, int]:
    """A side, two sides, or a dict of both, as height and width."""
    if isinstance(size, Mapping):
        return int(size.get("height", IMAGE)), int(size.get("width", IMAGE))
    if isinstance(size, list | tuple):
        return int(size[0]), int(size[-1])
    return int(size), int(size)
