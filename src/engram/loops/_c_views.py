"""Where a row value lies in the memory of a generated loop: a pointer to its row, and a stride for each axis.

Sizes are no part of the C text: each is ``n[k]``, given at run time, so that one text serves a cell of any size.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Number:
    """A size: how C calls it, and what it is this time."""

    name: str
    value: int


ZERO, ONE = Number("0", 0), Number("1", 1)


@dataclass(frozen=True)
class Memory:
    """Rows of numbers: ``pointer``, with ``{i}`` for the number of a row of the block."""

    pointer: str
    type: str
    """``REAL``, ``int64_t`` or ``uint8_t`` (truth values)."""

    def row(self, i: str = "i") -> str:
        """The pointer to a row, by what C calls its number."""
        return self.pointer.format(i=i)


@dataclass(frozen=True)
class View:
    """Part of a :class:`Memory`: an offset, and for each axis a size and a stride."""

    memory: Memory
    shape: tuple[int, ...]
    strides: tuple[Number, ...]
    offset: tuple[Number, ...] = ()

    @property
    def pointer(self) -> str:
        return self.memory.pointer + "".join(f" + {n.name}" for n in self.offset)

    def row(self, i: str = "i") -> str:
        """The pointer to its first number in a row."""
        return self.pointer.format(i=i)

    def is_dense(self) -> bool:
        """Whether its numbers lie one after the other."""
        expected = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size != 1 and stride.value != expected:
                return False
            expected *= size
        return True

    def is_single(self) -> bool:
        """Whether it is one number, possibly repeated."""
        return all(size == 1 or stride.value == 0 for size, stride in zip(self.shape, self.strides, strict=True))

    def index(self, counters: list[str]) -> str:
        """The place of an entry; an axis of size 1 or stride 0 adds nothing."""
        terms = [
            counter if stride is ONE else f"{counter} * {stride.name}"
            for counter, stride, size in zip(counters, self.strides, self.shape, strict=True)
            if stride is not ZERO and size != 1
        ]
        return " + ".join(terms) or "0"
