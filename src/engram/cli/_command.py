"""From a dataclass to a command of cyclopts: its fields are the options, their docstrings the help."""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from cyclopts import App, Parameter, Token, convert
from cyclopts.help import format_usage
from rich.console import Console

from engram.cli._docs import docs_of, sentence, without_markup


@dataclass(frozen=True)
class Group:
    """A command that has commands below it, such as ``engram certify rac``."""

    text: str
    """What they are for, with examples: a docstring."""
    noun: str
    """What one of them is called: a claim, a figure, a conversion."""
    commands: Mapping[str, Any]
    """Each a dataclass, or a function from its name, and the words after it, to an app."""
    default: Any = None
    """The dataclass of the command itself, such as ``engram sweep FILE``; None: one of the commands must follow."""


def app_of(name: str, kind: Any, words: Sequence[str] = ()) -> App:
    """The app of a dataclass or a :class:`Group`. What it parses is handed to the class, which has a method ``run``.

    Args:
        words: what follows the name; the options of some commands depend on it.
    """
    if isinstance(kind, Group):
        app = empty_app(name, kind.text, *(_maker(kind.default) if kind.default is not None else ()))
        for below, each in kind.commands.items():
            after = list(words[1:]) if [*words[:1]] == [below] else []
            app.command(app_of(below, each, after) if isinstance(each, type | Group) else each(below, after))
        return app
    return empty_app(name, kind.__doc__ or "", *_maker(kind))


def empty_app(
    name: str, text: str, make: Callable[..., Any] | None = None, parameters: Sequence[inspect.Parameter] = ()
) -> App:
    """An app of this name; the first lines of ``text`` describe it, and its examples stand at the end of the help."""
    description, examples = _apart(without_markup(inspect.cleandoc(text)))
    app = App(name=name, help=description, help_epilogue=examples, help_format="plaintext", version_flags=())
    app.result_action = "return_value"
    if make is not None:
        app.default(_with_parameters(make, parameters))
    return app


def print_help(app: App, words: Sequence[str], console: Console | None = None) -> None:
    """The help of the command that these words name; optional words have their names, not cyclopts' ARGS."""
    command = app
    for word in words:
        command = command[word]
    arguments = command.assemble_argument_collection() if command.default_command else ()
    names = " ".join(f"[{each.name}]" for each in arguments if each.index is not None)
    usage = format_usage(app, words).plain.strip()
    command.usage = usage.replace("[ARGS...]", f"{names[:-1]}...]").replace("[ARGS]", names)
    app.help_print(words, console=console)


def _with_parameters(make: Callable[..., Any], parameters: Sequence[inspect.Parameter]) -> Callable[..., Any]:
    """The same function, which says that it takes these parameters."""

    def call(*words, **options):  # type: ignore[no-untyped-def] # cyclopts would take these hints for the parameters'
        return make(*words, **options)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return call


def _apart(text: str) -> tuple[str, str]:
    """Description and examples: the part of a docstring from the word Example on."""
    found = re.search(r"\s*^.*?\b(Examples?:.*)", text, re.MULTILINE | re.DOTALL)
    if found is None:
        return text, ""
    return text[: found.start(1)].rstrip(), found[1]


def _maker(kind: type) -> tuple[Callable[..., Any], list[inspect.Parameter]]:
    """What makes an object of a dataclass from parsed words, and its parameters."""
    inner = _inner(kind)
    own = list(_parameters(kind, leave=inner))
    below = [parameter for each in inner.values() for parameter in _options(each)]
    parameters = sorted([*below, *own], key=lambda each: each.kind)
    alone = [each.name for each in parameters if each.kind is each.POSITIONAL_ONLY]
    rest = next((each.name for each in parameters if each.kind is each.VAR_POSITIONAL), None)

    def make(*words: Any, **options: Any) -> Any:
        values = dict(zip(alone, words, strict=False)) | options
        if rest is not None:
            values[rest] = tuple(words[len(alone) :])
        for name, below in inner.items():
            values[name] = below(**{each.name: values.pop(each.name) for each in fields(below) if each.name in values})
        return kind(**values)

    return make, parameters


