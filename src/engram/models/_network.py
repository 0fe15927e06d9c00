"""The whole of a model on a task: encoder, core, head."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from engram.maps import Map, mapped_weights, members
from engram.models._cores import call, has_state
from engram.models._encoders import Encoder
from engram.models._heads import Head
from engram.models._objects import codes_of_members
from engram.nn import BareCell, Recurrent
from engram.relational import ContextNorm, Sparse
from engram.state import State, detached


class Network(nn.Module):
    """outputs = head(core(encoder(inputs))).

    Args:
        encoder: from what is seen at a step to a vector ``(T, B, F)``.
        core: a recurrent layer, or any module called as one (``engram.models.make_core`` tells the rules).
        head: to what the task asks for.
        objects: a table ``(K, *input_shape)``, if inputs are rows of it: each is encoded once per call.
        vocabulary: the number of symbols, if inputs are symbols.
        sparse: a linear layer under an L1 penalty, after the encoder; default: none.
        context: normalises codes over the steps of a sequence, before the core; default: none.

    Inputs: inputs, state
        inputs: ``(T, B, *input_shape)`` numbers, or ``(T, B)`` symbols or rows of the table.
        state: of the core, as returned by the call before; default: its start.

    Outputs: ``(S, B, C)`` with S = T or 1; and the state, to carry on.
    """

    objects: Tensor | None

    def __init__(
        self,
        encoder: Encoder,
        core: nn.Module,
        head: Head,
        objects: Tensor | None = None,
        vocabulary: int = 0,
        *,
        sparse: Sparse | None = None,
        context: ContextNorm | None = None,
    ) -> None:
        super().__init__()
        self.encoder, self.core, self.head = encoder, core, head
        self.sparse, self.context = sparse, context
        self.vocabulary, self.has_state = vocabulary, has_state(core)
        self.register_buffer("objects", objects, persistent=False)  # the task's, not learned
        self.penalized = tuple(module for module in dict.fromkeys(_penalized(self)) if _counts(module))

    def forward(self, inputs: Tensor, state: State = None) -> tuple[Tensor, State]:
        output, state = self.features(inputs, state)
        outputs: Tensor = self.head(output)
        return outputs, state

    def features(self, inputs: Tensor, state: State = None) -> tuple[Tensor, State]:
        """What the core gives, ``(T, B, G)`` or ``(B, G)``, and its state."""
        output, state = call(self.core, self.encode(inputs), state if self.has_state else None)
        return output, state if self.has_state else None

    def encode(self, inputs: Tensor) -> Tensor:
        """What the core is given, ``(T, B, F)``."""
        codes = self.codes(inputs)
        codes = codes if self.sparse is None else self.sparse(codes)
        return codes if self.context is None else self.context(codes)

    def codes(self, inputs: Tensor) -> Tensor:
        """What the encoder makes of each step, ``(T, B, F)``: of a table of objects, each object once per call."""
        if self.objects is None or inputs.is_floating_point():
            encoded: Tensor = self.encoder(inputs)
            return encoded
        if torch.compiler.is_exporting():  # how many are seen depends on the numbers: all are encoded
            every: Tensor = self.encoder(self.objects)
            return every[inputs.long()]
        if members():
            return codes_of_members(self.encoder, self.objects, inputs)
        seen, places = inputs.long().unique(return_inverse=True)
        codes: Tensor = self.encoder(self.objects[seen])
        return codes[places]

    @property
    def dtype(self) -> torch.dtype:
        """Of the numbers that it takes."""
        numbers = (p.dtype for p in self.parameters() if p.is_floating_point() or p.is_complex())
        return next(numbers, torch.get_default_dtype()).to_real()

    def carry(self, state: State) -> State:
        """What goes on into the next window of truncated training, without a history."""
        if state is None:
            return None
        own = getattr(self.core, "carry", None)
        return own(state) if callable(own) else detached(state)

    def penalty(self) -> Tensor | None:
        """What its modules add to the loss: the sum of all that have a method ``penalty()``, None if there are none.

        That of a module stands for all within it: a recurrent layer's is the sum of its cells'.
        """
        return _sum([_penalty(module) for module in self.penalized])

    def penalty_of_call(self) -> Tensor | None:
        """The part of :meth:`penalty` that depends on what was computed in the last call; of the modules that say
        ``penalty_depends_on_call = True``."""
        return _sum([_penalty(module) for module in self.penalized if _of_call(module)])

    def penalty_of_weights(self) -> Tensor | None:
        """The rest of :meth:`penalty`, which depends on the weights alone."""
        return _sum([_penalty(module) for module in self.penalized if not _of_call(module)])


def _sum(found: list[Tensor]) -> Tensor | None:
    return sum(found[1:], found[0]) if found else None


def _of_call(module: nn.Module) -> bool:
    return bool(getattr(module, "penalty_depends_on_call", False))


def _penalized(module: nn.Module) -> Iterator[nn.Module]:
    """The outermost modules that have a penalty, and those with weights under a map that no module speaks for."""
    for child in module.children():
        if isinstance(child, Map):
            continue
        if _has_penalty(child):
            yield child
            continue
        if _maps_of(child):
            yield child
        yield from _penalized(child)


def _has_penalty(module: nn.Module) -> bool:
    return callable(getattr(module, "penalty", None))


def _penalty(module: nn.Module) -> Tensor:
    if _has_penalty(module):
        found: Tensor = module.penalty()  # type: ignore[operator]
        return found
    return torch.stack([map.penalty(*free) for map, free in _maps_of(module)]).sum()


def _maps_of(module: nn.Module) -> list[tuple[Map, tuple[Tensor, ...]]]:
    """The maps of a module's own weights, without those of the modules within it."""
    within = {id(map) for child in module.children() for map, _ in mapped_weights(child)}
    return [(map, free) for map, free in mapped_weights(module) if id(map) not in within]


def _counts(module: nn.Module) -> bool:
    """Whether a module's penalty can change a weight. One of engram's that is always 0 has no gradient, and would only
    take time at every step. A penalty of somebody else's module may depend on the call, and always counts."""
    is_ours = isinstance(module, Recurrent | BareCell) or not _has_penalty(module)
    return not is_ours or _penalty(module).requires_grad
