"""What a compiled library is called: a name of its own for everything that it is made from.

No torch and nothing else of engram is imported here: ``hatch_build.py``, which compiles the libraries of the wheel,
loads this file by itself.
"""

import hashlib
import re
from pathlib import Path

LEVELS = ("avx512", "avx2", "x86-64")
"""The processors that a wheel has libraries for, the best first; each runs what comes after it."""
REALS = ("float32", "float64")


def headers(folder: Path) -> dict[str, str]:
    """The text of every header of the package: a generated loop may include any of them."""
    return {path.name: path.read_text() for path in sorted(folder.glob("*.h"))}


def stem(name: str, *parts: object) -> str:
    """``name`` and a hash of everything the library depends on.

    >>> stem("my cell", "int x;", {}, "float32")
    'my_cell-2081a22729146172'
    """
    return f"{file_name(name)}-{hash16(repr(parts).encode())}"


def file_name(name: str) -> str:
    """A name that any file system takes.

    >>> file_name("../Zelle für mich")
    '_Zelle_f_r_mich'
    """
    return re.sub("[^A-Za-z0-9_]+", "_", name)[:40]


def shipped(name: str, source: str, headers: dict[str, str], real: str) -> str:
    """The file of a library in the wheel, in the folder of its level."""
    return f"{stem(name, source, headers, real)}.so"


def hash16(content: bytes) -> str:
    """64 bits of SHA-256: enough to tell files apart that nobody else can write."""
    return hashlib.sha256(content).hexdigest()[:16]
