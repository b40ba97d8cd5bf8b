"""Image models of timm and torchvision: classification, segmentation and detection."""

from __future__ import annotations

from typing import Any

import torch

from real_models.zoo.model import Built, Model, image

OPTIONS = ("train", "grad", "gate", "dtype")


def _mode(options: dict[str, Any]) -> str:
    """What tells apart two lines about one model."""
    fp16 = "-fp16" if options.get("dtype") is torch.float16 else ""
    return fp16 + ("" if options.get("train", True) else "-eval")


def _timm(name: str, kind: str, size: int = 32, **settings: Any) -> Model:
    options = {key: settings.pop(key) for key in OPTIONS if key in settings}

    def build() -> Built:
        import timm

        return timm.create_model(name, num_classes=10, **settings), (image(size=size),), {}

    return Model(f"timm/{name}{_mode(options)}", "timm", kind, build, **options)


SMALL_VIT = {"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": 2, "num_heads": 4}

TIMM: tuple[Model, ...] = (
    _timm("resnet18", "batch norm", 64, gate=True),
    _timm("resnet18", "FP16", 64, dtype=torch.float16),
    _timm("resnet50", "bottlenecks", 64),
    _timm("resnext26ts", "grouped convolutions", 64),
    _timm("vit_small_patch16_224", "patches", **SMALL_VIT),
    _timm("vit_small_patch16_224", "FP16", dtype=torch.float16, **SMALL_VIT),
    _timm("deit3_small_patch16_224", "layer scale", **SMALL_VIT),
    _timm("eva02_tiny_patch14_224", "rotary, SwiGLU", 28, img_size=28, embed_dim=32, depth=2,
          num_heads=4),
    _timm("efficientnet_b0", "squeeze and excite", 64),
    _timm("efficientnet_b0", "squeeze and excite", 64, train=False),
    _timm("mobilenetv3_small_100", "hard swish", 64),
    _timm("mobilenetv4_conv_small", "inverted bottlenecks", 64),
    _timm("regnety_002", "grouped convolutions", 64),
    _timm("densenet121", "concatenations"),
    _timm("convnext_atto", "depthwise, layer norm", 64),
    _timm("swin_tiny_patch4_window7_224", "shifted windows", 56, img_size=56, embed_dim=16,
          depths=(2, 2), num_heads=(2, 4)),
    _timm("mixer_s16_224", "no attention", img_size=32),
    _timm("maxvit_nano_rw_256", "windows and grids", 64, img_size=64),
    _timm("coatnet_nano_rw_224", "convolution, then attention", 64, img_size=64),
    _timm("inception_v4", "branches", 96),
    _timm("nfnet_l0", "weight standardisation", 64),
    _timm("edgenext_xx_small", "channel attention", 64),
)  # fmt: skip


def _tv(name: str, kind: str, size: int = 64, **settings: Any) -> Model:
    options = {key: settings.pop(key) for key in OPTIONS if key in settings}

    def build() -> Built:
        from torchvision.models import get_model

        return get_model(name, weights=None, **settings), (image(size=size),), {}

    return Model(f"torchvision/{name}{_mode(options)}", "torchvision", kind, build, **options)


def _detector(name: str, kind: str, train: bool, **settings: Any) -> Model:
    """A detector; in training it also takes the true boxes and gives its losses."""

    def build() -> Built:
        from torchvision.models.detection import __dict__ as models

        model = models[name](
            weights=None, weights_backbone=None, num_classes=4, **settings
        )  # fmt: skip
        boxes = torch.tensor([[4.0, 6.0, 40.0, 44.0], [10.0, 10.0, 30.0, 28.0]])
        target = {"boxes": boxes, "labels": torch.tensor([1, 2])}
        if "mask" in name:
            target["masks"] = torch.ones(2, 64, 64, dtype=torch.uint8)
        images = list(image(size=64))
        targets = [{key: value.clone() for key, value in target.items()} for _ in images]
        return model, ((images, targets) if train else (images,)), {}

    mode = "train" if train else "eval"
    return Model(f"torchvision/{name}-{mode}", "torchvision", kind, build, train, grad=train)


SMALL = {"min_size": 64, "max_size": 96}
RCNN = SMALL | {"rpn_post_nms_top_n_train": 20, "rpn_post_nms_top_n_test": 10}

TORCHVISION: tuple[Model, ...] = (
    _tv("resnet18", "batch norm"),
    _tv("resnet50", "evaluation", train=False),
    _tv("vgg11_bn", "large linear layers"),
    _tv("alexnet", "dropout"),
    _tv("mobilenet_v3_small", "large steps", gate=True),
    _tv("mobilenet_v2", "inverted bottlenecks"),
    _tv("shufflenet_v2_x0_5", "channel shuffles"),
    _tv("squeezenet1_1", "concatenations"),
    _tv("googlenet", "auxiliary heads", init_weights=False),
    _tv("vit_b_16", "nn.MultiheadAttention", image_size=64),
    _tv("swin_t", "shifted windows"),
    _tv("convnext_tiny", "layer norm, layer scale"),
    _tv("efficientnet_v2_s", "fused bottlenecks"),
    _tv("fcn_resnet50", "segmentation", weights_backbone=None),
    _tv("deeplabv3_mobilenet_v3_large", "dilated convolutions", weights_backbone=None),
    _tv("lraspp_mobilenet_v3_large", "segmentation", weights_backbone=None),
    _detector("fasterrcnn_mobilenet_v3_large_fpn", "two-stage detection", train=True, **RCNN),
    _detector("fasterrcnn_mobilenet_v3_large_fpn", "two-stage detection", train=False, **RCNN),
    _detector("maskrcnn_resnet50_fpn", "masks", train=False, box_detections_per_img=3, **RCNN),
    _detector("ssdlite320_mobilenet_v3_large", "one-stage detection", train=True),
    _detector("retinanet_resnet50_fpn", "one-stage detection", train=False, **SMALL),
    _detector("fcos_resnet50_fpn", "one-stage detection", train=True, **SMALL),
)  # fmt: skip
