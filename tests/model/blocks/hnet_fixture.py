#!/usr/bin/env python3
"""Prints the table of tests/model/blocks/hnet_fixture_test.cc: an H-Net in fp64, written from its formulas with NumPy alone.

Shares no code with Trireme: sequences are computed one by one, scans row by row, gradients by the small tape below.
"""
import numpy as np


class Tensor:
    """A value, and what adds its gradient to those of the tensors that it was computed from."""

    def __init__(self, value, parents=()):
        self.value, self.parents, self.grad = np.asarray(value, dtype=np.float64), parents, 0.0

    def __add__(self, other):
        other = as_tensor(other)
        return Tensor(self.value + other.value, [(self, lambda g: g), (other, lambda g: g)])

    def __mul__(self, other):
        other = as_tensor(other)
        return Tensor(self.value * other.value,
                      [(self, lambda g: g * other.value), (other, lambda g: g * self.value)])

    def __neg__(self): return self * -1.0
    def __sub__(self, other): return self + -as_tensor(other)
    def __rsub__(self, other): return as_tensor(other) - self
    __radd__, __rmul__ = __add__, __mul__

    def __pow__(self, power):
        return Tensor(self.value ** power, [(self, lambda g: g * power * self.value ** (power - 1))])

    def __truediv__(self, other): return self * as_tensor(other) ** -1.0
    def __rtruediv__(self, other): return as_tensor(other) / self

    def __matmul__(self, other):
        return Tensor(self.value @ other.value, [(self, lambda g: g @ other.value.T),
                                                 (other, lambda g: self.value.T @ g)])

    def __getitem__(self, index):
        def back(g):
            whole = np.zeros_like(self.value)
            np.add.at(whole, index, g)
            return whole
        return Tensor(self.value[index], [(self, back)])

    def sum(self, axis=None):
        kept = self.value.sum(axis=axis, keepdims=True)
        flat = self.value.sum() if axis is None else kept
        return Tensor(flat, [(self, lambda g: np.broadcast_to(g, self.value.shape))])

    @property
    def T(self): return Tensor(self.value.T, [(self, lambda g: g.T)])

    def exp(self):
        y = np.exp(self.value)
        return Tensor(y, [(self, lambda g: g * y)])

    def log(self): return Tensor(np.log(self.value), [(self, lambda g: g / self.value)])

    def backward(self):
        order, seen = [], set()
        stack = [(self, False)]
        while stack:
            tensor, done = stack.pop()
            if done:
                order.append(tensor)
            elif id(tensor) not in seen:
                seen.add(id(tensor))
                stack.append((tensor, True))
                stack.extend((parent, False) for parent, _ in tensor.parents)
        self.grad = np.ones_like(self.value)
        for tensor in reversed(order):
            for parent, back in tensor.parents:
                g = back(tensor.grad)
                while g.ndim > parent.value.ndim:
                    g = g.sum(0)
                for axis, size in enumerate(parent.value.shape):
                    if size == 1 and g.shape[axis] > 1:
                        g = g.sum(axis, keepdims=True)
                parent.grad = parent.grad + g


def as_tensor(x): return x if isinstance(x, Tensor) else Tensor(x)


def joined(tensors, axis):
    ends = np.cumsum([t.value.shape[axis] for t in tensors])
    def part(end, size):
        return lambda g: g.take(range(end - size, end), axis)
    return Tensor(np.concatenate([t.value for t in tensors], axis),
                  [(t, part(end, t.value.shape[axis])) for t, end in zip(tensors, ends)])


# The model: stages from the outermost, encoder, decoder, width, heads of attention, feed-forward, window, ratio.
STAGES = [("mT", "t", 32, 2, 24, 5, 3.0), ("t", "m", 32, 2, 0, -1, 2.0), ("MT", "", 64, 4, 40, -1, None)]
VOCAB, SAMPLES, LENGTH, EPS, RATIO_WEIGHT, THETA = 61, 2, 24, 1e-5, 0.03, 10000.0
PARAMS = {}


