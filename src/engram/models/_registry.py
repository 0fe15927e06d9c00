"""The models by the names the papers gave them, torch's own among them: what the command line takes."""

from dataclasses import dataclass
from typing import Any

from torch import nn

from engram.errors import OptionError, unknown
from engram.imports import is_outside, load_class
from engram.maps import Free
from engram.models._options import Option, options_of, parameters_of
from engram.nn import (
    CPBIRNN,
    CPRNN,
    EURNN,
    GORU,
    GRU,
    IRNN,
    LEM,
    LSTM,
    MIRNN,
    RAC,
    RNN,
    S4,
    S4D,
    SAB,
    URNN,
    AntisymmetricRNN,
    BilinearRNN,
    CoRNN,
    CPNet,
    DepthRNN,
    ExpRNN,
    FullCapacityURNN,
    HDetachLSTM,
    HenaffRNN,
    HouseholderRNN,
    HylandRaetschRNN,
    LinearRNN,
    MemLSTM,
    MemRNN,
    MinGRU,
    MinLSTM,
    NonNormalRNN,
    OrthInitRNN,
    Recurrent,
    RelLSTM,
    RelRNN,
    ScoRNN,
    ScuRNN,
    SecondOrderRNN,
    SoftOrthogonalRNN,
    SpectralMarginRNN,
    SpectralRNN,
    TensorNet,
    TensorTrainNet,
)
from engram.relational import ESBN, MNM, NTM, CoRelNet, CoRelNetT, PrediNet, RelationNetwork, Transformer


@dataclass(frozen=True)
class Entry:
    """A model, as `engram list models` shows it. N is its hidden size, D the number of its inputs."""

    kind: type[nn.Module]
    """The class; it becomes the core of a network."""
    equation: str
    """Its step, in one line."""
    parameters: str
    """How many recurrent parameters it has."""
    step_cost: str
    """What one step costs for one sequence."""
    build_cost: str
    """What its matrix costs to build, once per call; - where nothing is built."""
    source: str
    """The paper it is of."""
    good_for: str
    """When to take it, in a few words."""

    @property
    def options(self) -> dict[str, Option]:
        """The keyword arguments of the class that a run may set, each with its type and default."""
        return options_of(self.kind)

    @property
    def answers_itself(self) -> bool:
        """Whether it is a network with a read-out of its own, which answers once, after the last input."""
        return "output_size" in parameters_of(self.kind)[0]


def _layer(kind: type[Recurrent], good_for: str) -> Entry:
    map = kind.matrix or Free
    own = f"; {map.equation.replace('W =', 'W_hh =')}" if map is not Free else ""
    build = map.build_cost if map.build_cost == "-" else f"O({map.build_cost})"
    cell = kind.cell
    return Entry(kind, cell.equation + own, cell.count or map.count, cell.step_cost, build, kind.source, good_for)


def _tensor(kind: type[TensorNet], good_for: str) -> Entry:
    equation = "h_y = <W_y, f(x_1) o ... o f(x_d)>, " + kind.tensor
    return Entry(kind, equation, kind.count, kind.step_cost, "-", kind.source, good_for)


def _relational(kind: Any, good_for: str) -> Entry:
    return Entry(kind, kind.equation, kind.count, kind.step_cost, "-", kind.source, good_for)


def _torch(kind: type[nn.Module], equal: type[Recurrent]) -> Entry:
    """torch's own layer, which equals one of ours."""
    cell, good_for = equal.cell, f"torch.nn.{kind.__name__} itself, to compare with"
    return Entry(kind, cell.equation, cell.count, cell.step_cost, "-", equal.source, good_for)


