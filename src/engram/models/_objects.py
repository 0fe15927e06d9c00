"""Objects of a table, encoded once for each of several models that are trained as one."""

import torch
from torch import Tensor, nn

from engram.maps import on_stacks


def codes_of_members(encoder: nn.Module, objects: Tensor, rows: Tensor) -> Tensor:
    """The codes of these rows of the table, ``(T, B, F)``, where :func:`engram.maps.members` holds.

    How many objects a batch shows differs from member to member: each encodes as many as the one that sees most, and
    nobody looks at those that fill up.
    """
    seen, places = on_stacks(_seen, rows)
    codes: Tensor = encoder(objects[seen])
    return on_stacks(_taken, codes, places)


def _seen(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Of rows ``(E, T, B)``: the objects that each member sees, ``(E, K)``, and where in these each step's is."""
    found = [own.long().unique(return_inverse=True) for own in rows]
    most = max(len(seen) for seen, _ in found)
    filled = [torch.nn.functional.pad(seen, (0, most - len(seen)), value=int(seen[0])) for seen, _ in found]
    return torch.stack(filled), torch.stack([places for _, places in found])


def _taken(codes: Tensor, places: Tensor) -> Tensor:
    """Of codes ``(E, K, F)`` those at places ``(E, T, B)``."""
    first = torch.arange(len(codes)) * codes.shape[1]
    return codes.flatten(0, 1)[places + first[:, None, None]]