def param(name, *shape):
    """By a formula of its name and of the element's number; gains are near 1, all else near 0."""
    if name not in PARAMS:
        key = sum((place + 1) * ord(letter) for place, letter in enumerate(name))
        i = np.arange(int(np.prod(shape)), dtype=np.int64)
        drawn = ((31 * i * i + 7919 * i + key) % 10007) / 10007.0
        near_one = name.endswith("norm.weight") or ".norm" in name or name.endswith(".D")
        PARAMS[name] = Tensor(((1.0 if near_one else 0.0) + 0.4 * (drawn - 0.5)).reshape(shape))
    return PARAMS[name]


def linear(x, name, out): return x @ param(name, out, x.value.shape[1]).T
def sigmoid(x): return 1.0 / (1.0 + (-x).exp())
def silu(x): return x * sigmoid(x)
def rms_norm(x, name): return x * ((x * x).sum(1) / x.value.shape[1] + EPS) ** -0.5 * param(name, x.value.shape[1])


def attention(x, name, heads, window):
    rows, d = x.value.shape
    width, quarter = d // heads, d // heads // 4
    qkv = linear(x, name + "Wqkv.weight", 3 * d)
    angles = np.arange(rows)[:, None] * THETA ** (-np.arange(quarter) / quarter)
    cos, sin = np.cos(angles), np.sin(angles)
    def turn(z):
        a, b = z[:, :quarter], z[:, quarter:2 * quarter]
        return joined([a * cos - b * sin, b * cos + a * sin, z[:, 2 * quarter:]], 1)
    back = np.arange(rows)[:, None] - np.arange(rows)[None, :]
    seen = ((back >= 0) & ((window < 0) | (back <= window))).astype(float)
    out = []
    for h in range(heads):
        q, k, v = (qkv[:, part * d + h * width:part * d + (h + 1) * width] for part in range(3))
        scores = (turn(q) @ turn(k).T) * width ** -0.5
        weights = (scores - scores.value.max(1, keepdims=True)).exp() * seen
        out.append((weights / weights.sum(1)) @ v)
    return linear(joined(out, 1), name + "out_proj.weight", d)


def mamba(x, name):
    (rows, d), state, taps = x.value.shape, 128, 4
    inner, heads = 2 * d, 2 * d // 64
    mixed = inner + 2 * state
    projected = linear(x, name + "in_proj.weight", inner + mixed + heads)
    z, xbc, dt = projected[:, :inner], projected[:, inner:inner + mixed], projected[:, inner + mixed:]
    weight, bias = param(name + "conv1d.weight", mixed, 1, taps), param(name + "conv1d.bias", mixed)
    before = joined([Tensor(np.zeros((taps - 1, mixed))), xbc], 0)
    xbc = silu(sum((before[t:t + rows] * weight[:, 0, t] for t in range(taps)), bias * np.ones((rows, 1))))
    step = ((dt + param(name + "dt_bias", heads)).exp() + 1.0).log()
    decay = (-param(name + "A_log", heads).exp() * step).exp()
    skip, b, c = param(name + "D", heads), xbc[:, inner:inner + state], xbc[:, inner + state:]
    out = []
    for h in range(heads):
        u = xbc[:, 64 * h:64 * (h + 1)]
        s, rows_out = Tensor(np.zeros((64, state))), []
        for t in range(rows):
            s = s * decay[t, h] + (u[t:t + 1].T * step[t, h]) @ b[t:t + 1]
            rows_out.append((s @ c[t:t + 1].T).T)
        out.append(joined(rows_out, 0) + u * skip[h])
    gated = rms_norm(joined(out, 1) * silu(z), name + "norm.weight")
    return linear(gated, name + "out_proj.weight", d)


def block(x, name, letter, heads, ffn, window):
    normed = rms_norm(x, name + "norm1.weight")
    x = x + (attention(normed, name + "mixer.", heads, window) if letter in "tT" else mamba(normed, name + "mixer."))
    if letter in "tm":
        return x
    wide = linear(rms_norm(x, name + "norm2.weight"), name + "mlp.fc1.weight", 2 * ffn)
    return x + linear(silu(wide[:, ffn:]) * wide[:, :ffn], name + "mlp.fc2.weight", x.value.shape[1])


