"""A small GPT that learns to write text like text.txt, the Apache licence, character by character.

A network may have its own loss, its own metric, and a summary for the end of the log; here a sample of its text.
"""

from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

TEXT = Path(__file__).with_name("text.txt").read_text()
CHARACTERS = sorted(set(TEXT))
WINDOW, STRIDE = 64, 8  # characters in an example, and from one example to the next
WIDTH, LAYERS, HEADS = 64, 2, 4


def encoded(text: str) -> torch.Tensor:
    return torch.tensor([CHARACTERS.index(each) for each in text])


def characters():
    """Two parts, to train on and to test on: windows (n, 64), and the same shifted by one character."""
    at = len(TEXT) * 9 // 10
    return windows(encoded(TEXT[:at])), windows(encoded(TEXT[at:]))


def windows(text: torch.Tensor):
    found = text.unfold(0, WINDOW + 1, STRIDE)
    return found[:, :-1].contiguous(), found[:, 1:].contiguous()


class Layer(nn.Module):
    """Attention to earlier characters, then a layer for each character alone; both with a shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.attention, self.projection = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.alone = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, states):
        heads = self.attention(self.norms[0](states)).unflatten(-1, (3, HEADS, WIDTH // HEADS))
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        states = states + self.projection(seen.transpose(1, 2).flatten(2))
        return states + self.alone(self.norms[1](states))


class GPT(nn.Module):
    random = False  # there is no dropout

    def __init__(self) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(len(CHARACTERS), WIDTH), nn.Embedding(WINDOW, WIDTH)
        self.layers = nn.Sequential(*(Layer() for _ in range(LAYERS)), nn.LayerNorm(WIDTH))
        self.head = nn.Linear(WIDTH, len(CHARACTERS))

    def forward(self, text):
        places = torch.arange(text.shape[1], device=text.device)
        return self.head(self.layers(self.letters(text) + self.places(places)))

    def loss(self, outputs, targets):
        """The mean over a window's characters, for each window."""
        return functional.cross_entropy(outputs.transpose(1, 2), targets, reduction="none").mean(1)

    def metric(self, outputs, targets):
        """The part of a window's characters that is predicted, for each window."""
        return (outputs.argmax(2) == targets).float().mean(1)

    @torch.no_grad()
    def summary(self, length: int = 200) -> str:
        """A sample of the network's text after a first word."""
        random, device = torch.Generator().manual_seed(1), self.head.weight.device
        text = encoded("      You").tolist()
        for _ in range(length):
            seen = torch.tensor(text[-WINDOW:], device=device)[None]
            likely = functional.softmax(self(seen)[0, -1].float().cpu() / 0.6, dim=0)
            text.append(int(torch.multinomial(likely, 1, generator=random)))
        return "sample:\n" + "".join(CHARACTERS[each] for each in text)
