#!/usr/bin/env python3
"""Losses and gradient norms of tests/model/blocks/clip_fixture_test.cc, from a forward in NumPy alone.

Gradients are complex steps: the imaginary part of loss(parameter + ih) / h with h = 1e-30 is exact to
rounding, so no backward is written down here.
"""
import math
import numpy as np


def mixed(name, count):
    """Numbers in [-0.5, 0.5), exact in fp64, by a name."""
    h = 0
    for byte in name.encode():
        h = (h * 31 + byte) % 2**32
    x = (h + np.arange(count, dtype=np.uint64)) & 0xFFFFFFFF
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        x = ((x ^ (x >> np.uint64(shift))) * np.uint64(factor)) & np.uint64(0xFFFFFFFF)
    return x / 2**32 - 0.5


def parameter(name, shape):
    u = mixed(name, math.prod(shape)).reshape(shape)
    if name == "logit_scale":
        return 2 + u
    if name == "logit_bias":
        return u - 3
    if "norm" in name and name.endswith(".weight"):
        return 1 + 0.4 * u
    return 0.8 * u


def norm_of(x, p, name, eps):
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred * centred).mean(-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * p[name + ".weight"] + p[name + ".bias"]


def linear(x, p, name):
    y = x @ p[name + ".weight"].T
    return y + p[name + ".bias"] if name + ".bias" in p else y


def softmax(x):
    e = np.exp(x - x.real.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def activated(x, kind):
    if kind == "quick_gelu":
        return x / (1 + np.exp(-1.702 * x))
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def split(x, heads):
    b, t, d = x.shape
    return x.reshape(b, t, heads, d // heads).transpose(0, 2, 1, 3)


def attention(q, k, v, heads, causal=False):
    q, k, v = (split(x, heads) for x in (q, k, v))
    scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(q.shape[-1])
    if causal:
        seen = np.tril(np.ones(scores.shape[-2:], dtype=bool))
        scores = np.where(seen, scores, -1e300)
    y = softmax(scores) @ v
    b, h, t, w = y.shape
    return y.transpose(0, 2, 1, 3).reshape(b, t, h * w)


def block(x, p, name, heads, eps, kind, causal=False):
    qkv = linear(norm_of(x, p, name + "norm1", eps), p, name + "attn.qkv")
    q, k, v = np.split(qkv, 3, axis=-1)
    x = x + linear(attention(q, k, v, heads, causal), p, name + "attn.proj")
    up = linear(norm_of(x, p, name + "norm2", eps), p, name + "mlp.fc1")
    return x + linear(activated(up, kind), p, name + "mlp.fc2")


IMAGE, PATCH, HIDDEN, FFN, HEADS, LAYERS, IMAGE_EPS = 8, 4, 12, 20, 2, 2, 1e-3
VOCAB, TOKENS, TEXT_HIDDEN, TEXT_FFN, TEXT_LAYERS, TEXT_EPS = 19, 7, 8, 12, 1, 1e-2
BATCH, ENDS = 3, [6, 3, 0]


def block_shapes(name, d, ffn):
    return {name + "norm1.weight": (d,), name + "norm1.bias": (d,),
            name + "attn.qkv.weight": (3 * d, d), name + "attn.qkv.bias": (3 * d,),
            name + "attn.proj.weight": (d, d), name + "attn.proj.bias": (d,),
            name + "norm2.weight": (d,), name + "norm2.bias": (d,),
            name + "mlp.fc1.weight": (ffn, d), name + "mlp.fc1.bias": (ffn,),
            name + "mlp.fc2.weight": (d, ffn), name + "mlp.fc2.bias": (d,)}


def shapes(model):
    d, v = HIDDEN, "visual."
    width = 10 if model == "clip" else HIDDEN
    s = {v + "patch_embed.proj.weight": (d, 3 * PATCH * PATCH)}
    if model == "clip":
        s.update({v + "cls_token": (1, d), v + "pos_embed": (5, d),
                  v + "norm_pre.weight": (d,), v + "norm_pre.bias": (d,)})
    else:
        s.update({v + "patch_embed.proj.bias": (d,), v + "pos_embed": (4, d)})
    for layer in range(LAYERS):
        s.update(block_shapes(f"{v}blocks.{layer}.", d, FFN))
    s.update({v + "norm.weight": (d,), v + "norm.bias": (d,)})
    if model == "clip":
        s[v + "projection.weight"] = (width, d)
    else:
        a = v + "attn_pool."
        s.update({a + "probe": (1, d), a + "q.weight": (d, d), a + "q.bias": (d,),
                  a + "kv.weight": (2 * d, d), a + "kv.bias": (2 * d,),
                  a + "proj.weight": (d, d), a + "proj.bias": (d,),
                  a + "norm.weight": (d,), a + "norm.bias": (d,),
                  a + "mlp.fc1.weight": (FFN, d), a + "mlp.fc1.bias": (FFN,),
                  a + "mlp.fc2.weight": (d, FFN), a + "mlp.fc2.bias": (d,)})
    d = TEXT_HIDDEN
    s.update({"text.token_embedding.weight": (VOCAB, d), "text.pos_embed": (TOKENS, d)})
    for layer in range(TEXT_LAYERS):
        s.update(block_shapes(f"text.blocks.{layer}.", d, TEXT_FFN))
    s.update({"text.norm.weight": (d,), "text.norm.bias": (d,),
              "text.projection.weight": (width, d), "logit_scale": (1,)})
    if model == "siglip":
        s["logit_bias"] = (1,)
    return s


def image_features(p, pixels, model):
    side = IMAGE // PATCH
    kind = "quick_gelu" if model == "clip" else "gelu_tanh"
    patches = pixels.reshape(BATCH, 3, side, PATCH, side, PATCH).transpose(0, 2, 4, 1, 3, 5)
    x = linear(patches.reshape(BATCH, side * side, -1), p, "visual.patch_embed.proj")
    if model == "clip":
        token = np.broadcast_to(p["visual.cls_token"], (BATCH, 1, HIDDEN))
        x = np.concatenate([token, x], axis=1) + p["visual.pos_embed"]
        x = norm_of(x, p, "visual.norm_pre", IMAGE_EPS)
    else:
        x = x + p["visual.pos_embed"]
    for layer in range(LAYERS):
        x = block(x, p, f"visual.blocks.{layer}.", HEADS, IMAGE_EPS, kind)
    if model == "clip":
        return linear(norm_of(x[:, 0], p, "visual.norm", IMAGE_EPS), p, "visual.projection")
    x = norm_of(x, p, "visual.norm", IMAGE_EPS)
    a = "visual.attn_pool."
    q = np.broadcast_to(linear(p[a + "probe"], p, a + "q"), (BATCH, 1, HIDDEN))
    k, v = np.split(linear(x, p, a + "kv"), 2, axis=-1)
    y = linear(attention(q, k, v, HEADS), p, a + "proj")
    up = linear(norm_of(y, p, a + "norm", IMAGE_EPS), p, a + "mlp.fc1")
    return (y + linear(activated(up, kind), p, a + "mlp.fc2"))[:, 0]


def caption_features(p, tokens, model):
    kind = "quick_gelu" if model == "clip" else "gelu_tanh"
    x = p["text.token_embedding.weight"][tokens] + p["text.pos_embed"]
    for layer in range(TEXT_LAYERS):
        x = block(x, p, f"text.blocks.{layer}.", 2, TEXT_EPS, kind, causal=True)
    x = norm_of(x[np.arange(BATCH), ENDS], p, "text.norm", TEXT_EPS)
    return linear(x, p, "text.projection")


def loss(p, pixels, tokens, model):
    images, captions = image_features(p, pixels, model), caption_features(p, tokens, model)
    images = images / np.sqrt((images * images).sum(-1, keepdims=True))
    captions = captions / np.sqrt((captions * captions).sum(-1, keepdims=True))
    logits = np.exp(p["logit_scale"]) * (images @ captions.T)
    if model == "siglip":
        signs = 2 * np.eye(BATCH) - 1
        return np.log(1 + np.exp(-signs * (logits + p["logit_bias"]))).sum()
    own = np.log(np.diag(softmax(logits))) + np.log(np.diag(softmax(logits.T)))
    return -own.sum() / 2


def main():
    pixels = np.floor(mixed("pixels", BATCH * 3 * IMAGE * IMAGE) * 512) / 256  # exact in fp32
    pixels = pixels.reshape(BATCH, 3, IMAGE, IMAGE)
    tokens = np.floor((mixed("tokens", BATCH * TOKENS) + 0.5) * VOCAB).astype(int)
    tokens = tokens.reshape(BATCH, TOKENS)
    for model in ("clip", "siglip"):
        p = {name: parameter(name, shape).astype(complex) for name, shape in shapes(model).items()}
        print(model, repr(float(loss(p, pixels, tokens, model).real)))
        for name, values in p.items():
            square = 0.0
            flat = values.reshape(-1)
            for i in range(flat.size):
                flat[i] += 1e-30j
                square += (loss(p, pixels, tokens, model).imag / 1e-30) ** 2
                flat[i] -= 1e-30j
            print(f'{{"{name}", {math.sqrt(square)!r}}},')


main()
