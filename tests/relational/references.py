"""Every relational network written out again, from its equation: one sequence at a time, loops over positions."""

import math
from typing import Any

import torch
from torch import Tensor

from engram.relational import ESBN, MNM, NTM, CoRelNet, CoRelNetT, PrediNet, RelationNetwork, Transformer


def linear(layer: Any, vector: Tensor) -> Tensor:
    found = torch.stack([dot(row, vector) for row in layer.weight])
    return found if layer.bias is None else found + layer.bias


def softmax(numbers: Tensor) -> Tensor:
    powers = [torch.exp(number) for number in numbers - numbers.max()]
    return torch.stack(powers) / sum(powers)


def mlp(decoder: Any, vector: Tensor) -> Tensor:
    return linear(decoder.answer, linear(decoder.hidden, vector).clamp(min=0))


def dot(a: Tensor, b: Tensor) -> Tensor:
    return sum(x * y for x, y in zip(a, b, strict=True))  # type: ignore[return-value]


def sigmoid(number: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-number))


def softplus(number: Tensor) -> Tensor:
    return torch.log(1 + torch.exp(number))


def context_norm(z: Tensor, gamma: Tensor, beta: Tensor, segments: tuple[int, ...]) -> Tensor:
    """z ``(T, F)``."""
    found, start = [], 0
    for length in segments:
        part = [z[start + k] for k in range(length)]
        mean = sum(part) / length  # type: ignore[operator]
        variance = sum((each - mean) ** 2 for each in part) / (length - 1) + 1e-8  # type: ignore[operator]
        found += [gamma * (each - mean) / variance**0.5 + beta for each in part]
        start += length
    return torch.stack(found)


def relations(part: Any, z: Tensor) -> list[list[Tensor]]:
    """The matrix of a Similarity for one sequence ``(T, F)``, without those of mix."""
    steps = len(z)
    if part.kind == "diff":
        numbers = [linear(part.scalar, each)[0] for each in z]
        return [[a - b for b in numbers] for a in numbers]
    left = [linear(part.first, each) for each in z] if part.kind == "asymmetric" else list(z)
    right = [linear(part.second, each) for each in z] if part.kind == "asymmetric" else list(z)
    scores = [[dot(a, b) for b in right] for a in left]
    if not part.softmax:
        return scores
    found = []
    for i in range(steps):
        seen = i + 1 if part.entries == "causal" else steps
        row = softmax(torch.stack(scores[i][:seen]))
        found.append([*row, *[torch.zeros(()).to(z)] * (steps - seen)])
    return found


def entries(part: Any, z: Tensor) -> Tensor:
    matrix = relations(part, z)
    last = (lambda i: len(z)) if part.entries == "full" else (lambda i: i + 1)
    return torch.stack([matrix[i][j] for i in range(len(z)) for j in range(last(i))])


def corelnet(network: CoRelNet, z: Tensor) -> Tensor:
    seen = entries(network.similarity, z)
    return mlp(network.decoder, torch.cat([seen, *z]) if network.sensory else seen)


def layer_norm(norm: Any, vector: Tensor) -> Tensor:
    mean = sum(vector) / len(vector)  # type: ignore[operator]
    variance = sum((x - mean) ** 2 for x in vector) / len(vector)  # type: ignore[operator]
    return (vector - mean) / (variance + 1e-5) ** 0.5 * norm.weight + norm.bias


def encoder_layer(layer: Any, tokens: list[Tensor]) -> list[Tensor]:
    size, heads = len(tokens[0]), layer.heads
    width = size // heads
    projected = [linear(layer.projections, x) for x in tokens]
    parts = [[p[k * size : (k + 1) * size] for p in projected] for k in range(2 if layer.symmetric else 3)]
    queries, keys, values = (parts[0], parts[0], parts[1]) if layer.symmetric else parts
    found = []
    for i, x in enumerate(tokens):
        merged = []
        for h in range(heads):
            cut = slice(h * width, (h + 1) * width)
            weights = softmax(torch.stack([dot(queries[i][cut], key[cut]) / math.sqrt(width) for key in keys]))
            merged.append(sum(w * value[cut] for w, value in zip(weights, values, strict=True)))
        x = layer_norm(layer.first, x + linear(layer.merge, torch.cat(merged)))  # type: ignore[arg-type]
        widened = linear(layer.widen, x).clamp(min=0)
        found.append(layer_norm(layer.second, x + linear(layer.narrow, widened)))
    return found


