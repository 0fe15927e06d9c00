"""What is done to a state whatever it is made of."""

import math
from typing import Any, NamedTuple

import pytest
import torch

from engram.errors import DTypeError, OptionError, ShapeError
from engram.state import (
    Field,
    Vectors,
    carried,
    check_fields,
    checked,
    detached,
    each,
    first_rows,
    in_dtype,
    named_fields,
    parts,
    replace_rows,
    stack,
    unstack,
)


class Two(NamedTuple):
    h: Any
    past: Any


FIELDS = Two(Field(3), Field(2, grows=True, initial=-math.inf))


def state(batch: int, steps: int) -> Two:
    return Two(torch.randn(batch, 3), torch.randn(batch, steps, 2))


def test_a_field_before_the_first_step() -> None:
    like = torch.zeros(1, dtype=torch.float64)
    assert Field(4, 5, initial=2.0).before(3, like).tolist() == [[[2.0] * 5] * 4] * 3
    assert Field(dtype=torch.bool, initial=True).before(2, like).tolist() == [True, True]
    assert Field(5, grows=True).before(2, like).shape == (2, 0, 5)
    assert Field(5, dtype=torch.int32, initial=-1).before(1, like).dtype == torch.int32
    assert Field(5).before(1, like).dtype == torch.float64
    assert Field(3) == Field(3)
    assert Field(3) != Field(3, initial=1.0)


def test_each_keeps_the_form() -> None:
    a = torch.ones(2)
    assert torch.equal(each(lambda s: s + 1, a), a + 1)
    assert type(each(lambda s: s + 1, (a, a))) is tuple
    assert type(each(lambda s: s + 1, Two(a, a))) is Two
    assert [name for name, _ in named_fields(FIELDS)] == ["h", "past"]
    assert [name for name, _ in named_fields(Field(3))] == [""]
    assert parts(None) == []
    assert parts(a)[0] is a


def test_rows_that_have_ended_are_filled_up() -> None:
    old, new = state(3, 4), state(2, 5)
    joined = replace_rows(new, old, FIELDS)
    assert torch.equal(first_rows(joined, 2).past, new.past)
    assert torch.equal(joined.h[2], old.h[2])
    assert torch.equal(joined.past[2, :4], old.past[2])
    assert joined.past[2, 4].tolist() == [-math.inf] * 2
    plain = replace_rows(torch.ones(1, 3), torch.zeros(2, 3))
    assert plain.tolist() == [[1.0] * 3, [0.0] * 3]


def test_numbers_beside_a_memory() -> None:
    """A field of one number a row has no second axis: only what grows is filled up."""
    fields = Two(Field(), Field(2, grows=True))
    old, new = Two(torch.zeros(3), torch.zeros(3, 1, 2)), Two(torch.ones(2), torch.ones(2, 2, 2))
    joined = replace_rows(new, old, fields)
    assert joined.h.tolist() == [1, 1, 0]
    assert joined.past[2].tolist() == [[0, 0], [0, 0]]


def test_a_field_is_where_the_weights_are() -> None:
    for field in (Field(3), Field(3, grows=True)):
        assert field.before(2, torch.zeros(1, device="meta")).device.type == "meta"


def test_stacked_and_taken_apart() -> None:
    cells = [state(2, 4), state(2, 4)]
    whole = stack(cells)
    assert whole.past.shape == (2, 2, 4, 2)
    for mine, theirs in zip(unstack(whole), cells, strict=True):
        assert torch.equal(mine.past, theirs.past)


def test_what_goes_on() -> None:
    begin = Two(torch.ones(2, 3, requires_grad=True) * 2, torch.ones(2, 4, 2, requires_grad=True) * 2)
    assert not any(part.requires_grad for part in detached(begin))
    on = carried(begin, FIELDS)
    assert on.past.shape == (2, 0, 2)
    assert torch.equal(on.h, begin.h)


