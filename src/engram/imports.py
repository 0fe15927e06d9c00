"""Classes of other people by name: ``package.module:Class`` or ``file.py:Class``.

Whoever imports a module runs its code. What a person types, or writes in Python, is imported; a name that stands in a
file, such as run.json, is imported only if the person allows its package or its file (:func:`check_allowed`).
"""

import sys
from collections.abc import Iterable
from contextlib import suppress
from difflib import get_close_matches
from hashlib import sha256
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from re import sub
from types import ModuleType
from typing import Any, TypeVar

from engram.errors import OptionError
from engram.files import one_line

T = TypeVar("T")
FILE_MODULE = "engram_file_"
"""How the names of modules begin that were read from a file by its path."""


def is_outside(name: str) -> bool:
    """Whether a name is one of code outside engram: those within have no colon."""
    return ":" in name


def full_name(name: str) -> str:
    """The name under which the same class is found from any folder: paths of files are made absolute.

    >>> full_name("torch.nn:LSTM")
    'torch.nn:LSTM'
    """
    where, attribute = _parts(name)
    return f"{Path(where).resolve()}:{attribute}" if _is_file(where) else name


def name_of(kind: type) -> str:
    """The name that :func:`load` finds a class by.

    >>> from engram.errors import OptionError
    >>> name_of(OptionError)
    'engram.errors:OptionError'
    """
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    by_path = kind.__module__ == "__main__" or kind.__module__.startswith(FILE_MODULE)
    if "<locals>" in kind.__qualname__ or (by_path and file is None):
        raise OptionError(
            f"{kind.__qualname__} cannot be found again by a name, as a run that is resumed must: "
            "define it at the top of a file, not within a function or a notebook"
        )
    return f"{Path(str(file)).resolve() if by_path else kind.__module__}:{kind.__qualname__}"


def code_hash(kind: type) -> str:
    """A short hash of the file of a class, which tells whether its code was changed; empty if it has no file."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    try:
        return sha256(Path(file).read_bytes()).hexdigest()[:12] if file else ""
    except OSError:
        return ""


def check_allowed(name: str, allow: Iterable[str] = ()) -> None:
    """Refuse a name out of a file, unless the person allowed its package, its module or its file.

    Args:
        name: of code outside engram (others are never refused).
        allow: ``"package"``, ``"package.module"``, ``"file.py"``, or such a name with its class.
    """
    if not is_outside(name):
        return
    where, _ = _parts(name)
    if _is_file(where):
        path = Path(where).resolve()
        allowed = any(Path(_without_class(given)).resolve() == path for given in _each(allow))
        permit = where
    else:
        given_names = [_without_class(given) for given in _each(allow)]
        allowed = any(where == given or where.startswith(f"{given}.") for given in given_names)
        permit = where.partition(".")[0]
    if not allowed:
        raise OptionError(
            f"{name} is code outside engram, and importing it would run it. If you trust it: --allow {permit} "
            f"(in Python: allow=[{permit!r}])"
        )


def absolute_names(allow: Iterable[str]) -> tuple[str, ...]:
    """What is allowed, with the whole paths of files: the same from any folder."""
    given = [(each, _without_class(each)) for each in _each(allow)]
    return tuple(str(Path(where).resolve()) if _is_file(where) else each for each, where in given)


def load_class(name: str, base: type[T]) -> type[T]:
    """The class of this name, which must be derived from ``base``."""
    found = load(name)
    if not (isinstance(found, type) and issubclass(found, base)):
        what = f"the class {found.__name__}" if isinstance(found, type) else f"of type {type(found).__name__}"
        raise OptionError(f"{name} must be a subclass of {base.__module__}.{base.__qualname__}; it is {what}")
    return found


def load(name: str) -> Any:
    """What stands under this name in a module or a file. Every way in which that can fail is told in one line."""
    where, attribute = _parts(name)
    try:
        module = _file_module(Path(where).resolve()) if _is_file(where) else _module(where)
    except OptionError:
        raise
    except (Exception, SystemExit) as error:  # somebody else's code may raise anything
        raise OptionError(f"{where} cannot be imported: {type(error).__name__}: {one_line(str(error))}") from error
    try:
        return attrgetter(attribute)(module)
    except AttributeError:
        near = get_close_matches(attribute, [found for found in vars(module) if not found.startswith("_")], n=1)
        hint = f". Did you mean {near[0]!r}?" if near else ""
        raise OptionError(f"there is no {attribute!r} in {where}{hint}") from None


def _parts(name: str) -> tuple[str, str]:
    """Module or file, and class."""
    where, colon, attribute = name.rpartition(":")
    if not (colon and where and where.isprintable() and all(part.isidentifier() for part in attribute.split("."))):
        raise OptionError(f"code outside engram is named as package.module:Class or file.py:Class, got {name!r}")
    return where, attribute


def _is_file(where: str) -> bool:
    return where.endswith(".py")


def _without_class(given: str) -> str:
    """``package.module`` of ``package.module:Class``."""
    where, colon, attribute = given.rpartition(":")
    return where if colon and all(part.isidentifier() for part in attribute.split(".")) else given


def _each(allow: Iterable[str]) -> list[str]:
    return [str(given) for given in ([allow] if isinstance(allow, str | Path) else allow or ()) if given]


def _module(name: str) -> ModuleType:
    """A module that is installed, or lies in the current folder."""
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))  # at the end: a file here does not stand for a module of Python
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise OptionError(f"there is no module {error.name!r}, here or installed") from None
        raise OptionError(f"{name} cannot be imported: it needs {error.name}, which is not installed") from error


def _file_module(path: Path) -> ModuleType:
    """The module of a file, made once per path and contents. It may import what lies beside it."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise OptionError(f"{path} cannot be read: {error.strerror}") from None
    key = sha256(str(path).encode() + b"\0" + content).hexdigest()[:16]
    name = FILE_MODULE + sub(r"\W", "_", path.stem) + "_" + key
    if name in sys.modules:
        return sys.modules[name]
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module  # dataclasses look their module up while it is being made
    sys.path.insert(0, str(path.parent))
    try:  # not by Python's own import, whose stored bytecode may be of an older text
        exec(compile(content, path, "exec"), vars(module))
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        with suppress(ValueError):  # somebody else's code may have taken it away
            sys.path.remove(str(path.parent))
    return module
