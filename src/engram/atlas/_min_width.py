"""How wide must a recurrent arithmetic circuit of one layer be to compute what a deep one does?"""

from typing import Any

from engram.certify import certify, check_large, rac_claim, rounded
from engram.errors import OptionError, check_size
from engram.exact import PRIME
from engram.theory import bounds, rac_parameters


def min_width(
    modes: int,
    channels: int,
    steps: int,
    depth: int,
    *,
    outputs: int = 1,
    templates: int = 0,
    max_side: int = 1024,
    seed: int = 0,
    prime: int = PRIME,
) -> dict[str, Any]:
    """A width below which no circuit of depth 1 computes what almost every circuit of depth L does, and its parameters.

    A circuit of one layer and W channels has a Start-End rank of at most W, so W is at least the rank of the deep one.

    Args:
        modes: M, the numbers that encode one input.
        channels: R, the units of a layer of the deep circuit.
        steps: T, the length of a sequence; even.
        depth: L, the layers of the deep circuit.
        outputs: C, the numbers that are read out.
        templates: K, the inputs of the grid; default: as many as modes.
        max_side: the most rows of the matrix.
        seed: random seed of the weights.
        prime: p, of the field.

    Returns: ``certified``, the rank found at the longest even length up to T whose grid has at most max_side rows;
    ``proven``, the bound of the theorem at T (L <= 2); ``conjectured``, that of Conjecture 1 at T (L > 2); ``width``,
    the larger one of the first two; ``parameters`` of both circuits.
    """
    check_size("outputs", outputs)
    claim = rac_claim(modes, channels, steps, depth, templates)  # checks the sizes
    check_large("min-width", {"steps": steps, "outputs": outputs})
    asked = 2
    while claim.templates > 1 and asked < steps and claim.templates ** (asked // 2 + 1) <= max_side:
        asked += 2  # a grid of one template has rank 1 at any length
    claim = rac_claim(modes, channels, asked, depth, templates)
    if claim.side > max_side:
        raise OptionError(
            f"a grid of {rounded(claim.templates)} templates has at least {rounded(claim.side)} rows, "
            f"and max_side is {max_side}: choose fewer templates, or raise max_side"
        )
    found = certify(claim, seed=seed, prime=prime, max_side=max_side)
    theorem = {1: bounds.rac_shallow, 2: bounds.rac_deep}.get(depth)
    proven = theorem(modes, channels, steps) if theorem else None
    width = max(found.rank, proven or 0)
    conjectured = bounds.rac_conjecture(modes, channels, steps, depth) if depth > 2 else None
    return {
        "sizes": {"modes": modes, "channels": channels, "steps": steps, "depth": depth, "outputs": outputs},
        "certified": {"width": found.rank, "steps": asked, "templates": claim.templates, "prime": prime, "seed": seed},
        "proven": None if proven is None else {"width": proven, "steps": steps},
        "conjectured": None if conjectured is None else {"width": conjectured, "steps": steps},
        "width": width,
        "parameters": {
            "deep": rac_parameters(modes, channels, depth, outputs),
            "shallow": rac_parameters(modes, width, 1, outputs),
            "shallow_if_conjectured": None if conjectured is None else rac_parameters(modes, conjectured, 1, outputs),
        },
    }
