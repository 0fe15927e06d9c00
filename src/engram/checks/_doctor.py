"""Where is the gradient, did every weight move, is the matrix still orthogonal? A diagnosis in words."""

from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.nn.utils import parametrize

from engram.errors import DTypeError
from engram.maps import Map, free_parameters, rounding

_last_visit: WeakKeyDictionary[nn.Module, dict[str, Tensor]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Diagnosis:
    """What :func:`doctor` found. ``print`` it.

    Attributes:
        notes: what was seen, one sentence each.
        problems: what needs attention.
        unseen: what could not be judged yet, and what would show it.
    """

    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)

    @property
    def healthy(self) -> bool:
        """Whether nothing that was seen needs attention; ``unseen`` says what was not."""
        return not self.problems

    def __str__(self) -> str:
        verdict = "healthy" if self.healthy else f"{len(self.problems)} to look at"
        if self.unseen:
            verdict = (
                verdict.replace("healthy", "no problem in what was seen") + f"; not seen: {'; '.join(self.unseen)}"
            )
        lines = [f"- {note}" for note in self.notes] + [f"! {problem}" for problem in self.problems]
        return "\n".join([f"Diagnosis: {verdict}", *lines])


@torch.no_grad()
def doctor(model: nn.Module) -> Diagnosis:
    """Say which weights have a gradient, whether each matrix under a map is what it should be, and which weights moved.

    Works on any module. It remembers the weights from one call to the next: call it, take an optimiser step, call it
    again, and it names the weights that did not move. Nothing in the model is changed.

    Args:
        model: any ``torch.nn.Module``.

    Returns:
        a :class:`Diagnosis`, to be printed.

    >>> print(doctor(nn.Linear(2, 2, bias=False)))  # doctest: +ELLIPSIS
    Diagnosis: no problem in what was seen; not seen: gradients (run a backward pass); movement (take an optimiser ...
    - weight has no gradient yet (no backward pass, or zero_grad was called)
    - weights noted down: take an optimiser step and ask again to see which of them moved
    """
    if not isinstance(model, nn.Module):
        raise DTypeError(f"doctor takes a torch.nn.Module, made already: doctor(LSTM(3, 5)); got {model!r:.60}")
    report = Diagnosis()
    for name, module in model.named_modules():
        if parametrize.is_parametrized(module):
            for weight, maps in module.parametrizations.items():
                _promise(report, f"{name}." if name else "", weight, module, maps)
    for name, parameter in model.named_parameters():
        if is_lazy(parameter):
            report.notes.append(f"{name} is not made yet (a lazy module: call the model once)")
            continue
        if not bool(torch.isfinite(parameter).all()):
            report.problems.append(f"{name} holds NaN or infinity: go back to an earlier checkpoint")
        _gradient(report, name, parameter)
    trained = [p for p in model.parameters() if p.requires_grad]
    if without := sum(p.grad is None for p in trained):
        which = "gradients" if without == len(trained) else f"gradients of {without} of {len(trained)} weights"
        report.unseen.append(f"{which} (run a backward pass)")
    _movement(report, model)
    return report


def _promise(report: Diagnosis, prefix: str, weight: str, module: nn.Module, maps: nn.Module) -> None:
    name = prefix + weight
    originals = [own for own in maps.state_dict() if own.startswith("original")]  # several for weight_norm
    report.notes.append(
        f"{name} is computed from {prefix}parametrizations.{weight}.{' and '.join(originals)}: "
        "the gradient and the optimiser see that, not the matrix"
    )
    for map in maps.children():
        if isinstance(map, Map):
            free = free_parameters(maps)
            error = map.error(*free)
            text = f"{name} should be {map.promise}; it is {error:.1e} away"
            (report.notes if error <= rounding(free[0].dtype) else report.problems).append(text)


def _gradient(report: Diagnosis, name: str, parameter: Tensor) -> None:
    grad = parameter.grad
    if grad is not None and grad.is_sparse:
        grad = grad.coalesce().values()
    if not parameter.requires_grad:
        report.notes.append(f"{name} is frozen (requires_grad=False)")
    elif grad is None:
        report.notes.append(f"{name} has no gradient yet (no backward pass, or zero_grad was called)")
    elif not bool(torch.isfinite(grad).all()):
        report.problems.append(f"{name} has NaN or infinity in its gradient: clip it, or lower the learning rate")
    elif not bool(grad.any()):
        report.problems.append(f"{name} has a gradient of exactly zero: does the loss depend on it?")
    else:
        report.notes.append(f"{name} has a gradient of norm {float(grad.norm()):.3g}")


def _movement(report: Diagnosis, model: nn.Module) -> None:
    now = {name: p.detach().clone() for name, p in model.named_parameters() if p.requires_grad and not is_lazy(p)}
    before = _last_visit.get(model)
    _last_visit[model] = now
    if before is None:
        report.notes.append("weights noted down: take an optimiser step and ask again to see which of them moved")
        report.unseen.append("movement (take an optimiser step and ask again)")
        return
    still = [name for name, p in now.items() if name in before and torch.equal(p, before[name].to(p))]
    moved = len(now) - len(still)
    report.notes.append(f"{moved} of {len(now)} weights moved since the last visit")
    report.problems.extend(f"{name} has not moved: is it in the optimiser's list?" for name in still)
