"""The encoder of images that all relational networks share, learned or left as it was initialised."""

from itertools import pairwise
from typing import Any

from torch import Tensor, nn

from engram.errors import OptionError, check_last_axes, check_size

CODE = 128
"""The size of the code of an image, where neither the person nor the task says one."""


class PixelCNN(nn.Module):
    """Images ``(..., channels, height, width)`` to codes ``(..., size)``: three convolutions, two linear layers.

    Each convolution has 32 channels, kernel 4, stride 2, padding 1; the linear layers have 256 and ``size`` units; a
    ReLU follows each of the five, the last too, so that codes are never negative. Weights are Kaiming normal, biases 0.
    Height and width are at least 8: each convolution halves them. With 3 channels and 32 x 32 or 36 x 36 pixels it has
    198,624 parameters. Source: Webb et al. 2021 (ESBN), Kerg (2022), Section 5.5 and Appendix C.1 (CoRelNet).

    Args:
        shape: channels, height, width.
        size: of the code.
        frozen: leave the weights as they are initialised: the random encoder of Kerg (2022), Section 5.6.
    """

    channels, hidden = 32, 256

    def __init__(self, shape: tuple[int, ...], size: int = CODE, frozen: bool = False) -> None:
        super().__init__()
        is_shape = isinstance(shape, tuple | list) and all(isinstance(size, int) for size in shape)
        if not is_shape or len(shape) != 3 or min(shape[1:]) < 8 or shape[0] < 1:
            raise OptionError(
                f"the encoder of images takes (channels, height, width), at least 8 x 8 pixels: three convolutions "
                f"halve them three times; got {shape!r:.60}. embedding=0 takes plain pixels"
            )
        self.shape, self.output_size, self.frozen = tuple(shape), check_size("size", size), frozen
        sizes = [shape[0], self.channels, self.channels, self.channels]
        convolutions = [nn.Conv2d(a, b, 4, stride=2, padding=1) for a, b in pairwise(sizes)]
        pixels = self.channels * (shape[1] // 8) * (shape[2] // 8)
        linear = [nn.Linear(pixels, self.hidden), nn.Linear(self.hidden, size)]
        layers: list[Any] = [*convolutions, *linear]
        for layer in layers:
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)
        relu = nn.ReLU()
        self.layers = nn.Sequential(
            *(part for layer in convolutions for part in (layer, relu)),
            nn.Flatten(),
            *(part for layer in linear for part in (layer, relu)),
        )
        self.requires_grad_(not frozen)

    def forward(self, images: Tensor) -> Tensor:
        check_last_axes("the encoder of images", images.shape, self.shape)
        codes: Tensor = self.layers(images.reshape(-1, *self.shape))
        return codes.reshape(*images.shape[:-3], self.output_size)