LIKE = torch.zeros(1)
H, PAST = torch.zeros(1, 2, 3), torch.zeros(1, 2, 4, 2)
WRONG: list[tuple[Any, Any, type[Exception], str]] = [
    (H, FIELDS, DTypeError, r"must be a Two of 2 tensors, got Tensor"),
    ((H,), FIELDS, DTypeError, r"must be a Two of 2 tensors, got tuple"),
    ((H, None), FIELDS, DTypeError, r"the field past of the state \(hx\) must be a tensor, got NoneType"),
    ((H, PAST[0]), FIELDS, ShapeError, r"the field past .* must have the shape \(1, 2, 2, 2\).*got \(2, 4, 2\)"),
    ((H, PAST.double()), FIELDS, DTypeError, r"the field past .* is torch.float64 and the layer torch.float32"),
    ((H[:, :1], PAST), FIELDS, ShapeError, r"the field h .* must have the shape \(1, 2, 3\)"),
    (H, Field(4), ShapeError, r"state \(hx\) must have the shape \(1, 2, 4\)"),
    ([H], Field(3), DTypeError, r"must be one tensor, got list"),
    (H.int(), Field(3), DTypeError, r"state \(hx\) is torch.int32, whole numbers, .*: state.to\(torch.float32\)\.$"),
    (H, Field(3, dtype=torch.bool), DTypeError, r"is torch.float32 and must be torch.bool"),
]


@pytest.mark.parametrize(("given", "fields", "kind", "message"), WRONG)
def test_a_state_that_does_not_fit(given: Any, fields: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message) as refused:
        checked(given, fields, 1, 2, LIKE)
    assert "\n" not in str(refused.value)


def test_a_state_that_fits() -> None:
    for steps in (0, 4):
        found = checked((H, torch.zeros(1, 2, steps, 2)), FIELDS, 1, 2, LIKE)
        assert type(found) is Two
    assert checked(torch.zeros(1, 3), Field(3), 1, None, LIKE).shape == (1, 3)
    assert checked(H, Field(3), 1, 2, LIKE.to(torch.complex64)).dtype == torch.complex64
    with torch.autocast("cpu"):
        assert in_dtype(H.bfloat16(), torch.float32, H.device).dtype == torch.float32


GOOD_FIELDS = [
    Field(), Field(0, 3), Field(2, trained=True), Field(2, dtype=torch.complex64, initial=0.5),
    Field(2, dtype=torch.int64, initial=2.0), Field(2, dtype=torch.bool, initial=True), Field(2, initial=math.inf),
]  # fmt: skip


@pytest.mark.parametrize("field", GOOD_FIELDS, ids=str)
def test_a_field_that_may_be(field: Field) -> None:
    two = Two(field, Field(1))
    assert check_fields(field) is field
    assert check_fields(two) is two


WRONG_FIELDS: list[tuple[Any, type[Exception], str]] = [
    (lambda: Field(-1), OptionError, "a size of a field must be at least 0, got -1"),
    (lambda: Field(2, 2.0), DTypeError, "a size of a field must be a whole number"),  # type: ignore[arg-type]
    (lambda: Field(2, trained=True, grows=True), DTypeError, "a trained field has the dtype of the weights"),
    (lambda: Field(2, trained=True, dtype=torch.float32), DTypeError, "a trained field has the dtype of the weights"),
    (lambda: Field(2, dtype=torch.int64, initial=0.5), DTypeError, "starts from a whole number, got initial=0.5"),
    (lambda: Field(2, dtype=torch.bool, initial=-1.5), DTypeError, "starts from a whole number, got initial=-1.5"),
    (lambda: check_fields(None), DTypeError, r"must return a Field, or a NamedTuple of them; got None"),
    (lambda: check_fields([Field(1)]), DTypeError, "must return a Field"),
    (lambda: check_fields((Field(1), Field(1))), DTypeError, "must return a Field"),  # of no names
    (lambda: check_fields(Two(Field(1), 3)), DTypeError, "must return a Field"),
    (lambda: check_fields(NamedTuple("Empty", [])()), DTypeError, "must return a Field"),
]


