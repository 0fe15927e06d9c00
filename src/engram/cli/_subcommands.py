"""A dict of commands as one choice for tyro."""

from collections.abc import Mapping
from inspect import cleandoc
from typing import Annotated, Any, Union

import tyro


def subcommands(kinds: Mapping[str, type]) -> Any:
    """The union of the dataclasses, each a subcommand of its name whose help is its docstring."""
    return Union[  # noqa: UP007 - made at run time
        tuple(
            Annotated[kind, tyro.conf.subcommand(name, description=cleandoc(kind.__doc__ or ""))]
            for name, kind in kinds.items()
        )
    ]
