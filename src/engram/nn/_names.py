"""torch's names of weights: ``layer.weight_hh_l1_reverse`` is the ``weight_hh`` of a cell.

A plain weight is a parameter of the layer under torch's name and of its cell under its own: one parameter with two
names, of which ``named_parameters()`` and ``state_dict()`` say torch's. So programs for torch.nn that look for
``weight_hh``, prune, normalise or drop weights work. A matrix under a map is made of other numbers, which belong to its
cell; read by torch's name it is built, and assigned it is moved there (copied), or refused.
"""

import re
from collections.abc import Iterator
from typing import Any, Self

from torch import nn
from torch.nn.utils import parametrize

from engram.errors import OptionError

_NAME = re.compile(r"(\w+)(_l\d+(?:_reverse)?)")


class TorchNames(nn.Module):
    """A module with ``cells``, whose weights have the names of torch.nn.RNN's."""

    cells: Any  # an nn.ModuleList: one cell per layer and direction, forward before backward
    bidirectional: bool

    def named_cells(self) -> Iterator[tuple[str, Any]]:
        """Every cell with the suffix that torch gives to its weights: ``_l0``, ``_l0_reverse``, ``_l1``, ..."""
        directions = 2 if self.bidirectional else 1
        for k, cell in enumerate(self.cells):
            layer, back = divmod(k, directions)
            yield f"_l{layer}" + ("_reverse" if back else ""), cell

    def _tie(self) -> None:
        """Declared weights of the cells are parameters of the layer too. Where the two differ, the cell computes."""
        for suffix, cell in self.named_cells():
            for name in cell.declared:
                weight = cell._parameters.get(name)
                if weight is not None:
                    self._parameters[name + suffix] = weight
                elif parametrize.is_parametrized(cell, name) or name in cell.__dict__:  # done to the cell itself
                    self._parameters.pop(name + suffix, None)

    def _weight(self, name: str) -> tuple[Any, str] | None:
        """The cell and its weight that torch calls ``weight_hh_l1_reverse``."""
        match = _NAME.fullmatch(name) if "_l" in name else None
        if match and "cells" in self._modules:
            for suffix, cell in self.named_cells():
                if suffix == match[2] and (match[1] in cell.declared or match[1] in cell._parameters):
                    return cell, match[1]
        return None

    def _map_of(self, name: str) -> Any:
        """The map of a weight by torch's name, if it is under one."""
        found = self._weight(name)
        return found[0].parametrizations[found[1]][0] if found and parametrize.is_parametrized(*found) else None

    def __getattr__(self, name: str) -> Any:
        found = self._weight(name)
        if found is not None and hasattr(*found):
            return getattr(*found)
        return super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        """A parameter ties, as in torch, and a matrix under a map is moved to the value.

        A plain tensor takes the place of a parameter that somebody has taken away, as pruning does at each call.
        """
        found = self._weight(name)
        if found is None:
            super().__setattr__(name, value)
        elif parametrize.is_parametrized(*found):
            setattr(*found, value.detach() if isinstance(value, nn.Parameter) else value)
        elif isinstance(value, nn.Parameter):
            self._give(*found, value)
            self.__dict__.pop(name, None)
            self._parameters[name] = value
        else:
            super().__setattr__(name, value)  # which refuses what is no parameter where there is one
            self._give(*found, value)

    def _give(self, cell: Any, own: str, value: Any) -> None:
        """A weight of a cell: a parameter, none, or a plain tensor."""
        self._take(cell, own)
        if value is None or isinstance(value, nn.Parameter):
            cell._parameters[own] = value
        else:
            cell.__dict__[own] = value

    def _take(self, cell: Any, own: str) -> None:
        cell._parameters.pop(own, None)
        cell.__dict__.pop(own, None)

    def __delattr__(self, name: str) -> None:
        self._refuse_mapped(name)
        found = self._weight(name)
        super().__delattr__(name)
        if found is not None:
            self._take(*found)

    def register_parameter(self, name: str, param: Any) -> None:
        for ending in ("_orig", "_raw", "_g", "_v"):  # what pruning, WeightDrop and weight_norm register
            if name.endswith(ending):
                self._refuse_mapped(name.removesuffix(ending))
        super().register_parameter(name, param)
        found = self._weight(name)
        if found is not None:
            self._give(*found, param)

    def _refuse_mapped(self, name: str) -> None:
        map = self._map_of(name)
        if map is not None:
            raise OptionError(
                f"{name} is a matrix under {map!r}: it is not a parameter that can be pruned, dropped or normalised. "
                "layer.fold() gives a plain copy of the layer"
            )

    def _run_cells(self) -> list[Any]:
        """The cells; where torch's parametrizations stand on the layer, views of them that have those weights."""
        cells = list(self.cells)
        lists: Any = self._modules.get("parametrizations") or ()  # getattr would search all weights in vain
        for name in lists:
            found = self._weight(name)
            if found is not None:
                k = next(k for k, cell in enumerate(self.cells) if cell is found[0])
                view = cells[k].__class__.__new__(cells[k].__class__)
                view.__dict__ |= {**cells[k].__dict__, found[1]: getattr(self, name)}
                cells[k] = view
        return cells

    # Moving and saving: each weight once.

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        self._tie()
        before = dict(self._parameters)
        tied = {name: found for name in before if (found := self._weight(name)) and found[1] in found[0]._parameters}
        for name in tied:
            del self._parameters[name]
        super()._apply(fn, recurse)
        moved = dict(self._parameters)
        self._parameters.clear()  # the order stays: optimisers know their parameters by place
        for name in before:
            self._parameters[name] = tied[name][0]._parameters[tied[name][1]] if name in tied else moved[name]
        return self

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        self._tie()
        found = super().state_dict(*args, destination=destination, prefix=prefix, keep_vars=keep_vars)
        for k, (suffix, cell) in enumerate(self.named_cells()):
            for name, weight in cell._parameters.items():
                if weight is not None and self._parameters.get(name + suffix) is weight:
                    del found[f"{prefix}cells.{k}.{name}"]
        return found

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: Any,
        unexpected_keys: Any,
        error_msgs: Any,
    ) -> None:
        """Also what torch.nn.RNN has saved: its two biases do the same, and become one."""
        self._tie()
        for suffix, cell in self.named_cells():
            biases = [f"{prefix}bias_{kind}{suffix}" for kind in ("ih", "hh")]
            bias = cell._parameters.get("bias")
            one_gate = bias is not None and len(bias) == cell.hidden_size  # those of a GRU are not to be added
            if one_gate and "bias_ih" not in cell._parameters and all(name in state_dict for name in biases):
                state_dict[f"{prefix}bias{suffix}"] = sum(state_dict.pop(name) for name in biases)
            for name in getattr(cell, "parametrizations", ()):
                if state_dict.pop(f"{prefix}{name}{suffix}", None) is not None:
                    error_msgs.append(
                        f"{name}{suffix} is a matrix under {cell.parametrizations[name][0]!r}, which is saved by its "
                        f"own numbers. Assign a matrix: layer.{name}{suffix} = ..., or load into a layer of map='free'"
                    )
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
        for k, (suffix, cell) in enumerate(self.named_cells()):  # what the cells will look for is loaded already
            for name in cell._parameters:
                if self._parameters.get(name + suffix) is not None:
                    state_dict[f"{prefix}cells.{k}.{name}"] = self._parameters[name + suffix]
