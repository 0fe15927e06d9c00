"""Wrong sizes and inputs of relational networks: engram says what was expected and what came, not torch."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engram.errors import DTypeError, EngramError, OptionError, ShapeError
from engram.models import Model, make_network
from engram.relational import (
    ESBN,
    MNM,
    NTM,
    ContextNorm,
    CoRelNet,
    CoRelNetT,
    PixelCNN,
    PrediNet,
    RelationNetwork,
    Similarity,
    Sparse,
    Transformer,
)
from engram.tasks import make_task

NETWORKS: dict[str, Callable[..., nn.Module]] = {
    "corelnet": lambda F=8, C=4, T=3: CoRelNet(F, C, T),
    "corelnet-t": lambda F=8, C=4, T=3: CoRelNetT(F, C, T),
    "esbn": lambda F=8, C=4, T=3: ESBN(F, C, T, 8),
    "sensory esbn": lambda F=8, C=4, T=3: ESBN(F, C, T, 8, sensory=True),
    "transformer": lambda F=8, C=4, T=3: Transformer(F, C),
    "predinet": lambda F=8, C=4, T=3: PrediNet(F, C, T),
    "rn": lambda F=8, C=4, T=3: RelationNetwork(F, C),
    "ntm": lambda F=8, C=4, T=3: NTM(F, C, 8),
    "mnm": lambda F=8, C=4, T=3: MNM(F, C, T, 8),
}
ANY_LENGTH = ("transformer", "rn", "ntm")


@pytest.mark.parametrize("name", NETWORKS)
class TestNetworks:
    def test_numbers_of_another_type(self, name: str) -> None:
        network, codes = NETWORKS[name](), torch.randn(3, 2, 8)
        assert network(codes).shape == (2, 4)
        with pytest.raises(DTypeError, match=re.escape("input is torch.float64 and the layer torch.float32")):
            network(codes.double())
        with pytest.raises(DTypeError, match=re.escape("input is torch.int64, whole numbers")):
            network(codes.long())
        with pytest.raises(DTypeError, match="takes codes as a tensor"):
            network(codes.tolist())
        assert network.double()(codes.double()).dtype == torch.float64

    def test_other_shapes(self, name: str) -> None:
        network = NETWORKS[name]()
        for shape in ((3, 2, 7), (2, 8), (0, 2, 8), (3, 2, 8, 1)):
            with pytest.raises(ShapeError, match=re.escape(f"takes codes (steps, batch, 8), got {shape}")):
                network(torch.randn(*shape))

    def test_sizes(self, name: str) -> None:
        places = {"F": "input_size", "C": "output_size"} | ({} if name in ANY_LENGTH else {"T": "steps"})
        for place, argument in places.items():
            for size in (0, -1, 2.5, "3", True, None):
                with pytest.raises(EngramError, match=f"^{argument} must be "):
                    NETWORKS[name](**{place: size})

    def test_under_autocast(self, name: str) -> None:
        network, codes = NETWORKS[name](), torch.randn(3, 2, 8)
        with torch.autocast("cpu", torch.bfloat16):
            answers = network(codes.bfloat16())
        torch.testing.assert_close(answers.float(), network(codes.bfloat16().float()), rtol=0.1, atol=0.1)


def test_no_layer_of_a_transformer() -> None:
    for layers in (0, 1.5):
        with pytest.raises(EngramError, match=r"^num_layers must be "):
            Transformer(8, 2, layers)  # type: ignore[arg-type]


class TestSimilarity:
    @pytest.mark.parametrize("shape", [(5, 2, 8), (2, 2, 8), (3, 2, 7), (2, 8)])
    @pytest.mark.parametrize("call", [lambda part, codes: part(codes), lambda part, codes: part.flat(codes)])
    def test_other_codes(self, call: Callable[[Similarity, Tensor], Tensor], shape: tuple[int, ...]) -> None:
        """Of more steps the entries would be those of another matrix."""
        with pytest.raises(ShapeError, match=r"^Similarity "):
            call(Similarity(8, 3), torch.randn(*shape))

    def test_sizes(self) -> None:
        for sizes, name in (((0, 3), "input_size"), ((8, 0), "steps"), ((8.0, 3), "input_size")):
            with pytest.raises(EngramError, match=f"^{name} must be "):
                Similarity(*sizes)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(4, 2, 1), (4, 2, 7), (4, 8), (4,)])
def test_codes_of_another_size_are_not_normalised(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=re.escape(f"takes codes (steps, batch, 8), got {shape}")):
        ContextNorm(8)(torch.randn(*shape))


class TestImages:
    """As many pixels in another shape are other images."""

    @pytest.mark.parametrize("shape", [(2, 3, 16, 64), (2, 3, 36, 36), (3, 32), (2, 1, 32, 32)])
    def test_of_another_size(self, shape: tuple[int, ...]) -> None:
        with pytest.raises(ShapeError, match=re.escape(f"was made for inputs (..., 3, 32, 32), got {shape}")):
            PixelCNN((3, 32, 32))(torch.rand(*shape))

    def test_in_a_network(self) -> None:
        network = make_network(make_task("rmts", holdout=95), Model("corelnet"))
        assert network(torch.rand(6, 2, 3, 32, 32))[0].shape[-1] == 2
        with pytest.raises(ShapeError, match="the encoder of images was made for"):
            network(torch.rand(6, 2, 3, 16, 64))

    def test_of_another_encoder(self) -> None:
        network = make_network(make_task("rmts", holdout=95), Model("corelnet", encoder="torch.nn:Flatten"))
        with pytest.raises(ShapeError, match=re.escape("the encoder Flatten was made for inputs (..., 3, 32, 32)")):
            network(torch.rand(6, 2, 3, 16, 64))

    @pytest.mark.parametrize("shape", [(3, 32.5, 32), ("a", 32, 32), None, (3, 32), 32])
    def test_that_are_none(self, shape: Any) -> None:
        with pytest.raises(OptionError, match=re.escape("takes (channels, height, width), at least 8 x 8 pixels")):
            PixelCNN(shape)

    def test_a_list_is_a_shape(self) -> None:
        assert PixelCNN([3, 32, 32])(torch.rand(2, 3, 32, 32)).shape == (2, 128)  # type: ignore[arg-type]


def test_a_penalty_without_end() -> None:
    with pytest.raises(OptionError, match="must be above 0 and finite, got inf"):
        Sparse(8, float("inf"))
