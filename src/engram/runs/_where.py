"""Conditions on settings and scores, as text: ``task=copy and hidden>64``."""

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from engram.errors import OptionError, unknown

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
TOKEN = re.compile(r"""\s*(?:(?P<quoted>"[^"]*"|'[^']*')|(?P<sign><=|>=|!=|==|[=<>()])|(?P<word>[^\s=<>!()"']+))""")
CONSTANTS = {"true": True, "false": False, "none": None}
MOST, DEEPEST = 10_000, 50
"""Characters of a condition, and parentheses within each other, that are read at most."""
EXAMPLE = '"task=copy and hidden>64"'

Test = Callable[[Mapping[str, Any]], bool]


@dataclass(frozen=True)
class Where:
    """A condition: ``Where("hidden>64")({"hidden": 128})`` is True.

    Comparisons ``NAME = VALUE`` (also ``!= < <= > >=``), joined by ``and``, ``or``, ``not`` and parentheses. A value is
    a number, ``true``, ``false``, ``none``, a word, or a text in quotes. A name that the row does not have is ``none``.
    Values of different kinds (a word and a number, say) are not equal, and neither is smaller or larger.

    Args:
        text: the condition.
        known: the names that may be used; default: any.

    >>> Where("task=copy and (hidden>64 or not model=lstm)")({"task": "copy", "hidden": 32, "model": "exprnn"})
    True
    """

    text: str
    known: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.text, str) or len(self.text) > MOST:
            raise OptionError(f"a condition is a text such as {EXAMPLE}, got {self.text!r:.60}")
        object.__setattr__(self, "_test", _Parser(self.text, self.known).parse())

    def __call__(self, row: Mapping[str, Any]) -> bool:
        return self._test(row)  # type: ignore[attr-defined]

    @property
    def names(self) -> tuple[str, ...]:
        """The names that are compared."""
        found = _Parser(self.text, self.known)
        found.parse()
        return tuple(dict.fromkeys(found.names))


class _Parser:
    """or -> and -> not -> comparison."""

    def __init__(self, text: str, known: Iterable[str] | None) -> None:
        self.text, self.known = text, None if known is None else list(known)
        self.tokens, self.place, self.depth, self.names = list(_tokens(text)), 0, 0, list[str]()

    def parse(self) -> Test:
        test = self._any()
        if self.place < len(self.tokens):
            self._wrong("and, or, or the end")
        return test

    def _any(self) -> Test:
        tests = [self._all()]
        while self._take("or"):
            tests.append(self._all())
        return lambda row: any(test(row) for test in tests)

    def _all(self) -> Test:
        tests = [self._one()]
        while self._take("and"):
            tests.append(self._one())
        return lambda row: all(test(row) for test in tests)

    def _one(self) -> Test:
        self.depth += 1
        if self.depth > DEEPEST:
            raise OptionError(f"the condition {self.text[:40]!r}... is nested more than {DEEPEST} deep")
        if self._take("not"):
            negated = self._one()
            test: Test = lambda row: not negated(row)  # noqa: E731
        elif self._take("("):
            test = self._any()
            if not self._take(")"):
                self._wrong("a closing parenthesis")
        else:
            test = self._comparison()
        self.depth -= 1
        return test

    def _comparison(self) -> Test:
        kind, name = self._next("a name")
        if kind != "word":
            self._wrong("a name", back=1)
        name = name.replace("-", "_")
        if self.known is not None and name not in self.known:
            raise unknown(f"name in the condition {self.text!r}", name, self.known)
        self.names.append(name)
        _, sign = self._next("one of = != < <= > >=")
        if sign not in COMPARISONS:
            self._wrong("one of = != < <= > >=", back=1)
        kind, text = self._next("a value")
        if kind == "sign":
            self._wrong("a value", back=1)
        value, compare = text[1:-1] if kind == "quoted" else _value(text), COMPARISONS[sign]
        return lambda row: _compare(compare, row.get(name), value)

    def _next(self, expected: str) -> tuple[str, str]:
        if self.place >= len(self.tokens):
            self._wrong(expected)
        self.place += 1
        return self.tokens[self.place - 1]

    def _take(self, word: str) -> bool:
        found = self.place < len(self.tokens) and self.tokens[self.place] in (("word", word), ("sign", word))
        self.place += found
        return found

    def _wrong(self, expected: str, back: int = 0) -> NoReturn:
        place = self.place - back
        got = repr(self.tokens[place][1]) if place < len(self.tokens) else "its end"
        raise OptionError(f"the condition {self.text!r}: expected {expected}, got {got}. Example: {EXAMPLE}")


def _tokens(text: str) -> Iterable[tuple[str, str]]:
    place = 0
    while text[place:].strip():
        found = TOKEN.match(text, place)
        if found is None:
            raise OptionError(f"the condition {text!r} cannot be read from {text[place:].strip()[:20]!r} on")
        yield str(found.lastgroup), found[str(found.lastgroup)]
        place = found.end()


def _value(word: str) -> Any:
    """A number, a constant, or the word itself."""
    if word.lower() in CONSTANTS:
        return CONSTANTS[word.lower()]
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word


def _compare(compare: Callable[[Any, Any], bool], found: Any, value: Any) -> bool:
    if isinstance(found, bool) != isinstance(value, bool):  # else true would equal 1
        return compare is operator.ne
    try:
        return bool(compare(found, value))
    except TypeError:  # a text is neither smaller nor larger than a number
        return False
