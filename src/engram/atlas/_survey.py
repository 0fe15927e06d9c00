"""What many ranks say together: for how many sizes each claim holds, and where printed statements fail."""

from collections import Counter
from typing import Any

from engram.certify import RACShallowClaim, RankClaim, TTDifferentCoresClaim
from engram.theory import bounds

RAC_COLUMNS = ("M", "R", "T", "L", "K", "rank", "theorem", "conjecture", "upper")
TT_COLUMNS = ("n", "r", "d", "equal", "rank", "printed", "bound", "upper")


def survey(ranks: list[tuple[RankClaim, int]], prime: int, seed: int) -> dict[str, Any]:
    """The table of an atlas, as JSON has it, from pairs of a claim and the rank found.

    ``claims``: for each claim, the number of sizes asked, and how many of them hold, fail, or are open. A claim holds
    where the rank found reaches it, and fails on a grid whose upper bound is below it; both are proofs. Else open.
    ``conjecture``: the same for Conjecture 1 by (M, R, T, L); one grid that reaches it is enough.
    ``fails``: where a printed statement fails, in words and by size. ``rac``, ``tt``: all ranks, as columns and rows.
    """
    rac = [_rac_row(claim, rank) for claim, rank in ranks if isinstance(claim, RACShallowClaim)]
    tt = [_tt_row(claim, rank) for claim, rank in ranks if isinstance(claim, TTDifferentCoresClaim)]
    return {
        "prime": prime,
        "seed": seed,
        "matrices": len(ranks),
        "claims": _claims(rac, tt),
        "conjecture": _conjecture(rac),
        "fails": _fails(rac, tt),
        "rac": {"columns": RAC_COLUMNS, "rows": [list(row.values()) for row in rac]},
        "tt": {"columns": TT_COLUMNS, "rows": [list(row.values()) for row in tt]},
    }


def _rac_row(claim: RACShallowClaim, rank: int) -> dict[str, Any]:
    m, r, t, depth = claim.modes, claim.channels, claim.steps, claim.depth
    theorem = {1: bounds.rac_shallow, 2: bounds.rac_deep}.get(depth, lambda *_: None)(m, r, t)
    values = (m, r, t, depth, claim.templates, rank, theorem, bounds.rac_conjecture(m, r, t, depth), claim.upper)
    return dict(zip(RAC_COLUMNS, values, strict=True))


def _tt_row(claim: TTDifferentCoresClaim, rank: int) -> dict[str, Any]:
    n, r, d = claim.modes, claim.rank, claim.steps
    printed = bounds.tt_printed(n, r, d) if claim.equal else claim.bound
    return dict(zip(TT_COLUMNS, (n, r, d, claim.equal, rank, printed, claim.bound, claim.upper), strict=True))


def _verdict(rank: int, bound: int, upper: int) -> str:
    return "hold" if rank >= bound else "fail" if upper < bound else "open"


def _claims(rac: list[dict[str, Any]], tt: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """The verdicts of each claim, counted; all claims about one circuit use its rank."""
    verdicts: dict[str, list[str]] = {}
    for row in tt:
        name = "tt-equal-cores" if row["equal"] else "tt-different-cores"
        verdicts.setdefault(name, []).append(_verdict(row["rank"], row["bound"], row["upper"]))
    for row in rac:
        if row["theorem"] is not None:
            name = "rac-shallow" if row["L"] == 1 else "rac-deep"
            verdicts.setdefault(name, []).append(_verdict(row["rank"], row["theorem"], row["upper"]))
        verdicts.setdefault("rac-conjecture", []).append(_verdict(row["rank"], row["conjecture"], row["upper"]))
        verdicts.setdefault("rac-upper", []).append("hold" if row["rank"] <= row["upper"] else "fail")
    return {
        name: {"asked": len(found), **{word: Counter(found)[word] for word in ("hold", "fail", "open")}}
        for name, found in verdicts.items()
    }


def _size(row: dict[str, Any]) -> tuple[int, int, int, int]:
    return row["M"], row["R"], row["T"], row["L"]


def _conjecture(rac: list[dict[str, Any]]) -> dict[str, Any]:
    """By size, over all grids; a size is out of reach if none of its grids is large enough."""
    found: dict[tuple[int, int, int, int], set[str]] = {}
    for row in rac:
        found.setdefault(_size(row), set()).add(_verdict(row["rank"], row["conjecture"], row["upper"]))
    certified = [size for size, verdicts in found.items() if "hold" in verdicts]
    return {
        "sizes": len(found),
        "certified": len(certified),
        "certified_beyond_the_theorems": sum(depth > 2 for *_, depth in certified),
        "out_of_reach": sorted(size for size, verdicts in found.items() if verdicts == {"fail"}),
        "open": sorted(size for size, verdicts in found.items() if "open" in verdicts and "hold" not in verdicts),
    }


def _fails(rac: list[dict[str, Any]], tt: list[dict[str, Any]]) -> dict[str, Any]:
    """Where printed statements fail (docs/sources.md), at the sizes of the atlas."""
    mended: dict[tuple[int, int, int, int], dict[str, Any]] = {}
    for row in rac:  # the smallest grid that reaches the conjectured rank
        if row["rank"] >= row["conjecture"] and row["K"] < mended.get(_size(row), {"K": row["K"] + 1})["K"]:
            mended[_size(row)] = row
    few = []
    for row in rac:
        if row["K"] == row["M"] and row["upper"] < row["conjecture"]:
            repair = mended.get(_size(row))
            few.append([*_size(row), row["rank"], row["conjecture"], repair and repair["K"], repair and repair["rank"]])
    over: dict[tuple[int, int, int, int], list[int]] = {}
    for row in rac:
        if row["L"] >= 2 and row["rank"] > (cap := row["M"] ** (row["T"] // 2)):
            over[_size(row)] = max(over.get(_size(row), []), [row["rank"], row["K"], cap])
    first = [row for row in rac if row["L"] == 1]
    return {
        "M templates are too few for Conjecture 1 (R < M)": {
            "columns": ["M", "R", "T", "L", "rank with K = M", "conjectured", "mended by K", "rank then"],
            "rows": few,
        },
        "M^(T/2) does not cap the separation rank (L >= 2)": {
            "columns": ["M", "R", "T", "L", "rank", "with K", "M^(T/2)"],
            "rows": [[*size, *found] for size, found in sorted(over.items())],
        },
        "Conjecture 1 is weaker than Theorem 1 at L = 1 (R > M, T > 2)": {
            "columns": ["M", "R", "T", "L", "conjectured", "theorem = rank"],
            "rows": [[*_size(row), row["conjecture"], row["theorem"]] for row in first if _weaker(row)],
        },
        "((M over T/2)) < M^(T/2) is an equality (T = 2)": {
            "columns": ["M", "T", "both"],
            "rows": [[m, 2, m] for m in sorted({row["M"] for row in rac if row["T"] == 2})],
        },
        "the printed min(n, r-1)^(d/2) is too small: min(n, r)^(d/2) holds (r <= n)": {
            "columns": ["n", "r", "d", "printed", "proven", "rank"],
            "rows": [
                [row["n"], row["r"], row["d"], row["printed"], row["bound"], row["rank"]]
                for row in tt
                if row["equal"] and row["printed"] < row["bound"] <= row["rank"]
            ],
        },
    }


def _weaker(row: dict[str, Any]) -> bool:
    return bool(row["conjecture"] < row["theorem"] == row["rank"])
