"""Which parameters of a model learn at which rate."""

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

from engram.maps import Stiefel, mapped_weights
from engram.nn._state_space import StateSpace

SLOW = ("log_decay", "frequency", "weight_p", "weight_b", "log_step")
"""lambda, P, B and Delta of a state space."""
SLOW_RATE = 1e-3


def param_groups(
    model: nn.Module, lr: float, weight_decay: float = 0.0, lr_orthogonal: float | None = None
) -> list[dict[str, Any]]:
    """Parameter groups for any torch optimiser: ``torch.optim.Adam(param_groups(model, lr=1e-3))``.

    Args:
        model: any module.
        lr (float): the learning rate.
        weight_decay (float): of the group ``plain`` alone. Default: 0.0.
        lr_orthogonal (float or None): the learning rate of orthogonal parameters. Default: None, a tenth of ``lr``.

    Each group has ``params``, ``lr``, ``weight_decay`` and a ``name``; groups without parameters are left out:

    - ``plain``: at ``lr``, with ``weight_decay``.
    - ``state-space``: lambda, P, B and Delta of S4 and S4D, at no more than 0.001 and without decay, as in the source
      (Gu et al. 2022).
    - ``orthogonal``: the angles of orthogonal and unitary matrices, at ``lr_orthogonal`` (default: a tenth of ``lr``)
      and without decay (Kerg 2022, Appendix A.1.4).
    - ``stiefel``: matrices that only :class:`engram.maps.StiefelStep` may move, at the rate of the orthogonal ones. No
      other optimiser takes them: ``engram.maps.attach`` says so.

    Frozen parameters are in none of them.

    >>> from engram.nn import ExpRNN
    >>> [(group["name"], group["lr"], len(group["params"])) for group in param_groups(ExpRNN(3, 4), lr=0.5)]
    [('plain', 0.5, 2), ('orthogonal', 0.05, 1)]
    """
    maps = mapped_weights(model)
    stiefel = _ids(p for map, free in maps if isinstance(map, Stiefel) for p in free)
    angles = _ids(p for map, free in maps for p in free[map.angles])
    slow = _ids(
        p for module in model.modules() if isinstance(module, StateSpace)
        for name, p in module.named_parameters(recurse=False) if name in SLOW
    )  # fmt: skip
    orthogonal = lr / 10 if lr_orthogonal is None else lr_orthogonal
    kinds: list[tuple[str, set[int], float]] = [
        ("state-space", slow, min(lr, SLOW_RATE)),
        ("orthogonal", angles, orthogonal),
        ("stiefel", stiefel, orthogonal),
    ]
    trained = [p for p in model.parameters() if p.requires_grad]
    rest = [p for p in trained if not any(id(p) in ids for _, ids, _ in kinds)]
    groups: list[dict[str, Any]] = [{"name": "plain", "params": rest, "lr": lr, "weight_decay": weight_decay}]
    for name, ids, rate in kinds:
        params = [p for p in trained if id(p) in ids]
        groups.append({"name": name, "params": params, "lr": rate, "weight_decay": 0.0})
    return [group for group in groups if group["params"]]


def _ids(parameters: Iterable[Tensor]) -> set[int]:
    return {id(p) for p in parameters}
