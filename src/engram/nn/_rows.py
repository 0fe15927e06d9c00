"""Packed rows as a padded batch and back, for layers that see a whole sequence at once."""

import torch
from torch import Tensor


class TimeLine:
    """Where the rows of a sequence stand in a batch ``(T, B, ...)`` that begins at the first step read.

    Packed sequences are padded with zeros at the end; read in reverse, each row begins at its own last step.
    """

    def __init__(self, rows: Tensor, sizes: Tensor | None, reverse: bool) -> None:
        self.sizes, self.reverse = sizes, reverse
        if sizes is None:
            self.steps, self.batch = rows.shape[0], rows.shape[1]
            self.lengths = torch.full((self.batch,), self.steps, device=rows.device)
            return
        self.steps, self.batch = len(sizes), int(sizes[0])
        lengths = (sizes[:, None] > torch.arange(self.batch)).sum(0)
        step = torch.repeat_interleave(torch.arange(self.steps), sizes)
        row = torch.cat([torch.arange(int(n)) for n in sizes])
        last = lengths[row] - 1
        self.lengths, self.row = lengths.to(rows.device), row.to(rows.device)
        self.place = (last - step if reverse else step).to(rows.device)
        self.age = (step if reverse else last - step).to(rows.device)

    def oldest_first(self, rows: Tensor) -> Tensor:
        """``(T, B, H)``, the first step read first."""
        if self.sizes is None:
            return rows.flip(0) if self.reverse else rows
        return self._put(rows, self.place)

    def newest_first(self, rows: Tensor) -> Tensor:
        """``(T, B, H)``, the last step read first: at the age that the step has when all are read."""
        if self.sizes is None:
            return rows if self.reverse else rows.flip(0)
        return self._put(rows, self.age)

    def _put(self, rows: Tensor, places: Tensor) -> Tensor:
        empty = rows.new_zeros(self.steps, self.batch, rows.shape[-1])
        return empty.index_put((places, self.row), rows)

    def back(self, batch: Tensor) -> Tensor:
        """From :meth:`oldest_first` to rows in the order of the input."""
        if self.sizes is None:
            return batch.flip(0) if self.reverse else batch
        return batch[self.place, self.row]

    def last(self, rows: Tensor) -> Tensor:
        """The last step read of each row, ``(B, H)``."""
        if self.sizes is None:
            return rows[0] if self.reverse else rows[-1]
        return rows[self.age == 0][torch.argsort(self.row[self.age == 0])]
