"""A circuit of any depth, with the strongest claim that the thesis makes about it."""

from engram.certify import _bounds as bounds
from engram.certify._claims import RACConjecture, RACDeep, RACShallow
from engram.errors import check_size


def rac_claim(modes: int, channels: int, steps: int, depth: int, templates: int = 0) -> RACShallow:
    """Theorem 1.1 at depth 1, Theorem 1.2 at depth 2, Conjecture 1 above.

    >>> rac_claim(3, 3, 8, 2).name
    'rac-deep'
    """
    if check_size("depth", depth) <= 2:
        return (RACShallow if depth == 1 else RACDeep)(modes, channels, steps, templates)
    return RACConjecture(modes, channels, steps, templates, depth)


def enough_templates(modes: int, channels: int, steps: int, depth: int, max_side: int) -> int:
    """The smallest K >= M with which a grid may have the rank of Conjecture 1 (spec 4.2); the first too large if none.

    >>> enough_templates(4, 3, 6, 4, max_side=1024)
    5
    """
    bound, templates = bounds.rac_conjecture(modes, channels, steps, depth), modes
    while templates ** (steps // 2) <= max_side:
        if bounds.rac_upper(modes, channels, steps, depth, templates) >= bound:
            break
        templates += 1
    return templates