@pytest.mark.parametrize(("make", "kind", "message"), WRONG_FIELDS, ids=[message for *_, message in WRONG_FIELDS])
def test_a_field_that_may_not_be(make: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        make()


def test_memories_of_different_lengths() -> None:
    """All that grows has one length: the shortest is meant, and the other is named."""
    fields = Two(Field(3, grows=True), Field(2, grows=True))
    memory, past = torch.zeros(1, 2, 4, 3), torch.zeros(1, 2, 5, 2)
    with pytest.raises(ShapeError, match=r"the field past .* must have the shape \(1, 2, 4, 2\)"):
        checked((memory, past), fields, 1, 2, LIKE)
    assert checked((memory, past[:, :, :4]), fields, 1, 2, LIKE).past.shape == (1, 2, 4, 2)
    with pytest.raises(ShapeError, match=r"the field h .* must have the shape \(1, 2, 0, 3\)"):  # none is known
        checked((memory[0, 0], past[0, 0]), fields, 1, 2, LIKE)


def test_a_field_of_its_own_dtype() -> None:
    """Not that of the weights, whether it stands alone or beside others."""
    for dtype in (torch.int64, torch.bool, torch.complex64):
        given = torch.ones(1, 2, 3, dtype=dtype)
        assert checked(given, Field(3, dtype=dtype), 1, 2, LIKE) is given
        assert checked((H, given), Two(Field(3), Field(3, dtype=dtype)), 1, 2, LIKE).past is given
        for fields in (Field(3, dtype=dtype), Two(Field(3, dtype=dtype), Field(3))):
            with pytest.raises(DTypeError, match=r"torch\.float16"):
                checked(H.half() if isinstance(fields, Field) else (H.half(), H), fields, 1, 2, LIKE)


UNCLEAR = {
    "no tensor": ((), ()),
    "another form": ((torch.zeros(2),), (torch.zeros(3), torch.zeros(3))),
    "a number": ((torch.zeros(2), 1.0), (torch.zeros(3), 1.0)),
    "another rank": (torch.zeros(2, 1), torch.zeros(3)),
    "no batch": (torch.zeros(4), torch.zeros(4)),
    "two axes": (torch.zeros(2, 2), torch.zeros(3, 3)),
    "twice the batch": (torch.zeros(4), torch.zeros(6)),
    "the other way round": (torch.zeros(3), torch.zeros(2)),
    "one of two": ((torch.zeros(2), torch.zeros(2)), (torch.zeros(3), torch.zeros(2))),
    "integers": (torch.zeros(2, dtype=torch.int64), torch.zeros(3, dtype=torch.int64)),
    "booleans": ((torch.zeros(2), torch.zeros(2).bool()), (torch.zeros(3), torch.zeros(3).bool())),
}


@pytest.mark.parametrize("name", UNCLEAR)
def test_states_that_are_no_vectors(name: str) -> None:
    assert Vectors.between(*UNCLEAR[name]) is None


def test_a_vector_has_the_dtypes_of_its_parts() -> None:
    """In one dtype while it is a vector, and each its own again; the batch where it was, and all contiguous."""

    def state(batch: int) -> Any:
        shape = (3, batch)
        return [torch.randn(shape).half(), torch.randn(shape).double(), torch.randn(shape, dtype=torch.complex128)]

    vectors, given = Vectors.between(state(2), state(3)), state(4)
    assert vectors is not None
    assert (vectors.size, vectors.batch, vectors.shapes) == (3 + 3 + 6, (1, 1, 1), ((3,), (3,), (3,)))
    again = vectors.restore(vectors.flatten(given))
    for part, before in zip(again, given, strict=True):
        assert part.dtype == before.dtype
        assert part.is_contiguous()
        assert torch.equal(part, before)


NUMBERS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
PARTS = {torch.complex64: torch.float32, torch.complex128: torch.float64}


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("layer", [*NUMBERS, *PARTS, torch.int64, torch.bool], ids=str)
@pytest.mark.parametrize("given", [*NUMBERS, *PARTS, torch.int64, torch.int32, torch.bool], ids=str)
def test_which_dtypes_are_converted(given: torch.dtype, layer: torch.dtype, autocast: bool) -> None:
    """The same dtype; the parts of a complex number; under autocast every real number for a layer of numbers."""
    tensor, cpu = torch.ones(2, dtype=given), torch.device("cpu")
    fits = given == layer or PARTS.get(layer) == given
    fits |= autocast and given in NUMBERS and layer in (*NUMBERS, *PARTS)
    with torch.autocast("cpu", enabled=autocast):
        if fits:
            assert torch.equal(in_dtype(tensor, layer, cpu), tensor.to(layer))
            assert in_dtype(tensor, layer, cpu).dtype == layer
        else:
            with pytest.raises(DTypeError, match=f"^input is {given}\\b") as told:
                in_dtype(tensor, layer, cpu)
            words = "Symbols must be embedded" in str(told.value)
            assert words == (not (given.is_floating_point or given.is_complex) and layer in (*NUMBERS, *PARTS))
    assert in_dtype(tensor, given, cpu) is tensor


def test_a_tensor_on_another_device() -> None:
    for what, word in (("input", "input"), ("state (hx)", "state")):
        with pytest.raises(DTypeError) as told:
            in_dtype(torch.ones(1, device="meta"), torch.float32, torch.device("cpu"), what)
        assert str(told.value) == f"{what} is on meta and the layer on cpu. Move one: {word}.to('cpu')"


SIXTEEN = "there are no complex numbers of 16 bits to compute with. Convert it: input.to"
CURES = {
    (torch.bfloat16, torch.complex64): f"{SIXTEEN}(torch.float32)",
    (torch.float16, torch.complex128): f"{SIXTEEN}(torch.float64)",
    (torch.float32, torch.int64): "and must be torch.int64. Convert it: input.to(torch.int64)",
    (torch.int64, torch.float32): "Convert it: input.to(torch.float32). Symbols must be embedded first",
    (torch.float64, torch.float32): "Convert one: input.to(torch.float32) or layer.to(torch.float64)",
    (torch.complex64, torch.float32): "Convert one: input.to(torch.float32) or layer.to(torch.complex64)",
}


@pytest.mark.parametrize(("given", "layer"), CURES, ids=str)
def test_the_cure_for_a_wrong_dtype(given: torch.dtype, layer: torch.dtype) -> None:
    with pytest.raises(DTypeError) as told:
        in_dtype(torch.ones(1, dtype=given), layer, torch.device("cpu"))
    assert CURES[given, layer] in str(told.value)


def test_one_vector_for_each_row() -> None:
    """Where the batch is, is seen in two calls; complex numbers are two real ones; integers have no place."""

    def states(batch: int) -> Any:
        return torch.randn(1, batch, 3), {"c": torch.randn(2, batch, 2, dtype=torch.complex64)}

    vectors = Vectors.between(states(2), states(3))
    assert vectors is not None
    assert vectors.size == 3 + 2 * 2 * 2
    given = states(5)
    flat = vectors.flatten(given)
    assert flat.shape == (5, 11)
    again = vectors.restore(flat)
    assert torch.equal(again[0], given[0])
    assert torch.equal(again[1]["c"], given[1]["c"])
    conjugate = (
        given[0],
        {"c": given[1]["c"].conj()},
    )  # a view, whose imaginary parts change their sign when they are read
    assert torch.equal(vectors.restore(vectors.flatten(conjugate))[1]["c"], conjugate[1]["c"])
    torch.testing.assert_close(vectors.flatten(conjugate)[:, 3::2], flat[:, 3::2])
    torch.testing.assert_close(vectors.flatten(conjugate)[:, 4::2], -flat[:, 4::2])
    assert Vectors.between(torch.zeros(2, 3, dtype=torch.int64), torch.zeros(3, 3, dtype=torch.int64)) is None
    assert Vectors.between(torch.zeros(2), torch.zeros(2)) is None
