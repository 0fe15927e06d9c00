# ruff: noqa: T201 - a program
"""A word language model as PyTorch's examples have one: `word_model.py train`, then `word_model.py generate`."""

import math
import random
import sys

import torch
from torch import nn

HIDDEN, LAYERS, BATCH, BPTT, CLIP, EPOCHS = 64, 2, 10, 20, 0.25, 4


class RNNModel(nn.Module):
    """Encoder, recurrent layer, decoder."""

    def __init__(self, ntoken, ninp, nhid, nlayers, dropout=0.1):
        super().__init__()
        self.ntoken, self.nhid, self.nlayers = ntoken, nhid, nlayers
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = nn.LSTM(ninp, nhid, nlayers, dropout=dropout)
        self.decoder = nn.Linear(nhid, ntoken)
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.uniform_(self.decoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, input, hidden):
        output, hidden = self.rnn(self.drop(self.encoder(input)), hidden)
        decoded = self.decoder(self.drop(output)).view(-1, self.ntoken)
        return nn.functional.log_softmax(decoded, dim=1), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        zeros = weight.new_zeros(self.nlayers, bsz, self.nhid)
        return (zeros, zeros.clone())


def repackage_hidden(h):
    """Wrap hidden states in new tensors, to detach them from their history."""
    return h.detach() if isinstance(h, torch.Tensor) else tuple(repackage_hidden(v) for v in h)


def text(sentences, seed):
    """Sentences of a small grammar: a subject in the plural wants a verb in the plural, whatever stands between."""
    draw = random.Random(seed)
    words = []
    for _ in range(sentences):
        plural = draw.random() < 0.5
        subject = draw.choice(["dogs", "cats"] if plural else ["dog", "cat"])
        between = ["that", "the", draw.choice(["child", "children"]), "knew"] if draw.random() < 0.5 else []
        words += ["the", subject, *between, "sleep" if plural else "sleeps", "."]
    return words


def batchify(ids, bsz):
    return ids[: len(ids) // bsz * bsz].view(bsz, -1).t().contiguous()


def get_batch(source, i):
    length = min(BPTT, len(source) - 1 - i)
    return source[i : i + length], source[i + 1 : i + 1 + length].reshape(-1)


def evaluate(model, source):
    model.eval()
    total, hidden = 0.0, model.init_hidden(source.shape[1])
    with torch.no_grad():
        for i in range(0, len(source) - 1, BPTT):
            data, targets = get_batch(source, i)
            output, hidden = model(data, hidden)
            hidden = repackage_hidden(hidden)
            total += len(data) * nn.functional.nll_loss(output, targets).item()
    return total / (len(source) - 1)


def train_epoch(model, source, lr):
    model.train()
    hidden = model.init_hidden(source.shape[1])
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for i in range(0, len(source) - 1, BPTT):
        data, targets = get_batch(source, i)
        hidden = repackage_hidden(hidden)
        output, hidden = model(data, hidden)
        optimizer.zero_grad()
        nn.functional.nll_loss(output, targets).backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()


def generate(model, vocabulary, count=60):
    model.eval()
    torch.manual_seed(1)
    input, hidden, words = torch.zeros(1, 1, dtype=torch.long), model.init_hidden(1), []
    with torch.no_grad():
        for _ in range(count):
            output, hidden = model(input, hidden)
            input.fill_(int(torch.multinomial(output.squeeze().exp(), 1)))
            words.append(vocabulary[int(input)])
    return " ".join(words)


def main(command):
    vocabulary = sorted(set(text(500, seed=0)))
    if command == "train":
        torch.manual_seed(0)
        train, valid = (
            batchify(torch.tensor([vocabulary.index(word) for word in text(count, seed)]), BATCH)
            for count, seed in ((1500, 1), (200, 2))
        )
        model, best, lr = RNNModel(len(vocabulary), 32, HIDDEN, LAYERS), None, 10.0
        print(f"perplexity {math.exp(evaluate(model, valid)):.2f} of {len(vocabulary)} words")
        for _ in range(EPOCHS):
            train_epoch(model, train, lr)
            loss = evaluate(model, valid)
            if best is None or loss < best:
                best = loss
                torch.save(model, "model.pt")
            else:
                lr /= 4
        print(f"perplexity {math.exp(best):.2f} of {len(vocabulary)} words")
    model = torch.load("model.pt", weights_only=False)
    model.rnn.flatten_parameters()
    print(generate(model, vocabulary))


if __name__ == "__main__":
    main(sys.argv[1])
