"""Loss and gradient norms of three vision-language models in fp64, for vision_language_fixtures_test.cc.

Written from the papers and official implementations in NumPy, without the code under test. Gradients are complex-step
derivatives: the imaginary part of loss(p + 1e-30 i) / 1e-30 has no cancellation and no backward pass to be wrong.

    python3 tests/model/blocks/vision_language_fixtures.py
"""
import math

import numpy as np

WORD = 1 << 32
STEP = 1e-30


def made(name, shape, scale=0.8):
    """Element i of a parameter or input: a hash of its name and i, within scale * [-0.5, 0.5). Gains have 1 more."""
    seed = 0
    for byte in name.encode():
        seed = (seed * 31 + byte) % WORD
    x = (seed + (np.arange(1, math.prod(shape) + 1, dtype=np.uint64) * np.uint64(2654435761))) % np.uint64(WORD)
    for shift, factor in ((16, 2246822519), (13, 3266489917)):
        x ^= x >> np.uint64(shift)
        x = (x * np.uint64(factor)) % np.uint64(WORD)
    x ^= x >> np.uint64(16)
    values = scale * (x.astype(np.float64) / WORD - 0.5)
    if len(shape) == 1 and name.endswith("weight"):
        values += 1
    return values.reshape(shape)


def erf(z):
    real = np.vectorize(math.erf)(z.real)
    return real + 1j * z.imag * 2 / math.sqrt(math.pi) * np.exp(-z.real**2)


def gelu(z):
    return z * 0.5 * (1 + erf(z / math.sqrt(2)))


def gelu_tanh(z):
    return 0.5 * z * (1 + np.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3)))


def silu(z):
    return z / (1 + np.exp(-z))


