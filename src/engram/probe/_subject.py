"""Any sequence model in one form: time first, its state one vector, and nothing in it changed."""

from contextlib import ExitStack
from typing import Any, Self

import torch
from torch import Tensor, nn

from engram.errors import EngramError, OptionError
from engram.nn import Recurrent
from engram.probe._caller import Caller
from engram.probe._matrices import recurrent_matrices
from engram.probe._notices import broken_numbers, randomness
from engram.probe._untouched import untouched
from engram.state import Vectors

SHORT = 5
"""Steps of the first calls."""


class Subject(Caller):
    """A module that maps sequences to outputs, with or without access to its state.

    Such are ``torch.nn.LSTM`` and the like, engram's layers and trained networks, modules that return only a tensor,
    and models of symbols. A module is called as ``module(x)`` or ``module(x, state)`` and returns a tensor, a tuple
    that begins with one, or an object or dict with ``logits`` or ``last_hidden_state``.

    Args:
        module: the model.
        input_size: D. Default: the ``input_size`` (or in_features, in_channels, num_embeddings) of the module or the
            first submodule that has one.
        batch_first: whether it reads ``(B, T, D)``. Default: found out; an input changes other steps, not other rows.
        length: T of a model that takes one length only.

    Attributes:
        input_size: D.
        output_size: C, the features of the output.
        every_step: whether it answers at every step, or only after the last.
        state_size: N, the real numbers of its state; 0 if it cannot be passed in.
        no_state: the reason why it cannot.
        fixed_length: T, if it takes no other.
        notes: what a reader of the numbers should know, such as that dropout is off.
    """

    def __init__(
        self,
        module: nn.Module,
        input_size: int | None = None,
        *,
        batch_first: bool | None = None,
        length: int | None = None,
    ) -> None:
        super().__init__(module, input_size)
        self._entered = ExitStack()
        self._depth = 0
        self.fixed_length: int | None = None
        with untouched(module):
            self._learn_form(batch_first, length)
            self._learn_state()
        self.notes = randomness(self, SHORT) + broken_numbers(module, self.dtype)

    @classmethod
    def of(cls, model: "nn.Module | Subject", **options: Any) -> "Subject":
        """The subject itself, or one made of a module."""
        return model if isinstance(model, Subject) else cls(model, **options)

    # Every call happens within `with subject`, after which the module is as before; it may be nested.

    def __enter__(self) -> Self:
        if self._depth == 0:
            self._entered.enter_context(untouched(self.module))
        self._depth += 1
        return self

    def __exit__(self, *failure: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._entered.close()

    def outputs(self, inputs: Tensor) -> Tensor:
        """From inputs ``(T, B, D)`` to outputs ``(S, B, C)``; S = T, or 1 of a model that answers once."""
        with self:
            return self._call(inputs)[0]

    @property
    def can_step(self) -> bool:
        """Whether its state can be passed in and comes out again."""
        return self._vectors is not None

    def require_state(self) -> Vectors:
        """How the state lies in a vector; a model whose state cannot be passed in is refused."""
        if self._vectors is None:
            raise OptionError(f"the state of this model cannot be handed in: {self.no_state}")
        return self._vectors

    def advance(self, state: Tensor | None, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs and next state, from a state ``(B, N)`` (None: the model's own) and inputs ``(T, B, D)``."""
        vectors = self.require_state()
        with self:
            outputs, after = self._call(inputs, None if state is None else vectors.restore(state))
            return outputs, vectors.flatten(after)

    def step(self, state: Tensor | None, input: Tensor) -> Tensor:
        """One step: state ``(B, N)`` and input ``(B, D)`` to the next state."""
        return self.advance(state, input[None])[1]

    def recurrent_matrix(self) -> Tensor | None:
        """W of h_t = f(W h_{t-1} + ...) in the first layer; None where such matrices do not make up the state."""
        if not all(part.cell.matrix_moves_state for part in self.module.modules() if isinstance(part, Recurrent)):
            return None
        with torch.no_grad():
            found = [each.weight for each in recurrent_matrices(self.module)]
        covered = sum(len(weight) * (2 if weight.is_complex() else 1) for weight in found)
        return found[0] if found and (covered == self.state_size or not self.can_step) else None

    def __str__(self) -> str:
        state = f"a state of {self.state_size} numbers" if self.can_step else "no state to hand in"
        reads = "symbols" if self.symbols else "inputs"
        return f"{type(self.module).__name__}: {self.input_size} {reads}, {self.output_size} outputs, {state}"

    @torch.no_grad()
    def _learn_form(self, batch_first: bool | None, length: int | None) -> None:
        """Which dimension is time, how many outputs there are, and whether only one length will do."""
        generator = torch.Generator().manual_seed(0)
        rows = 3
        steps = self._learn_length(batch_first, length, rows, generator)
        if batch_first is None and self.fixed_length is None:
            self.batch_first = self._time_is_second(generator, steps, rows)
        inputs = self.sample(steps, rows, generator)
        outputs = self._call(inputs)[0]
        self.every_step, self.output_size = outputs.shape[0] == steps, outputs.shape[2]

    def _learn_length(self, batch_first: bool | None, length: int | None, rows: int, generator: torch.Generator) -> int:
        """A short call if the model takes one (in either order: it cannot tell), else one of its only length."""
        self.batch_first, self.fixed_length = bool(batch_first), None
        try:
            self._output(self.sample(SHORT, rows, generator))
            return SHORT
        except EngramError as error:
            refused = error
        if self._embedding is not None and not self.symbols:  # it reads symbols, perhaps
            self.symbols, self.input_size = True, self._embedding.num_embeddings
            return self._learn_length(batch_first, length, rows, generator)
        if length is None:
            raise refused
        for order in (False, True) if batch_first is None else (batch_first,):
            self.batch_first, self.fixed_length = order, length
            try:
                self._output(self.sample(length, rows, generator))
                return length
            except EngramError:
                continue
        raise refused

    def _time_is_second(self, generator: torch.Generator, steps: int, rows: int) -> bool:
        """Whether it reads batch first: an input changes outputs at other steps of its row, not in other rows."""
        first = self.sample(steps, rows, generator)
        second = first.clone()
        second[0, 0] = second[0, 0].roll(1) if self.symbols else -second[0, 0] - 1
        before, after = self._output(first), self._output(second)
        if before.dim() == 2:  # one answer per sequence
            return before.shape[0] == steps
        if before.shape[:2] in ((1, rows), (steps, 1)):
            return before.shape[:2] == (steps, 1)
        moved = (before != after).any(-1)
        along_first, along_second = bool(moved[1:, 0].any()), bool(moved[0, 1:].any())
        if along_first != along_second:
            return along_second
        said = (part.batch_first for part in self.module.modules() if hasattr(part, "batch_first"))
        return bool(next(said, True))

    @torch.no_grad()
    def _learn_state(self) -> None:
        """Whether the second thing returned is a state: passed in again, the model must continue where it stopped."""
        self._vectors: Vectors | None = None
        self.no_state = "it returns none"
        generator = torch.Generator().manual_seed(1)
        if self.fixed_length is not None:
            self.no_state = f"it takes sequences of {self.fixed_length} steps only"
            return
        inputs = self.sample(2 * SHORT, 3, generator)
        whole, state = self._call(inputs)
        if state is None:
            return
        found = Vectors.between(self._call(inputs[:, :2])[1], state)
        if found is None:
            self.no_state = "what it returns beside its output is not a state of real numbers with the batch in it"
            return
        if found != Vectors.between(self._call(inputs[:SHORT, :2])[1], self._call(inputs[:SHORT])[1]):
            self.no_state = "its state grows with the sequence: it is not one vector"
            return
        try:
            half = found.restore(found.flatten(self._call(inputs[:SHORT])[1]))
            rest = self._call(inputs[SHORT:], half)[0]
        except EngramError:
            self.no_state = "it does not take the state that it returns"
            return
        scale = float(whole.abs().max()) + 1e-30
        if float((rest - whole[-len(rest) :]).abs().max()) > 1e-3 * scale:
            self.no_state = "given its own state it does not continue where it stopped (bidirectional, perhaps)"
            return
        self._vectors = found

    @property
    def state_size(self) -> int:
        return 0 if self._vectors is None else self._vectors.size