def _inner(kind: type) -> dict[str, Any]:
    """The fields that are dataclasses themselves: their fields are options too."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind) if is_dataclass(hints[field.name])}


def _options(kind: type) -> Iterator[inspect.Parameter]:
    """Every field of a dataclass as an option."""
    texts, hints = docs_of(kind), get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        yield option(field.name, hints[field.name], _default(field), texts.get(field.name, ""))


def _parameters(kind: type, leave: Iterable[str]) -> Iterator[inspect.Parameter]:
    """A field before ``_: KW_ONLY`` is a word that stands alone; of the type ``tuple[X, ...]``, any number of words."""
    texts, hints = docs_of(kind), get_type_hints(kind, include_extras=True)
    order = [field for field in sorted(fields(kind), key=lambda field: bool(field.kw_only)) if field.name not in leave]
    for field in order:
        hint, default, help = hints[field.name], _default(field), texts.get(field.name, "")
        if field.kw_only:
            yield option(field.name, hint, default, help)
        elif get_origin(_bare(hint)) is tuple:
            one = Annotated[get_args(_bare(hint))[0], *_extras(hint)]  # type: ignore[valid-type]
            yield _parameter(field.name, one, inspect.Parameter.empty, help, inspect.Parameter.VAR_POSITIONAL)
        else:
            yield _parameter(field.name, hint, default, help, inspect.Parameter.POSITIONAL_ONLY)


def option(
    name: str, hint: Any, default: Any, help: str, *, flag: str | None = None, group: Any = None, pair: bool = False
) -> inspect.Parameter:
    """One option of a command.

    Args:
        name: of the parameter.
        hint: its type.
        default: its value where it is left out; ``inspect.Parameter.empty`` for one that must be given.
        help: one or two sentences.
        flag: the name on the command line; default: ``--name``.
        group: the heading it stands under.
        pair: whether a flag that is off has its opposite too, ``--no-name``, to override a file.
    """
    more: dict[str, Any] = {"name": flag} if flag else {}
    if group is not None:
        more["group"] = group
    if _bare(hint) is bool and default is False and not pair:
        more["negative"] = ()
    if get_origin(_bare(hint)) is tuple and Ellipsis in get_args(_bare(hint)):
        more["consume_multiple"] = True
    return _parameter(name, hint, default, help, inspect.Parameter.KEYWORD_ONLY, **more)


def _parameter(name: str, hint: Any, default: Any, help: str, kind: Any, **more: Any) -> inspect.Parameter:
    bare = _bare(hint)
    members = [each for each in get_args(bare) if each is not type(None)] if _is_union(bare) else []
    if len(members) > 1:
        more["metavar"] = "VALUE"  # not INT|FLOAT|STR
    is_told = default == 0 and "efault:" in help  # 0: chosen by something else, as the help says
    said = Parameter(
        help=sentence(help),
        converter=lambda _, tokens: _read(bare, tokens),
        negative_iterable=(),
        allow_repeating=True,  # the last one counts
        show_default=not (default is None or default is False or default in ((), "") or is_told),
        **more,
    )
    annotation = Annotated[bare, said, *_extras(hint)]  # type: ignore[valid-type]
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _read(kind: Any, tokens: Sequence[Token]) -> Any:
    """Words as a value; cyclopts alone would round 8.5 to a whole number."""
    return convert(kind, tokens, converter=_read_one)


def _read_one(kind: type, text: str) -> Any:
    return int(text) if kind is int else convert(kind, [text])


def _default(field: "Field[Any]") -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return inspect.Parameter.empty if field.default is MISSING else field.default


def _bare(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _extras(hint: Any) -> Iterable[Any]:
    return get_args(hint)[1:] if get_origin(hint) is Annotated else ()


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, UnionType)