def softmax(z):
    e = np.exp(z - z.real.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(q, k, v, heads, seen=None):
    """q [.., t, w], k and v [.., s, w]: every head has w / heads channels; `seen` [t, s] says what is seen."""
    def split(x):
        return np.swapaxes(x.reshape(*x.shape[:-1], heads, -1), -2, -3)
    q, k, v = split(q), split(k), split(v)
    scores = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
    if seen is not None:
        scores = np.where(seen, scores, -1e300)
    out = np.swapaxes(softmax(scores) @ v, -2, -3)
    return out.reshape(*out.shape[:-2], -1)


class Model:
    """Parameters by name, made when they are first read, so that nothing has to be listed twice."""

    def __init__(self):
        self.params = {}
        self.unit_of = {}
        self.unit = None

    def p(self, name, *shape):
        if name not in self.params:
            self.params[name] = made(name, shape).astype(complex)
            self.unit_of[name] = self.unit
        assert self.params[name].shape == shape, name
        return self.params[name]

    def linear(self, name, x, out, bias=True):
        y = x @ self.p(name + ".weight", out, x.shape[-1]).T
        return y + self.p(name + ".bias", out) if bias else y

    def layer_norm(self, name, x, eps):
        d = x.shape[-1]
        centred = x - x.mean(-1, keepdims=True)
        normed = centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + eps)
        return normed * self.p(name + ".weight", d) + self.p(name + ".bias", d)

    def rms_norm(self, name, x, eps):
        normed = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
        return normed * self.p(name + ".weight", x.shape[-1])

    # Patches of tiles [n, 3, side, side], features in the order colour, time, row, column.
    def patches(self, tiles, patch, d, frames=1):
        n, side = tiles.shape[0], tiles.shape[2] // patch
        cut = tiles.reshape(n, 3, side, patch, side, patch).transpose(0, 2, 4, 1, 3, 5)  # n, r, c, colour, y, x
        cut = np.repeat(cut[:, :, :, :, None], frames, 4)
        self.unit = "vision.embed"
        return self.linear("vision_tower.patch_embed.proj", cut.reshape(n, side * side, -1), d)

    def tower_block(self, layer, x, heads, ffn, act, turn=lambda x: x):
        self.unit = f"vision.block.{layer}"
        h = f"vision_tower.blocks.{layer}."
        d = x.shape[-1]
        q, k, v = np.split(self.linear(h + "attn.qkv", self.layer_norm(h + "norm1", x, 1e-6), 3 * d), 3, -1)
        x = x + self.linear(h + "attn.proj", attention(turn(q), turn(k), v, heads), d)
        up = act(self.linear(h + "mlp.fc1", self.layer_norm(h + "norm2", x, 1e-6), ffn))
        return x + self.linear(h + "mlp.fc2", up, d)

    def decoder_block(self, layer, x, heads, kv_heads, width, ffn, places, frequency_axes, qk_norm):
        """Llama's and Qwen3's block on x [b, t, d]; places [b, t, 3] of time, row and column."""
        self.unit = f"block.{layer}"
        h = f"model.layers.{layer}."
        b, t, d = x.shape
        half = width // 2
        frequencies = 10000.0 ** (-np.arange(half) / half)
        angles = places[:, :, frequency_axes] * frequencies  # [b, t, half]
        cos, sin = np.cos(angles)[:, :, None], np.sin(angles)[:, :, None]

        def projected(name, count):
            return self.linear(h + f"self_attn.{name}_proj", normed, count * width, bias=False).reshape(b, t, count, width)

        def turned(name, y):
            if qk_norm:
                y = self.rms_norm(h + f"self_attn.{name}_norm", y, 1e-5)
            low, high = y[..., :half], y[..., half:]
            return np.concatenate([low * cos - high * sin, high * cos + low * sin], -1)

        normed = self.rms_norm(h + "input_layernorm", x, 1e-5)
        q = turned("q", projected("q", heads))
        k = np.repeat(turned("k", projected("k", kv_heads)), heads // kv_heads, 2)
        v = np.repeat(projected("v", kv_heads), heads // kv_heads, 2)
        mixed = attention(q.reshape(b, t, -1), k.reshape(b, t, -1), v.reshape(b, t, -1), heads, np.tri(t, dtype=bool))
        x = x + self.linear(h + "self_attn.o_proj", mixed, d, bias=False)
        normed = self.rms_norm(h + "post_attention_layernorm", x, 1e-5)
        inner = silu(self.linear(h + "mlp.gate_proj", normed, ffn, False)) * self.linear(h + "mlp.up_proj", normed, ffn, False)
        return x + self.linear(h + "mlp.down_proj", inner, d, bias=False)

    def embedded(self, tokens, d):
        self.unit = "embed"
        return self.p("model.embed_tokens.weight", VOCAB, d)[tokens]

    def loss(self, x, targets):
        """The sum of cross-entropies where there is a target."""
        self.unit = "head"
        logits = self.linear("lm_head", self.rms_norm("model.norm", x, 1e-5), VOCAB, bias=False)
        rows, wanted = logits[targets >= 0], targets[targets >= 0]
        largest = rows.real.max(-1, keepdims=True)
        return (np.log(np.exp(rows - largest).sum(-1)) + largest[:, 0] - rows[np.arange(len(wanted)), wanted]).sum()


VOCAB = 258
TOKENS = np.array([[256, 256, 256, 256, 40, 41, 90, 7], [13, 256, 256, 256, 256, 99, 100, 3]])
TARGETS = np.array([[-100, -100, -100, -100, -100, 90, 7, 257], [-100, -100, -100, -100, -100, 100, 3, 257]])
TEXT_PLACES = np.repeat(np.arange(8)[None, :, None], 2, 0).repeat(3, 2)


def stand(x, rows, places):
    """Rows of images in the places of their tokens."""
    x = x.copy()
    for (sample, token), row in places.items():
        x[sample, token] = rows.reshape(-1, rows.shape[-1])[row]
    return x


def q_former(m):
    """Li et al. 2023, BLIP-2: queries see each other and, in every second layer, the image; BERT's norms come after."""
    d, k = 8, "multi_modal_projector."
    x = m.patches(made("pixels", (2, 3, 12, 12), 2).astype(complex), 4, 12)
    x = x + m.p("vision_tower.pos_embed", 9, 12)
    features = m.tower_block(0, x, 2, 20, gelu)
    m.unit = "vision.norm"
    features = m.layer_norm("vision_tower.norm", features, 1e-6)
    m.unit = "projector"
    y = m.layer_norm(k + "norm", np.repeat(m.p(k + "queries", 4, d)[None], 2, 0), 1e-6)
    for layer in range(3):
        h = f"{k}layers.{layer}."
        q, key, value = np.split(m.linear(h + "self.qkv", y, 3 * d), 3, -1)
        y = m.layer_norm(h + "self.norm", y + m.linear(h + "self.proj", attention(q, key, value, 2), d), 1e-6)
        if layer % 2 == 0:
            q = m.linear(h + "cross.q", y, d)
            key, value = np.split(m.linear(h + "cross.kv", features, 2 * d), 2, -1)
            y = m.layer_norm(h + "cross.norm", y + m.linear(h + "cross.proj", attention(q, key, value, 2), d), 1e-6)
        y = m.layer_norm(h + "mlp.norm", y + m.linear(h + "mlp.fc2", gelu(m.linear(h + "mlp.fc1", y, 4 * d)), d), 1e-6)
    y = m.linear(k + "linear", y, 12)
    x = stand(m.embedded(TOKENS, 12), y, {(0, i): i for i in range(4)} | {(1, 1 + i): 4 + i for i in range(4)})
    x = m.decoder_block(0, x, 2, 2, 6, 20, TEXT_PLACES, [0, 0, 0], False)
    return m.loss(x, TARGETS)


def flamingo(m):
    """Alayrac et al. 2022: a resampler whose latents see features and latents, and gated cross-attention before blocks."""
    k = "multi_modal_projector."
    x = m.patches(made("pixels", (3, 3, 12, 12), 2).astype(complex), 4, 12)
    x = x + m.p("vision_tower.pos_embed", 9, 12)
    features = m.tower_block(0, x, 2, 20, gelu)
    m.unit = "vision.norm"
    features = m.layer_norm("vision_tower.norm", features, 1e-6)
    m.unit = "projector"
    y = np.repeat(m.p(k + "latents", 3, 12)[None], 3, 0)
    for layer in range(2):
        h = f"{k}layers.{layer}."
        seen, own = m.layer_norm(h + "norm_features", features, 1e-6), m.layer_norm(h + "norm_latents", y, 1e-6)
        key, value = np.split(m.linear(h + "kv", np.concatenate([seen, own], 1), 128, False), 2, -1)
        y = y + m.linear(h + "proj", attention(m.linear(h + "q", own, 64, False), key, value, 1), 12, False)
        up = gelu(m.linear(h + "mlp.fc1", m.layer_norm(h + "mlp.norm", y, 1e-6), 48, False))
        y = y + m.linear(h + "mlp.fc2", up, 12, False)
    y = m.layer_norm(k + "norm", y, 1e-6)
    # Sample 0: text, an image, two of text, another image, text. Sample 1: two of text, an image, text.
    tokens = np.array([[65, 256, 40, 41, 256, 90, 91, 7], [13, 14, 256, 60, 61, 99, 100, 3]])
    latest = np.array([[-1, 0, 0, 0, 1, 1, 1, 1], [-1, -1, 2, 2, 2, 2, 2, 2]])
    x = m.embedded(tokens, 10)
    for layer in range(2):
        m.unit = f"cross.{layer}"
        h = f"gated_cross_attn_layers.{layer}."
        q = m.linear(h + "attn.to_q", m.layer_norm(h + "attn.norm", x, 1e-5), 128, False)
        key, value = np.split(m.linear(h + "attn.to_kv", y, 256, False), 2, -1)  # [images, latents, 128]
        rows = []
        for sample in range(2):
            of_tokens = [attention(q[sample, t:t + 1], key[image], value[image], 2)[0] if image >= 0 else np.zeros(128)
                         for t, image in enumerate(latest[sample])]
            rows.append(np.stack(of_tokens))
        out = m.linear(h + "attn.to_out", np.stack(rows), 10, False)
        x = x + np.tanh(m.p(h + "attn_gate", 1)) * out
        up = gelu(m.linear(h + "ff.1", m.layer_norm(h + "ff.0", x, 1e-5), 40, False))
        x = x + np.tanh(m.p(h + "ff_gate", 1)) * m.linear(h + "ff.3", up, 10, False)
        x = m.decoder_block(layer, x, 1, 1, 10, 16, TEXT_PLACES, [0] * 5, False)
    return m.loss(x, TARGETS)


def qwen3_vl(m):
    """Patches of two frames, a resampled table and rotary positions, mergers, DeepStack, M-RoPE, grouped heads, QK norm."""
    d, side, grid = 16, 4, 3
    tiles = made("pixels", (2, 3, 8, 8), 2).astype(complex)
    x = m.patches(tiles, 2, d, frames=2)
    table = m.p("vision_tower.pos_embed", grid * grid, d).reshape(grid, grid, d)
    shares = np.maximum(0, 1 - np.abs(np.linspace(0, grid - 1, side)[:, None] - np.arange(grid)))
    x = x + np.einsum("rg,ch,ghd->rcd", shares, shares, table).reshape(side * side, d)
    width = 8  # of a head: half of the frequencies turn by row, half by column
    frequencies = 10000.0 ** (-np.arange(width // 4) / (width // 4))
    row, column = np.divmod(np.arange(side * side), side)
    angles = np.concatenate([row[:, None] * frequencies, column[:, None] * frequencies], 1)
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]

    def turn(y):
        heads = y.reshape(*y.shape[:-1], -1, width)
        low, high = heads[..., :width // 2], heads[..., width // 2:]
        return np.concatenate([low * cos - high * sin, high * cos + low * sin], -1).reshape(y.shape)

    def joined(y):  # 2 x 2 features side by side
        return y.reshape(-1, side // 2, 2, side // 2, 2, d).transpose(0, 1, 3, 2, 4, 5).reshape(-1, 4, 4 * d)

    def merged(unit, name, y, before):
        m.unit = unit
        y = joined(m.layer_norm(name + "norm", y, 1e-6)) if before else m.layer_norm(name + "norm", joined(y), 1e-6)
        return m.linear(name + "linear_2", gelu(m.linear(name + "linear_1", y, 4 * d)), 12)

    deep = []
    for layer in range(2):
        x = m.tower_block(layer, x, 2, 24, gelu_tanh, turn)
        if layer == 0:
            deep.append(merged("deepstack.0", "deepstack_projectors.0.", x, False))
    rows = merged("projector", "multi_modal_projector.", x, True)
    stands = {(0, i): i for i in range(4)} | {(1, 1 + i): 4 + i for i in range(4)}
    x = stand(m.embedded(TOKENS, 12), rows, stands)
    # An image's tokens have the time of its beginning and their own row and column; text goes on after the largest.
    places = np.zeros((2, 8, 3), int)
    for sample, first in ((0, 0), (1, 1)):
        place = 0
        for token in range(8):
            if first <= token < first + 4:
                r, c = divmod(token - first, 2)
                places[sample, token] = (first, first + r, first + c)
                place = first + 2
            else:
                places[sample, token] = place
                place += 1
    for layer in range(2):
        x = m.decoder_block(layer, x, 4, 2, 8, 20, places, [0, 1, 2, 0], True)
        if layer == 0:
            more = np.zeros_like(x)
            x = x + stand(more, deep[0], stands)
    return m.loss(x, TARGETS)


def fixture(of):
    model = Model()
    loss = of(model).real
    squares = {}
    for name, values in model.params.items():
        flat = values.reshape(-1)
        for i in range(flat.size):
            flat[i] += 1j * STEP
            squares.setdefault(model.unit_of[name], []).append((of(model).imag / STEP) ** 2)
            flat[i] = flat[i].real
    print(f"{of.__name__}: {loss!r}")
    for unit, all_of in squares.items():
        print(f'  {{"{unit}", {math.sqrt(math.fsum(all_of))!r}}},')


if __name__ == "__main__":
    for each in (q_former, flamingo, qwen3_vl):
        fixture(each)