def corelnet_t(network: CoRelNetT, z: Tensor) -> Tensor:
    matrix, keeps = relations(network.similarity, z), network.similarity.entries != "full"
    tokens = []
    for i in range(len(z)):
        row = [r if j <= i or not keeps else torch.zeros_like(r) for j, r in enumerate(matrix[i])]
        parts = [torch.stack(row), *([z[i]] if network.sensory else []), network.positions[i]]
        tokens.append(linear(network.token, torch.cat(parts)))
    tokens = encoder_layer(network.layer, tokens)
    return mlp(network.decoder, sum(tokens) / len(tokens))  # type: ignore[operator]


def transformer(network: Transformer, z: Tensor) -> Tensor:
    steps, size = len(z), network.size
    tokens = []
    z = torch.cat([z, z.new_zeros(steps, size - z.shape[1])], 1)
    for t in range(steps):
        angle = [t / 10000 ** ((f - f % 2) / size) for f in range(size)]
        place = [math.cos(a) if f % 2 else math.sin(a) for f, a in enumerate(angle)]
        tokens.append(z[t] + torch.tensor(place, dtype=z.dtype))
    for layer in network.layers:
        tokens = encoder_layer(layer, tokens)
    return mlp(network.decoder, sum(layer_norm(network.norm, x) for x in tokens) / steps)  # type: ignore[operator]


def tagged(z: Tensor) -> list[Tensor]:
    return [torch.cat([each, torch.tensor([float(t)]).to(z)]) for t, each in enumerate(z)]


def predinet(network: PrediNet, z: Tensor) -> Tensor:
    x = tagged(z)
    keys, found = [linear(network.key, each) for each in x], []
    queries = [linear(query, torch.cat(x)) for query in network.queries]
    size = len(keys[0])
    for h in range(network.heads):
        chosen = []
        for query in queries:
            weights = softmax(torch.stack([dot(query[h * size : (h + 1) * size], key) for key in keys]))
            chosen.append(sum(w * each for w, each in zip(weights, x, strict=True)))
        first, second = chosen
        found += [linear(network.directions, first) - linear(network.directions, second), first[-1:], second[-1:]]  # type: ignore[arg-type, index]
    return mlp(network.decoder, torch.cat(found))


def rn(network: RelationNetwork, z: Tensor) -> Tensor:
    x, total = tagged(z), 0
    for a in x:
        for b in x:
            total = total + linear(network.second, linear(network.first, torch.cat([a, b])).clamp(min=0)).clamp(min=0)
    return mlp(network.decoder, total)  # type: ignore[arg-type]


class Layer:
    """Weights that a cell has declared under a name, as a linear layer."""

    def __init__(self, cell: Any, name: str, rows: slice = slice(None)) -> None:
        self.weight, self.bias = getattr(cell, f"weight_{name}")[rows], getattr(cell, f"bias_{name}")[rows]


