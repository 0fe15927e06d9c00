"""Any sequence model, ours or anyone's, seen in one way: time first, a state as one vector, nothing changed."""

from contextlib import ExitStack, suppress
from typing import Any, Self

import torch
from torch import Tensor, nn

from engram.errors import EngramError, OptionError
from engram.nn import Recurrent
from engram.probe._caller import Caller
from engram.probe._matrices import recurrent_matrices
from engram.probe._untouched import untouched
from engram.state import Vectors

SHORT = 5  # steps of the first calls


class Subject(Caller):
    """A module that maps sequences to outputs, with or without access to its state.

    Taken are: ``torch.nn.LSTM`` and its like, engram's layers and trained networks, modules that return a tensor only,
    and models of symbols, which are given vectors over the symbols in place of one-hot ones. A module is called as
    ``module(x)`` or ``module(x, state)`` and returns a tensor, a tuple that begins with one, or an object or dict with
    ``logits`` or ``last_hidden_state``.

    Args:
        module: the model.
        input_size: D; found from the module's own or its parts' ``input_size`` unless given.
        batch_first: whether it reads ``(B, T, D)``. Left out, found: an input reaches other steps, not other rows.
        length: T of a model that takes one length only.

    Attributes:
        input_size, output_size: D and the features of the output.
        every_step: whether it answers at every step, or only after the last.
        state_size: N, the real numbers of its state; 0 if it cannot be passed, with ``no_state`` saying why.
        fixed_length: T, if it takes no other.
        notes: what a reader of the numbers should know (dropout switched off, and the like).
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
        self.notes: list[str] = []
        self.fixed_length: int | None = None
        with untouched(module):
            self._learn_form(batch_first, length)
            self._learn_state()
        self._notice_randomness()
        self._notice_numbers()

    @classmethod
    def of(cls, model: "nn.Module | Subject", **options: Any) -> "Subject":
        """The subject itself, or one made of a module."""
        return model if isinstance(model, Subject) else cls(model, **options)

    # Nothing changes: every call happens within `with subject`, which may be nested.

    def __enter__(self) -> Self:
        if self._depth == 0:
            self._entered.enter_context(untouched(self.module))
        self._depth += 1
        return self

    def __exit__(self, *failure: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._entered.close()

    # What it does.

    def outputs(self, inputs: Tensor) -> Tensor:
        """Of inputs ``(T, B, D)``: ``(S, B, C)``, with S = T or, of a model that answers once, 1."""
        with self:
            return self._call(inputs)[0]

    @property
    def can_step(self) -> bool:
        """Whether a state can be handed in and comes out."""
        return self._vectors is not None

    def advance(self, state: Tensor | None, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """From a state ``(B, N)``, or the model's own start, over inputs ``(T, B, D)``: outputs and the next state."""
        if self._vectors is None:
            raise OptionError(f"the state of this model cannot be handed in: {self.no_state}")
        with self:
            outputs, after = self._call(inputs, None if state is None else self._vectors.restore(state))
            return outputs, self._vectors.flatten(after)

    def step(self, state: Tensor | None, input: Tensor) -> Tensor:
        """One step: state ``(B, N)`` and input ``(B, D)`` to the next state."""
        return self.advance(state, input[None])[1]

    def recurrent_matrix(self) -> Tensor | None:
        """W of h_t = f(W h_{t-1} + ...) in the first layer; None where such matrices do not make up the state."""
        if not all(part.cell.matrix_moves_state for part in self.module.modules() if isinstance(part, Recurrent)):
            return None
        with torch.no_grad():
            found = [weight for _, weight, *_ in recurrent_matrices(self.module)]
        covered = sum(len(weight) * (2 if weight.is_complex() else 1) for weight in found)
        return found[0] if found and (covered == self.state_size or not self.can_step) else None

    def __str__(self) -> str:
        state = f"a state of {self.state_size} numbers" if self.can_step else "no state to hand in"
        reads = "symbols" if self.symbols else "inputs"
        return f"{type(self.module).__name__}: {self.input_size} {reads}, {self.output_size} outputs, {state}"

    # What is found out once.

    @torch.no_grad()
    def _learn_form(self, batch_first: bool | None, length: int | None) -> None:
        """Which dimension is time, how many outputs there are, and whether only one length will do."""
        generator = torch.Generator().manual_seed(0)
        rows = 3
        steps = self._learn_length(batch_first, length, rows, generator)
        if batch_first is None and self.fixed_length is None:
            self.batch_first = self._time_is_second(generator, steps, rows)
        inputs = self.draw(steps, rows, generator)
        outputs = self._call(inputs)[0]
        self.every_step, self.output_size = outputs.shape[0] == steps, outputs.shape[2]

    def _learn_length(self, batch_first: bool | None, length: int | None, rows: int, draws: torch.Generator) -> int:
        """A short call if the model takes one (in either order: it cannot tell), else one of its only length."""
        self.batch_first, self.fixed_length = bool(batch_first), None
        try:
            self._try(self.draw(SHORT, rows, draws))
            return SHORT
        except EngramError as error:
            refused = error
        if self._embedding is not None and not self.symbols:  # it reads symbols, perhaps
            self.symbols, self.input_size = True, self._embedding.num_embeddings
            return self._learn_length(batch_first, length, rows, draws)
        if length is None:
            raise refused
        for order in (False, True) if batch_first is None else (batch_first,):
            self.batch_first, self.fixed_length = order, length
            try:
                self._try(self.draw(length, rows, draws))
                return length
            except EngramError:
                continue
        raise refused

    def _time_is_second(self, generator: torch.Generator, steps: int, rows: int) -> bool:
        """An input changes outputs at other steps of its row, and none of other rows."""
        first = self.draw(steps, rows, generator)
        second = first.clone()
        second[0, 0] = second[0, 0].roll(1) if self.symbols else -second[0, 0] - 1
        before, after = self._try(first), self._try(second)
        if before.dim() == 2:  # one answer a sequence
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
        """Whether the second thing returned is a state: handed in again, it must carry on where it stopped."""
        self._vectors: Vectors | None = None
        self.no_state = "it returns none"
        generator = torch.Generator().manual_seed(1)
        if self.fixed_length is not None:
            self.no_state = f"it takes sequences of {self.fixed_length} steps only"
            return
        inputs = self.draw(2 * SHORT, 3, generator)
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
            self.no_state = "handed its own state it does not carry on (it reads both ways, perhaps)"
            return
        self._vectors = found

    @property
    def state_size(self) -> int:
        return 0 if self._vectors is None else self._vectors.size

    @torch.no_grad()
    def _notice_randomness(self) -> None:
        """Two calls in the mode in which the model came, and two in evaluation mode."""
        inputs = self.draw(self.fixed_length or SHORT, 2, torch.Generator().manual_seed(2))
        modes, random = [(part, part.training) for part in self.module.modules()], False
        with self:
            calm = self._agrees(inputs)
            for part, training in modes:
                part.training = training
            with suppress(EngramError):  # what it refuses in training does not matter here
                random = any(training for _, training in modes) and not self._agrees(inputs)
        if not calm:
            self.notes.append(
                "two equal calls give different outputs even in evaluation mode (chance, or a state kept between "
                "calls): numbers are of one draw"
            )
        elif random:
            self.notes.append("two equal calls gave different outputs (dropout): measured in evaluation mode, without")

    def _notice_numbers(self) -> None:
        """Weights that are not finite, or of few digits."""
        named = [*self.module.named_parameters(), *self.module.named_buffers()]
        broken = [name for name, tensor in named if not bool(torch.isfinite(tensor.detach()).all())]
        if broken:
            self.notes.append(f"{broken[0]} holds NaN or infinity ({len(broken)} of {len(named)} tensors do)")
        if self.dtype in (torch.bfloat16, torch.float16):
            self.notes.append(f"the model computes in {self.dtype}: numbers are good to two or three digits")

    def _agrees(self, inputs: Tensor) -> bool:
        return torch.equal(self._call(inputs)[0].nan_to_num(), self._call(inputs)[0].nan_to_num())
