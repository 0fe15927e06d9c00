"""The practical reading of the theorem: how wide must one layer be to do what a deep circuit does?"""

from typing import Any

from engram.certify import _bounds as bounds
from engram.certify._by_depth import rac_claim
from engram.certify._certificate import certify
from engram.certify._field import PRIME
from engram.certify._limits import check_large, rounded
from engram.errors import OptionError, check_size


def parameters(modes: int, channels: int, depth: int, outputs: int) -> int:
    """R M + (L - 1) R^2 + L R^2 + C R: input weights, recurrent weights, read-out (spec/arithmetic-circuits.md 1.3).

    >>> parameters(3, 3, 2, 1)
    39
    """
    return channels * modes + (2 * depth - 1) * channels**2 + outputs * channels


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
    """The smallest width of a circuit of depth 1 that could imitate almost every one of depth L, and its parameters.

    A circuit of one layer and W channels has a Start-End rank of at most W. So W is at least the rank of the deep one.
    ``certified``: the rank found, at the longest even T whose grid has at most max_side rows: the imitation must hold
    for such sequences too. ``proven``: the theorem's value at all T steps (L <= 2). ``conjectured``: Conjecture 1 there
    (L > 2). ``width``: the larger one of the first two, so a fact; ``parameters`` of both circuits.
    """
    check_size("outputs", outputs)
    claim = rac_claim(modes, channels, steps, depth, templates)  # its checks
    check_large("min-width", {"steps": steps, "outputs": outputs})
    asked = 2
    while claim.templates > 1 and asked < steps and claim.templates ** (asked // 2 + 1) <= max_side:
        asked += 2  # a grid of one template has rank 1 at any length
    claim = rac_claim(modes, channels, asked, depth, templates)
    if claim.side > max_side:
        raise OptionError(
            f"a grid of {rounded(claim.templates)} templates has at least {rounded(claim.side)} rows, "
            f"--max-side {max_side}"
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
            "deep": parameters(modes, channels, depth, outputs),
            "shallow": parameters(modes, width, 1, outputs),
            "shallow_if_conjectured": None if conjectured is None else parameters(modes, conjectured, 1, outputs),
        },
    }