def blocks(x, name, letters, heads, ffn, window):
    for i, letter in enumerate(letters):
        x = block(x, f"{name}layers.{i}.", letter, heads, ffn, window)
    return rms_norm(x, name + "rmsnorm.weight")


def direction(x): return x * ((x * x).sum(1) + 1e-300) ** -0.5


def stage(x, s, name, ratios):
    """Rows of one sequence through stage s; appends what its routers say to `ratios`."""
    encoder, decoder, d, heads, ffn, window, ratio = STAGES[s]
    if ratio is None:
        return blocks(x, name + "main_network.", encoder, heads, ffn, window)
    x = blocks(x, name + "encoder.", encoder, heads, ffn, window)
    q = direction(linear(x, name + "routing_module.q_proj_layer.weight", d))
    k = direction(linear(x, name + "routing_module.k_proj_layer.weight", d))
    p = joined([Tensor(np.ones((1, 1))), 0.5 - 0.5 * (q[:-1] * k[1:]).sum(1)], 0)
    begins = p.value[:, 0] > 0.5
    assert np.abs(p.value - 0.5).min() > 1e-4, "a boundary that rounding may move"
    chunks, wide = x[begins], STAGES[s + 1][2]
    if wide > d:
        fill = param(name + "main_network.pad_dimension", wide - d)
        chunks = joined([chunks, fill * np.ones((chunks.value.shape[0], 1))], 1)
    inside = stage(chunks, s + 1, name + "main_network.", ratios)[:, :d]
    sure = p[begins]
    sure = sure * ((sure.value > 1e-4) & (sure.value < 1 - 1e-4)) + np.where(
        sure.value >= 1 - 1e-4, 1 - 1e-4, np.where(sure.value <= 1e-4, 1e-4, 0))
    smooth, rows = Tensor(np.zeros((1, d))), []
    for t in range(len(chunks.value)):
        smooth = (1.0 - sure[t:t + 1]) * smooth + sure[t:t + 1] * inside[t:t + 1]
        rows.append(smooth)
    confidence = p * (2.0 * begins - 1)[:, None] + (1.0 - begins)[:, None]
    straight = confidence - confidence.value + 1.0
    around = linear(x, name + "residual_proj.weight", d) + param(name + "residual_proj.bias", d)
    y = joined(rows, 0)[np.cumsum(begins) - 1] * straight + around
    f, g = begins.mean(), p.sum() / len(begins)
    ratios[s] = ratio / (ratio - 1) * ((ratio - 1) * f * g + (1 - f) * (1.0 - g))
    return blocks(y, name + "decoder.", decoder, heads, ffn, window)


def main():
    loss, ratio_losses, chunks = Tensor(0.0), [Tensor(0.0), Tensor(0.0)], 0
    for sample in range(SAMPLES):
        places = sample * LENGTH + np.arange(LENGTH)
        tokens, targets = (7 * places * places + 3 * places) % VOCAB, (5 * places * places + 11 * places) % VOCAB
        ratios = {}
        x = param("embeddings.weight", VOCAB, 32)[tokens]
        logits = linear(stage(x, 0, "backbone.", ratios), "lm_head.weight", VOCAB)
        top = logits.value.max(1, keepdims=True)
        nats = (logits - top).exp().sum(1).log() + top - logits[np.arange(LENGTH), targets][:, None]
        loss = loss + nats.sum()
        for s in ratios:
            ratio_losses[s] = ratio_losses[s] + ratios[s] * (RATIO_WEIGHT * LENGTH)
    (loss + ratio_losses[0] + ratio_losses[1]).backward()
    print(f"constexpr double kLoss = {float(loss.value)!r};")
    print("constexpr double kRatioLosses[] = {%s};" % ", ".join(repr(float(r.value)) for r in ratio_losses))
    print("const std::map<std::string, double> kGradientNorms = {")
    for name in sorted(PARAMS):
        print(f'    {{"{name}", {float(np.linalg.norm(PARAMS[name].grad))!r}}},')
    print("};")


if __name__ == "__main__":
    main()
