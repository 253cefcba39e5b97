"""GPT-2 as recipes/gpt_s.yaml and gpt_m.yaml describe it, in plain PyTorch, shared by every mode of train.py."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True)
class Size:
    layers: int
    hidden: int
    heads: int
    context: int
    vocab: int
    batch: int  # samples of a global batch


SIZES = {
    "tiny": Size(layers=2, hidden=64, heads=4, context=32, vocab=256, batch=8),
    "S": Size(layers=6, hidden=384, heads=6, context=256, vocab=256, batch=16),
    "M": Size(layers=12, hidden=768, heads=12, context=512, vocab=50257, batch=4),
}


def attend(q, k, v, how):
    """Causal attention over [batch, heads, time, head width]."""
    if how == "sdpa":  # the fused kernel that PyTorch chooses
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    time = q.size(-2)
    above = torch.ones(time, time, dtype=torch.bool).triu(1)
    scores = (q * (1 / math.sqrt(q.size(-1)))) @ k.transpose(-2, -1)
    return scores.masked_fill_(above, -math.inf).softmax(-1) @ v


class Block(nn.Module):
    def __init__(self, size, attention):
        super().__init__()
        width = size.hidden
        self.head_width, self.attention = width // size.heads, attention
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.c_fc, self.c_out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, time, _ = x.shape
        # Rows of c_attn go head by head, so that a tensor-parallel rank's rows are whole heads.
        qkv = self.c_attn(self.ln_1(x)).view(batch, time, -1, 3, self.head_width).permute(3, 0, 2, 1, 4)
        y = attend(*qkv.unbind(0), self.attention).transpose(1, 2).reshape(batch, time, -1)
        x = x + self.c_proj(y)
        return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    """Blocks `part` of the model; the first part embeds, the last has the tied head. Returns logits."""

    def __init__(self, size, attention, part=None):
        super().__init__()
        part = range(size.layers) if part is None else part
        self.first, self.last = part.start == 0, part.stop == size.layers
        if self.first or self.last:
            self.wte = nn.Embedding(size.vocab, size.hidden)
        if self.first:
            self.wpe = nn.Embedding(size.context, size.hidden)
        self.blocks = nn.ModuleList(Block(size, attention) for _ in part)
        if self.last:
            self.ln_f = nn.LayerNorm(size.hidden)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02 / (math.sqrt(2 * size.layers) if "c_proj" in name or "c_out" in name else 1))
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, x):
        if self.first:
            x = self.wte(x) + self.wpe.weight[: x.size(1)]
        for block in self.blocks:
            x = block(x)
        return F.linear(self.ln_f(x), self.wte.weight) if self.last else x


def loss_of(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