def lstm(cell: Any, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    size = len(h)
    total = cell.weight_ih @ x + cell.bias_ih + cell.weight_hh @ h + cell.bias_hh
    i, f, g, o = (total[k * size : (k + 1) * size] for k in range(4))
    c = sigmoid(f) * c + sigmoid(i) * torch.tanh(g)
    return sigmoid(o) * torch.tanh(c), c


def esbn(network: ESBN, z: Tensor) -> Tensor:
    cell = network.cell
    h = c = z.new_zeros(cell.hidden_size)
    read, written = z.new_zeros(cell.key_size + 1), []
    for t in range(len(z) + 1):
        now = z[t] if t < len(z) else torch.zeros_like(z[0])
        h, c = lstm(cell, torch.cat([read, now]) if network.sensory else read, h, c)
        key = linear(Layer(cell, "key"), h).clamp(min=0)
        gate = sigmoid(linear(Layer(cell, "gate"), h))
        asked = linear(network.first, now) if network.kind == "asymmetric" else now
        if written:
            scores = torch.stack([dot(asked, stored) for _, stored in written])
            confidence = sigmoid(network.confidence_gain * scores + network.confidence_bias)
            rows = [torch.cat([k, confidence[j : j + 1]]) for j, (k, _) in enumerate(written)]
            read = gate * sum(w * row for w, row in zip(softmax(scores), rows, strict=True))
        written.append((key, linear(network.second, now) if network.kind == "asymmetric" else now))
    return linear(network.answer, h)


def ntm(network: NTM, z: Tensor) -> Tensor:
    cell, memory = network.cell, network.memory
    slots, size = memory.shape
    h = c = z.new_zeros(cell.hidden_size)
    read = z.new_zeros(size)
    looked: list[Tensor | None] = [None, None]
    for t in range(len(z) + 1):
        now = z[t] if t < len(z) else torch.zeros_like(z[0])
        h, c = lstm(cell, torch.cat([now, read]), h, c)
        heads, shape = linear(Layer(cell, "heads"), h), linear(Layer(cell, "shape"), h)
        keys, erase, add = heads[: 2 * size].tanh(), sigmoid(heads[2 * size : 3 * size]), heads[3 * size :].tanh()
        for head in range(2):
            if head == 0 and t == 0:
                continue
            key, own = keys[head * size : (head + 1) * size], shape[6 * head : 6 * head + 6]
            cosines = [dot(key, slot) / (dot(key, key) ** 0.5 * dot(slot, slot) ** 0.5) for slot in memory]
            at = softmax(softplus(own[0]) * torch.stack(cosines))
            before = looked[head]
            if before is not None:
                at = sigmoid(own[1]) * at + (1 - sigmoid(own[1])) * before
            back, stay, ahead = softmax(own[3:])
            at = torch.stack([back * at[(s + 1) % slots] + stay * at[s] + ahead * at[s - 1] for s in range(slots)])
            at = at ** (1 + softplus(own[2]))
            looked[head] = at / at.sum()
        if looked[0] is not None:
            read = sum(w * slot for w, slot in zip(looked[0], memory, strict=True))  # type: ignore[assignment]
        memory = torch.stack([m * (1 - w * erase) + w * add for w, m in zip(looked[1], memory, strict=True)])  # type: ignore[arg-type]
    return linear(network.answer, h)


def mnm(network: MNM, z: Tensor) -> tuple[Tensor, Tensor]:
    """The answer and the sum of the errors; here the memory's matrices are stored, and written in full."""
    cell, size = network.cell, network.cell.size
    matrices = [each.clone() for each in cell.initial]

    def remembered(key: Tensor) -> list[Tensor]:
        first = torch.tanh(matrices[0] @ key)
        second = torch.tanh(matrices[1] @ first)
        return [first, second, matrices[2] @ second]

    h = c = z.new_zeros(cell.hidden_size)
    read, error = z.new_zeros(size), z.new_zeros(())
    for t in range(len(z) + 1):
        now = z[t] if t < len(z) else torch.zeros_like(z[0])
        h, c = lstm(cell, torch.cat([now, read]), h, c)
        heads = linear(Layer(cell, "heads"), h).tanh()
        rated, key, value, query = (heads[k * size : (k + 1) * size] for k in range(4))
        rate = sigmoid(linear(Layer(cell, "rate"), rated))
        found, targets = remembered(key), linear(Layer(cell, "targets"), value)
        inputs = [key, *found[:2]]
        for k in range(3):
            missed = found[k] - targets[k * size : (k + 1) * size]
            matrices[k] = matrices[k] - 2 / size * torch.outer(missed, rate * inputs[k])
        error = error + ((remembered(key)[-1] - value) ** 2).mean()
        read = remembered(query)[-1]
    return linear(network.answer, linear(network.merge, torch.cat([h, read]))), error
