"""Layers with a name, in suites: the twelve of the im2win papers, the convolutions of known networks, first layers.

Of a network each different convolution is there once, under the name of the first module that has it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Layers by name, as shape strings without the batch, and the batch that they have where none is asked for."""

    batch: int
    layers: Mapping[str, str]


IM2WIN_SUITE = {
    "cv1": "c3h227w227k96r11s11st4",
    "cv2": "c3h231w231k96r11s11st4",
    "cv3": "c3h227w227k64r7s7st2",
    "cv4": "c64h224w224k64r7s7st2",
    "cv5": "c96h24w24k256r5s5",
    "cv6": "c256h12w12k512r3s3",
    "cv7": "c3h224w224k64r3s3",
    "cv8": "c64h112w112k128r3s3",
    "cv9": "c64h56w56k64r3s3",
    "cv10": "c128h28w28k128r3s3",
    "cv11": "c256h14w14k256r3s3",
    "cv12": "c512h7w7k512r3s3",
}

# He et al., Deep Residual Learning, table 1, with the stride in the 3x3 as torchvision has it, whose names these are.
_RESNET50 = {
    "resnet50.conv1": "c3h224w224k64r7s7st2pad3",
    "resnet50.layer1.0.conv1": "c64h56w56k64r1s1",
    "resnet50.layer1.0.conv2": "c64h56w56k64r3s3pad1",
    "resnet50.layer1.0.conv3": "c64h56w56k256r1s1",
    "resnet50.layer1.1.conv1": "c256h56w56k64r1s1",
    "resnet50.layer2.0.conv1": "c256h56w56k128r1s1",
    "resnet50.layer2.0.conv2": "c128h56w56k128r3s3st2pad1",
    "resnet50.layer2.0.conv3": "c128h28w28k512r1s1",
    "resnet50.layer2.0.downsample": "c256h56w56k512r1s1st2",
    "resnet50.layer2.1.conv1": "c512h28w28k128r1s1",
    "resnet50.layer2.1.conv2": "c128h28w28k128r3s3pad1",
    "resnet50.layer3.0.conv1": "c512h28w28k256r1s1",
    "resnet50.layer3.0.conv2": "c256h28w28k256r3s3st2pad1",
    "resnet50.layer3.0.conv3": "c256h14w14k1024r1s1",
    "resnet50.layer3.0.downsample": "c512h28w28k1024r1s1st2",
    "resnet50.layer3.1.conv1": "c1024h14w14k256r1s1",
    "resnet50.layer3.1.conv2": "c256h14w14k256r3s3pad1",
    "resnet50.layer4.0.conv1": "c1024h14w14k512r1s1",
    "resnet50.layer4.0.conv2": "c512h14w14k512r3s3st2pad1",
    "resnet50.layer4.0.conv3": "c512h7w7k2048r1s1",
    "resnet50.layer4.0.downsample": "c1024h14w14k2048r1s1st2",
    "resnet50.layer4.1.conv1": "c2048h7w7k512r1s1",
    "resnet50.layer4.1.conv2": "c512h7w7k512r3s3pad1",
}

# Simonyan and Zisserman, Very Deep Convolutional Networks, table 1, configuration D; torchvision's names.
_VGG16 = {
    "vgg16.features.0": "c3h224w224k64r3s3pad1",
    "vgg16.features.2": "c64h224w224k64r3s3pad1",
    "vgg16.features.5": "c64h112w112k128r3s3pad1",
    "vgg16.features.7": "c128h112w112k128r3s3pad1",
    "vgg16.features.10": "c128h56w56k256r3s3pad1",
    "vgg16.features.12": "c256h56w56k256r3s3pad1",
    "vgg16.features.17": "c256h28w28k512r3s3pad1",
    "vgg16.features.19": "c512h28w28k512r3s3pad1",
    "vgg16.features.24": "c512h14w14k512r3s3pad1",
}

# Redmon and Farhadi, YOLOv3, table 1, on 416x416 images: the stem, and of each stage the convolution with stride 2 and
# the two of a residual block.
_DARKNET53 = {
    "darknet53.stem": "c3h416w416k32r3s3pad1",
    "darknet53.stage1.down": "c32h416w416k64r3s3st2pad1",
    "darknet53.stage1.conv1": "c64h208w208k32r1s1",
    "darknet53.stage1.conv2": "c32h208w208k64r3s3pad1",
    "darknet53.stage2.down": "c64h208w208k128r3s3st2pad1",
    "darknet53.stage2.conv1": "c128h104w104k64r1s1",
    "darknet53.stage2.conv2": "c64h104w104k128r3s3pad1",
    "darknet53.stage3.down": "c128h104w104k256r3s3st2pad1",
    "darknet53.stage3.conv1": "c256h52w52k128r1s1",
    "darknet53.stage3.conv2": "c128h52w52k256r3s3pad1",
    "darknet53.stage4.down": "c256h52w52k512r3s3st2pad1",
    "darknet53.stage4.conv1": "c512h26w26k256r1s1",
    "darknet53.stage4.conv2": "c256h26w26k512r3s3pad1",
    "darknet53.stage5.down": "c512h26w26k1024r3s3st2pad1",
    "darknet53.stage5.conv1": "c1024h13w13k512r1s1",
    "darknet53.stage5.conv2": "c512h13w13k1024r3s3pad1",
}

_KERNELS = ((3, 3), (5, 5), (7, 7), (11, 11), (1, 16))
_CHANNELS = (1, 2, 4, 6, 8)


def _first_layers() -> dict[str, str]:
    """Few channels by kernels: each pair once, the strides 1 to 4 in turn; and the patches of a vision transformer."""
    layers = {"first.vit": "c3h224w224k768r16s16st16"}
    for i, c in enumerate(_CHANNELS):
        for j, (r, s) in enumerate(_KERNELS):
            stride = 1 + (i + j) % 4
            end = f"st{stride}" if stride > 1 else ""
            layers[f"first.c{c}r{r}s{s}"] = f"c{c}h64w64k64r{r}s{s}{end}"
    return layers


SUITES: dict[str, Suite] = {
    "im2win": Suite(batch=128, layers=IM2WIN_SUITE),
    "resnet50": Suite(batch=32, layers=_RESNET50),
    "vgg16": Suite(batch=32, layers=_VGG16),
    "darknet53": Suite(batch=32, layers=_DARKNET53),
    "first": Suite(batch=128, layers=_first_layers()),
}

# shape without the batch -> the first name that it has
_NAMES = {shape: name for suite in reversed(SUITES.values()) for name, shape in suite.layers.items()}


def named_shape(name: str, batch: int | None = None) -> str | None:
    """The shape string of a named layer at `batch` (its suite's if None), or None if the name is unknown."""
    wanted = name.lower()
    for suite in SUITES.values():
        if wanted in suite.layers:
            return f"n{batch or suite.batch}{suite.layers[wanted]}"
    return None


def name_of(shape: str) -> str | None:
    """The name of a canonical shape string, whatever its batch; None if it has none."""
    return _NAMES.get(shape.lstrip("n").lstrip("0123456789"))


def expanded(names: Iterable[str]) -> list[str]:
    """The names in lower case, with the layers of a suite in its place."""
    lower = [name.lower() for name in names]
    return [layer for name in lower for layer in (SUITES[name].layers if name in SUITES else (name,))]
