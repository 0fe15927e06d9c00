"""RelRNN as the authors' public program computes it: lists of states per sample, a Python loop over samples and slots.

Written again from what that program does, so that it runs here: per step the relevant states of all samples are picked
out of lists, slot by slot and sample by sample; the keys of the whole memory are computed anew; and each sample decides
in Python whether the state that leaves the buffer is kept. The numbers are those of
``RelRNN(..., combine="mean")`` with the same weights.
"""

import torch
from torch import Tensor, nn


class PerSampleRelRNN(nn.Module):
    """``(T, B, D)`` to a tuple of ``(T, B, H)``; nu is the size of the buffer, rho that of the relevant set."""

    def __init__(self, input_size: int, hidden_size: int, nu: int = 10, rho: int = 10) -> None:
        super().__init__()
        self.input = nn.Linear(input_size, hidden_size)
        self.recurrent = nn.Linear(hidden_size, hidden_size, bias=False)
        self.query = nn.Linear(hidden_size, hidden_size, bias=False)
        self.key = nn.Linear(hidden_size, hidden_size, bias=False)
        self.align = nn.Parameter(torch.empty(hidden_size).uniform_(-(hidden_size**-0.5), hidden_size**-0.5))
        self.nu, self.rho = nu, rho

    def forward(self, input: Tensor) -> tuple[Tensor]:
        rows, size = input.shape[1], self.key.in_features
        s = input.new_zeros(rows, size)
        buffer: list[Tensor] = []  # of all samples, (B, H) each
        received: list[Tensor] = []  # the attention that each of them got, (B,)
        kept: list[list[Tensor]] = [[] for _ in range(rows)]  # of each sample, (H,) each
        scores: list[list[float]] = [[] for _ in range(rows)]
        outputs = []
        for x in input:
            h = torch.tanh(self.input(x) + self.recurrent(s))
            if len(buffer) == self.nu:
                self._screen(buffer.pop(0), received.pop(0), kept, scores)
            buffer.append(h)
            received.append(input.new_zeros(rows))
            s = self._attend(s, h, buffer, received, kept)
            outputs.append(h)
        return (torch.stack(outputs),)

    def _screen(self, h: Tensor, beta: Tensor, kept: list[list[Tensor]], scores: list[list[float]]) -> None:
        for row in range(len(h)):
            score = beta[row].item()
            if len(kept[row]) < self.rho:
                kept[row].append(h[row])
                scores[row].append(score)
                continue
            lowest = min(range(self.rho), key=scores[row].__getitem__)
            if score > scores[row][lowest]:
                kept[row][lowest], scores[row][lowest] = h[row], score

    def _attend(
        self, s: Tensor, h: Tensor, buffer: list[Tensor], received: list[Tensor], kept: list[list[Tensor]]
    ) -> Tensor:
        slots, masks = [], []
        for slot in range(self.rho):
            chosen = [own[slot] if slot < len(own) else torch.zeros_like(h[0]) for own in kept]
            slots.append(torch.stack(chosen))
            masks.append(torch.tensor([0.0 if slot < len(own) else -torch.inf for own in kept], dtype=h.dtype))
        memory = torch.stack([*buffer, *slots])  # (nu + rho, B, H)
        mask = torch.stack([*(torch.zeros(len(h), dtype=h.dtype) for _ in buffer), *masks])
        energy = torch.tanh(self.query(s) + self.key(memory)) @ self.align + mask
        weights = energy.softmax(0)
        for k in range(len(buffer)):
            received[k] = received[k] + weights[k].detach()
        return 0.5 * (h + (weights[..., None] * memory).sum(0))
