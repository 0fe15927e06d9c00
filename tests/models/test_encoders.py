"""From what a task shows to vectors: sizes, counts of the papers, tables of objects."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from engram.errors import DTypeError, OptionError, ShapeError
from engram.models import Embedding, Identity, Model, OneHot, OwnEncoder, PixelCNN, make_encoder, make_network
from engram.models._encoders import encoder_for
from engram.tasks import Batch, Copy, PennTreebank, Task


@dataclass(frozen=True)
class Images(Task):
    """Three images at random; which of two kinds was the first?"""

    side: int = 8
    channels: int = 3
    table: bool = False

    answer = "last"
    steps, output_size, chance, memoryless_baseline = 3, 2, 0.5, 0.693

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.channels, self.side, self.side)

    def images(self) -> Tensor:
        generator = torch.Generator().manual_seed(0)
        return torch.rand(10, *self.input_shape, generator=generator)

    def objects(self) -> Tensor | None:
        return self.images() if self.table else None

    def sample(self, batch_size: int, generator: torch.Generator) -> Batch:
        shown = torch.randint(10, (self.steps, batch_size), generator=generator)
        inputs = shown if self.table else self.images()[shown]
        return Batch(inputs, shown[:1] % 2, torch.ones(1, batch_size, dtype=torch.bool))

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        return nn.functional.cross_entropy(outputs.flatten(0, 1), batch.targets.flatten())

    def metrics(self, outputs: Tensor, batch: Batch) -> dict[str, float]:
        return {"accuracy": float((outputs.argmax(-1) == batch.targets).float().mean())}


def count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def test_shapes_of_a_task() -> None:
    assert (Copy(5).input_shape, Copy(5).input_size) == ((10,), 10)
    assert (Images().input_shape, Images().input_size) == ((3, 8, 8), 192)
    assert Images.name == "Images"  # the class's, where none is given

    class Silent(Images):
        input_shape = Task.input_shape  # type: ignore[assignment]

    with pytest.raises(NotImplementedError, match="Silent must say its input_size, or its input_shape"):
        _ = Silent().input_size


def test_counts_of_the_paper() -> None:
    """Kerg et al. 2022, Table 3: 198,624 with colours; ESBN's own code, grey: 197,600."""
    assert count(PixelCNN((3, 32, 32), 128)) == 198_624
    assert count(PixelCNN((1, 32, 32), 128)) == 197_600


