"""The models of the table, as data: `MODELS`, those of one package beside each other."""

from real_models.zoo import adapters, diffusion, graphs, harder, images, pictures_and_sound, text
from real_models.zoo.model import Model

MODELS: tuple[Model, ...] = (
    *text.MODELS,
    *pictures_and_sound.MODELS,
    *harder.MODELS,
    *adapters.MODELS,
    *images.TIMM,
    *images.TORCHVISION,
    *diffusion.MODELS,
    *graphs.MODELS,
)

__all__ = ["MODELS", "Model"]