MODELS: dict[str, Entry] = {
    "rnn": _layer(RNN, "the plain network; takes any map and activation"),
    "irnn": _layer(IRNN, "a ReLU baseline that starts at the identity"),
    "orth-init": _layer(OrthInitRNN, "whether an orthogonal start alone is enough"),
    "urnn": _layer(URNN, "the first unitary network, with O(N) parameters"),
    "full-capacity": _layer(FullCapacityURNN, "every unitary matrix, by steps on the group"),
    "hyland-raetsch": _layer(HylandRaetschRNN, "every unitary matrix, with any optimiser"),
    "householder": _layer(HouseholderRNN, "orthogonal with as many reflections as you pay for"),
    "eurnn": _layer(EURNN, "unitary with as many rotations as you pay for"),
    "scornn": _layer(ScoRNN, "orthogonal with a chosen number of eigenvalues near -1"),
    "scurnn": _layer(ScuRNN, "unitary with trained phases"),
    "exprnn": _layer(ExpRNN, "long memory: copy and pixel tasks; the default"),
    "nnrnn": _layer(NonNormalRNN, "orthogonal eigenvalues and a feed-forward part: memory and expression"),
    "soft-orthogonal": _layer(SoftOrthogonalRNN, "nearly orthogonal by a penalty alone: the baseline of the others"),
    "spectral-margin": _layer(SpectralMarginRNN, "singular values that may leave 1 by a margin"),
    "spectral": _layer(SpectralRNN, "singular values that are trained within bounds"),
    "goru": _layer(GORU, "an orthogonal matrix with gates that forget"),
    "rac": _layer(RAC, "theory of depth: products of states and inputs"),
    "mirnn": _layer(MIRNN, "products and sums of state and input in one step"),
    "2rnn": _layer(SecondOrderRNN, "automata: a matrix per symbol, with linear terms"),
    "birnn": _layer(BilinearRNN, "weighted automata: a matrix per symbol and nothing else"),
    "cprnn": _layer(CPRNN, "a 2rnn of a chosen rank"),
    "cpbirnn": _layer(CPBIRNN, "a birnn of a chosen rank"),
    "henaff": _layer(HenaffRNN, "a linear memory of activated inputs: copy and adding in theory"),
    "linear-rnn": _layer(LinearRNN, "what memory does without any activation"),
    "depth-rnn": _layer(DepthRNN, "linear in time, an activation between layers"),
    "s4": _layer(S4, "very long sequences: runs as a convolution"),
    "s4d": _layer(S4D, "as s4 with a diagonal matrix: simpler, as good"),
    "lstm": _layer(LSTM, "the baseline; language; as torch.nn.LSTM, with layer_norm and chrono"),
    "gru": _layer(GRU, "a baseline of fewer weights; as torch.nn.GRU, with layer_norm and chrono"),
    "torch-lstm": _torch(nn.LSTM, LSTM),
    "torch-gru": _torch(nn.GRU, GRU),
    "h-detach": _layer(HDetachLSTM, "an LSTM whose gradients do not explode through h: copying over long delays"),
    "sab": _layer(SAB, "an LSTM that looks back at a few of all its states; the memory grows with T"),
    "antisymmetric": _layer(AntisymmetricRNN, "long memory without gates: a stable differential equation"),
    "cornn": _layer(CoRNN, "long memory by oscillators; dt, gamma and epsilon are tuned per task"),
    "lem": _layer(LEM, "many time scales at once: long memory with the expression of an LSTM"),
    "min-gru": _layer(MinGRU, "long sequences, all steps at once; few weights, gates that do not see the state"),
    "min-lstm": _layer(MinLSTM, "as min-gru with two gates"),
    "memrnn": _layer(MemRNN, "attention over all past states: short sequences; a baseline of relrnn"),
    "memlstm": _layer(MemLSTM, "as memrnn, with the gates of an LSTM"),
    "relrnn": _layer(RelRNN, "long gaps in constant memory: attends to nu last states and rho relevant ones"),
    "rellstm": _layer(RelLSTM, "as relrnn, with the gates of an LSTM; the default choice of the two"),
    "tensor-train": _tensor(TensorTrainNet, "one answer to a fixed number of inputs: theory of depth"),
    "cp-net": _tensor(CPNet, "the shallow network that a tensor train is compared with"),
    "corelnet": _relational(CoRelNet, "relations between objects, seen or never seen before: few weights, fast"),
    "corelnet-t": _relational(CoRelNetT, "as corelnet, with a transformer over the rows of similarities"),
    "esbn": _relational(ESBN, "relations, one object at a time: an LSTM that never sees the objects"),
    "transformer": _relational(Transformer, "one layer of attention over objects: a baseline of relational networks"),
    "predinet": _relational(PrediNet, "pairs of objects by attention, and their differences: a baseline"),
    "rn": _relational(RelationNetwork, "one perceptron for every pair of objects: a baseline"),
    "ntm": _relational(NTM, "an LSTM with a memory of slots: a baseline"),
    "mnm": _relational(MNM, "an LSTM with a network for a memory: a baseline"),
}


def model_class(name: str) -> type[nn.Module]:
    """The class of a model: one of :data:`MODELS`, or ``package.module:Class`` or ``file.py:Class``, which is imported.

    >>> model_class("gru")
    <class 'engram.nn._gru.GRU'>
    """
    if name in MODELS:
        return MODELS[name].kind
    if name.endswith(".py"):
        raise OptionError(f"a model in a file is named with its class, {name}:MyModel")
    if not is_outside(name):
        raise unknown("model", name, MODELS)
    return load_class(name, nn.Module)