def test_the_encoder_is_its_equation() -> None:
    """relu(W * x + b) three times, 4 x 4 pixels at every second place of an image with a border of zeros, then two
    layers relu(W x + b) of what is left, channel by channel."""
    encoder, image = PixelCNN((2, 17, 12), 5).double(), torch.rand(2, 17, 12, dtype=torch.float64)
    parameters = [p.detach() for p in encoder.parameters()]
    for bias in parameters[1::2]:
        bias.uniform_(-0.5, 0.5)
    code, now = encoder(image), image
    for weight, bias in zip(parameters[:6:2], parameters[1:6:2], strict=True):
        wide = torch.zeros(len(now), now.shape[1] + 2, now.shape[2] + 2, dtype=torch.float64)
        wide[:, 1:-1, 1:-1] = now
        windows = wide.unfold(1, 4, 2).unfold(2, 4, 2)
        now = (torch.einsum("cyxij,ocij->oyx", windows, weight) + bias[:, None, None]).clamp(min=0)
    now = now.flatten()
    for weight, bias in zip(parameters[6::2], parameters[7::2], strict=True):
        now = (weight @ now + bias).clamp(min=0)
    assert bool(now.any())
    torch.testing.assert_close(code, now, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", [(3, 8, 8), (1, 9, 17), (2, 36, 20)])
@pytest.mark.parametrize("lead", [(), (4,), (5, 4)])
def test_any_size_and_any_leading_axes(shape: tuple[int, ...], lead: tuple[int, ...]) -> None:
    encoder = PixelCNN(shape, 7)
    images = torch.rand(*lead, *shape)
    codes = encoder(images)
    assert codes.shape == (*lead, 7)
    assert bool((codes >= 0).all())  # the last ReLU
    torch.testing.assert_close(codes.reshape(-1, 7)[0], encoder(images.reshape(-1, *shape)[0]))


def test_start_of_the_weights() -> None:
    torch.manual_seed(0)
    encoder = PixelCNN((3, 32, 32), 128)
    for layer in (part for part in encoder.layers if isinstance(part, nn.Conv2d | nn.Linear)):
        assert layer.bias is not None
        assert not layer.bias.any()
        fan = layer.weight[0].numel()
        assert layer.weight.std().item() == pytest.approx((2 / fan) ** 0.5, rel=0.1)


@pytest.mark.parametrize("shape", [(3, 7, 8), (3, 8), (0, 8, 8)])
def test_too_small(shape: tuple[int, ...]) -> None:
    with pytest.raises(OptionError, match=r"at least 8 x 8 pixels.*embedding=0 takes plain pixels"):
        PixelCNN(shape)


def test_which_encoder() -> None:
    text = PennTreebank(bptt=5)
    assert isinstance(make_encoder(text, 0), OneHot)
    assert isinstance(embedding := make_encoder(text), Embedding)
    assert embedding.output_size == text.embedding == 200
    assert make_encoder(text, 3).output_size == 3
    assert isinstance(make_encoder(Copy(5)), Identity)
    assert isinstance(pixels := make_encoder(Images()), PixelCNN)
    assert (pixels.output_size, make_encoder(Images(), 9).output_size) == (128, 9)

    class Small(Images):
        embedding = 20

    assert make_encoder(Small()).output_size == 20  # that of the task's paper
    assert isinstance(plain := make_encoder(Images(), 0), Identity)
    assert plain.output_size == 192
    images = torch.rand(2, 4, 3, 8, 8)
    assert plain(images).equal(images.reshape(2, 4, 192))
    with pytest.raises(OptionError, match="embedding is for tasks of symbols or images; copy has 10 numbers per step"):
        make_encoder(Copy(5), 3)


def test_one_hot_follows_the_network() -> None:
    encoder = OneHot(3)
    assert encoder.double()(torch.tensor([0, 2])).equal(torch.eye(3, dtype=torch.float64)[[0, 2]])
    assert encoder.state_dict() == {}


@pytest.mark.parametrize("embedding", [None, 0, 5])
def test_objects_are_encoded_once(embedding: int | None) -> None:
    """Rows of a table give what the images themselves give; each of them is seen once, however often it is shown."""
    networks = []
    for table in (False, True):
        torch.manual_seed(1)
        networks.append(make_network(Images(table=table), Model("gru", hidden=6, embedding=embedding)))
    plain, indexed = networks
    assert plain.state_dict().keys() == indexed.state_dict().keys()  # the table is the task's, and not saved
    batch = Images(table=True).sample(50, torch.Generator().manual_seed(2))
    seen: list[int] = []
    indexed.encoder.register_forward_hook(lambda module, given, output: seen.append(len(given[0])))
    outputs, images = indexed(batch.inputs)[0], Images(table=False).images()[batch.inputs]
    torch.testing.assert_close(outputs, plain(images)[0], rtol=1e-5, atol=1e-6)
    assert seen == [10]  # of 150 shown
    outputs.sum().backward()
    plain(images)[0].sum().backward()
    for a, b in zip(plain.parameters(), indexed.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-4)
    assert indexed.double()(batch.inputs)[0].dtype == torch.float64


def test_a_table_of_another_precision() -> None:
    class Doubles(Images):
        def objects(self) -> Tensor:
            return self.images().double()

    network = make_network(Doubles(table=True), Model("gru", hidden=4))
    assert network.objects.dtype == torch.float32
    assert network(torch.zeros(3, 2, dtype=torch.int64))[0].shape == (1, 2, 2)


def test_tables_that_do_not_fit() -> None:
    class Bytes(Images):
        def objects(self) -> Tensor:
            return torch.zeros(4, 3, 8, 8, dtype=torch.uint8)

    class Flat(Images):
        def objects(self) -> Tensor:
            return torch.zeros(4, 192)

    with pytest.raises(DTypeError, match="must be a tensor of real numbers"):
        make_network(Bytes(), Model("gru", hidden=4))
    with pytest.raises(ShapeError, match=r"must be \(objects, 3, 8, 8\), got \(4, 192\)"):
        make_network(Flat(), Model("gru", hidden=4))


def test_an_encoder_that_mixes_rows_is_refused() -> None:
    class Joined(nn.Flatten):
        def forward(self, images: Tensor) -> Tensor:
            return super().forward(images).mean(0, keepdim=True)

    with pytest.raises(ShapeError, match=r"must make a vector of each input.*it made \(1, 12\)"):
        OwnEncoder(Joined(), (3, 2, 2))


@pytest.mark.parametrize(("encoder", "learns"), [("", True), ("learned", True), ("random", False)])
def test_only_a_random_encoder_stays_as_it_is(encoder: str, learns: bool) -> None:
    made = encoder_for(Images(), None, encoder)[0]()
    assert {weight.requires_grad for weight in made.parameters()} == {learns}
