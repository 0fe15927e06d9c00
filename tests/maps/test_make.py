"""A map by name, by example, or by a function of the size."""

import pytest
import torch

from engram.errors import DTypeError, OptionError, ShapeError
from engram.maps import MAPS, Cayley, Exponential, Free, Map, make_map


@pytest.mark.parametrize("name", MAPS)
def test_by_name(name: str) -> None:
    made = make_map(name, 7)
    assert type(made) is MAPS[name]
    assert made.size == 7
    assert make_map(name, 7) is not made


def test_the_names() -> None:
    assert {"free": Free, "exponential": Exponential, "cayley": Cayley}.items() <= MAPS.items()


def test_by_example_is_a_copy() -> None:
    """A map holds a base point: two matrices must not share one."""
    example = Cayley(3)
    example.right_inverse(-torch.eye(3))
    one, two = make_map(example, 3), make_map(example, 3)
    assert one is not example
    assert isinstance(one, Cayley)
    assert one.base.equal(-torch.eye(3))
    one.right_inverse(torch.eye(3))
    assert isinstance(two, Cayley)
    assert two.base.equal(-torch.eye(3))
    assert example.base.equal(-torch.eye(3))


def test_by_function() -> None:
    sizes: list[int] = []

    def half(size: int) -> Map:
        sizes.append(size)
        return Exponential(size)

    assert isinstance(make_map(half, 5), Exponential)
    assert sizes == [5]
    assert isinstance(make_map(Cayley, 5), Cayley)  # the class is such a function


UNKNOWN = {
    "cayly": "Did you mean 'cayley'",
    "Exponential": "Did you mean 'exponential'",
    "orthogonal": "expected one of",
    "": "expected one of",
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_name(name: str) -> None:
    """The message lists the known ones, and the nearest."""
    with pytest.raises(OptionError, match=UNKNOWN[name]) as caught:
        make_map(name, 3)
    assert all(known in str(caught.value) for known in MAPS)


@pytest.mark.parametrize("junk", [None, 3, 2.5, ["cayley"], lambda size: torch.eye(size), lambda size: None])
def test_junk(junk: object) -> None:
    with pytest.raises(DTypeError, match=r"map must be one of free, .*an engram\.maps\.Map, or a function.*got"):
        make_map(junk, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [Cayley(5), lambda size: Cayley(size + 1)])
def test_of_another_size(wrong: object) -> None:
    with pytest.raises(ShapeError, match=r"a map of size 3 is needed here, got Cayley\(\d\)"):
        make_map(wrong, 3)  # type: ignore[arg-type]
