#!/usr/bin/env python3
"""Writes the four networks of PaSE's evaluation as files for `penstock partition`.

    examples/layers/make.py FOLDER

AlexNet, Inception v3 and the Transformer have the shapes of their papers; the Transformer has the sizes of PaSE's program
(sequences of 512, width 1024, 16 heads of 128, 6 + 6 layers, 50,000 words). RNNLM has two LSTM layers of 2,048 units; its
sequences of 40 and its 100,000 words are ours. All have a batch of 128, and the devices that PaSE's program assumes
unless it is told otherwise: 10 TFLOP/s, 16 GB/s. Element-wise layers between two products are left out.
"""
import json
import os
import sys

BATCH = 128
BYTES = 4


def node(name, dims, output, inputs=(), weight="", weight_elements=0, flops=0.0, whole=""):
    made = {"name": name, "dims": " ".join(dims), "sizes": list(dims.values()), "output": output, "flops": float(flops)}
    if whole:
        made["whole"] = whole
    if weight:
        made["weight"] = weight
        made["weight_bytes"] = weight_elements * BYTES
    if inputs:
        made["inputs"] = list(inputs)
    return made


def reads(source, dims, windows=None, copies=1):
    made = {"from": source, "dims": dims}
    if windows:
        made["windows"] = [{"dim": dim, "stride": s, "kernel": k, "shift": shift} for dim, (s, k, shift) in windows.items()]
    if copies > 1:
        made["copies"] = copies
    return made


def write(folder, name, nodes):
    lines = ",\n  ".join(json.dumps(each) for each in nodes)
    with open(os.path.join(folder, name + ".json"), "w") as file:
        file.write('{"format": "penstock-layers", "version": 1, "devices": 32, "flops_per_sec": "10 TFLOP/s", "bytes_per_sec": "16 GB/s",\n'
                   ' "element_bytes": %d, "nodes": [\n  %s]}\n' % (BYTES, lines))


class Images:
    """Layers on images; shapes are channels and size."""

    def __init__(self, channels, size):
        self.nodes = []
        self.shapes = {None: (channels, size)}

    def size_after(self, source, kernel, stride, pad):
        return (self.shapes[source][1] + 2 * pad - kernel) // stride + 1

    def conv(self, name, source, channels, kernel, stride=1, pad=(0, 0)):
        high, wide = kernel if isinstance(kernel, tuple) else (kernel, kernel)
        pad = pad if isinstance(pad, tuple) else (pad, pad)
        before = self.shapes[source][0]
        size = self.size_after(source, high, stride, pad[0])
        dims = {"b": BATCH, "h": size, "w": size, "c": before, "n": channels}
        windows = {"h": (stride, high, pad[0]), "w": (stride, wide, pad[1])}
        inputs = [reads(source, "b c h w", windows)] if source else []
        elements = before * channels * high * wide
        self.nodes.append(node(name, dims, "b n h w", inputs, "c n", elements, 2.0 * BATCH * size * size * elements, "w"))
        self.shapes[name] = (channels, size)
        return name

    def pool(self, name, source, kernel, stride, pad=0):
        channels, size = self.shapes[source][0], self.size_after(source, kernel, stride, pad)
        dims = {"b": BATCH, "h": size, "w": size, "n": channels}
        windows = {"h": (stride, kernel, pad), "w": (stride, kernel, pad)}
        self.nodes.append(node(name, dims, "b n h w", [reads(source, "b n h w", windows)],
                               flops=BATCH * size * size * channels * kernel * kernel, whole="w"))
        self.shapes[name] = (channels, size)
        return name

    def join(self, name, sources):
        size, shift, inputs = self.shapes[sources[0]][1], 0, []
        for source in sources:
            inputs.append(reads(source, "b n h w", {"n": (1, 1, shift)}))
            shift += self.shapes[source][0]
        self.nodes.append(node(name, {"b": BATCH, "h": size, "w": size, "n": shift}, "b n h w", inputs, whole="w"))
        self.shapes[name] = (shift, size)
        return name

    def average(self, name, source):
        channels, size = self.shapes[source]
        dims = {"b": BATCH, "h": size, "w": size, "n": channels}
        self.nodes.append(node(name, dims, "b n", [reads(source, "b n h w")], flops=BATCH * size * size * channels, whole="h w"))
        self.shapes[name] = (channels, 1)
        return name

    def dense(self, name, source, outputs, is_flat=True):
        channels, size = self.shapes[source]
        elements = channels * size * size * outputs
        dims = {"b": BATCH, "c": channels, "h": size, "w": size, "n": outputs}
        shape = ("b c", "c n", "") if is_flat else ("b c h w", "c h w n", "h w")
        if is_flat:
            del dims["h"], dims["w"]
        self.nodes.append(node(name, dims, "b n", [reads(source, shape[0])], shape[1], elements, 2.0 * BATCH * elements, shape[2]))
        self.shapes[name] = (outputs, 1)
        return name


def alexnet():
    net = Images(3, 227)
    x = net.pool("pool1", net.conv("conv1", None, 96, 11, 4), 3, 2)
    x = net.pool("pool2", net.conv("conv2", x, 256, 5, 1, 2), 3, 2)
    x = net.conv("conv3", x, 384, 3, 1, 1)
    x = net.conv("conv4", x, 384, 3, 1, 1)
    x = net.pool("pool5", net.conv("conv5", x, 256, 3, 1, 1), 3, 2)
    x = net.dense("fc6", x, 4096, is_flat=False)
    x = net.dense("fc7", x, 4096)
    net.dense("fc8", x, 1000)
    return net.nodes


def chain(net, name, source, steps):
    for number, (channels, kernel, pad) in enumerate(steps):
        source = net.conv("%s%d" % (name, number), source, channels, kernel, 1, pad)
    return source


def block_a(net, name, x, pooled):
    return net.join(name, [
        chain(net, name + ".a", x, [(64, 1, 0)]),
        chain(net, name + ".b", x, [(48, 1, 0), (64, 5, 2)]),
        chain(net, name + ".c", x, [(64, 1, 0), (96, 3, 1), (96, 3, 1)]),
        chain(net, name + ".d", net.pool(name + ".pool", x, 3, 1, 1), [(pooled, 1, 0)])])


def block_c(net, name, x, wide):
    across, down = ((1, 7), (0, 3)), ((7, 1), (3, 0))
    return net.join(name, [
        chain(net, name + ".a", x, [(192, 1, 0)]),
        chain(net, name + ".b", x, [(wide, 1, 0), (wide, *across), (192, *down)]),
        chain(net, name + ".c", x, [(wide, 1, 0), (wide, *down), (wide, *across), (wide, *down), (192, *across)]),
        chain(net, name + ".d", net.pool(name + ".pool", x, 3, 1, 1), [(192, 1, 0)])])


def block_e(net, name, x):
    across, down = ((1, 3), (0, 1)), ((3, 1), (1, 0))
    b = chain(net, name + ".b", x, [(384, 1, 0)])
    c = chain(net, name + ".c", x, [(448, 1, 0), (384, 3, 1)])
    return net.join(name, [
        chain(net, name + ".a", x, [(320, 1, 0)]),
        net.conv(name + ".b1", b, 384, across[0], 1, across[1]), net.conv(name + ".b2", b, 384, down[0], 1, down[1]),
        net.conv(name + ".c2", c, 384, across[0], 1, across[1]), net.conv(name + ".c3", c, 384, down[0], 1, down[1]),
        chain(net, name + ".d", net.pool(name + ".pool", x, 3, 1, 1), [(192, 1, 0)])])


def inception_v3():
    net = Images(3, 299)
    x = net.conv("conv1a", None, 32, 3, 2)
    x = net.conv("conv2a", x, 32, 3)
    x = net.pool("pool2", net.conv("conv2b", x, 64, 3, 1, 1), 3, 2)
    x = net.conv("conv3b", x, 80, 1)
    x = net.pool("pool4", net.conv("conv4a", x, 192, 3), 3, 2)
    for number, pooled in enumerate((32, 64, 64)):
        x = block_a(net, "mixed5%s" % "bcd"[number], x, pooled)
    c = chain(net, "mixed6a.c", x, [(64, 1, 0), (96, 3, 1)])
    x = net.join("mixed6a", [net.conv("mixed6a.a", x, 384, 3, 2), net.conv("mixed6a.c2", c, 96, 3, 2), net.pool("mixed6a.pool", x, 3, 2)])
    for number, wide in enumerate((128, 160, 160, 192)):
        x = block_c(net, "mixed6%s" % "bcde"[number], x, wide)
    a = chain(net, "mixed7a.a", x, [(192, 1, 0)])
    b = chain(net, "mixed7a.b", x, [(192, 1, 0), (192, (1, 7), (0, 3)), (192, (7, 1), (3, 0))])
    x = net.join("mixed7a", [net.conv("mixed7a.a1", a, 320, 3, 2), net.conv("mixed7a.b3", b, 192, 3, 2), net.pool("mixed7a.pool", x, 3, 2)])
    x = block_e(net, "mixed7c", block_e(net, "mixed7b", x))
    net.dense("fc", net.average("average", x), 1000)
    return net.nodes


def head(source, rows, width, words):
    tokens = BATCH * rows
    return [node("logits", {"b": BATCH, "s": rows, "c": width, "v": words}, "b s v", [reads(source, "b s c")], "c v", width * words,
                 2.0 * tokens * width * words),
            node("loss", {"b": BATCH, "s": rows, "v": words}, "b s", [reads("logits", "b s v")], flops=4.0 * tokens * words)]


def rnnlm(rows=40, width=2048, words=100000):
    nodes = [node("embedding", {"b": BATCH, "s": rows, "v": words, "n": width}, "b s n", (), "v n", words * width, whole="s")]
    for number in (1, 2):
        name, before = "lstm%d" % number, nodes[-1]["name"]
        nodes.append(node(name, {"b": BATCH, "s": rows, "c": width, "n": width}, "b s n", [reads(before, "b s c"), reads(name, "b s c")],
                          "c n", 8 * width * width, 16.0 * BATCH * rows * width * width, "s c"))
    return nodes + head("lstm2", rows, width, words)


class Attention:
    """Layers of the Transformer."""

    def __init__(self, rows, width, heads, head_size, inner):
        self.rows, self.width, self.heads, self.head_size, self.inner = rows, width, heads, head_size, inner
        self.tokens = BATCH * rows
        self.nodes = []

    def project(self, name, source, copies):
        elements = copies * self.width * self.heads * self.head_size
        dims = {"b": BATCH, "s": self.rows, "c": self.width, "d": self.head_size, "n": self.heads}
        self.nodes.append(node(name, dims, "b s n d", [reads(source, "b s c")], "c n d", elements, 2.0 * self.tokens * elements, "d"))
        return name

    def attend(self, name, queries, keys, copies):
        dims = {"b": BATCH, "s": self.rows, "t": self.rows, "d": self.head_size, "n": self.heads}
        inputs = [reads(queries, "b s n d"), reads(keys, "b t n d", copies=copies)]
        self.nodes.append(node(name, dims, "b s n d", inputs, flops=4.0 * self.tokens * self.rows * self.heads * self.head_size, whole="t d"))
        elements = self.width * self.heads * self.head_size
        dims = {"b": BATCH, "s": self.rows, "h": self.heads, "d": self.head_size, "n": self.width}
        self.nodes.append(node(name + ".out", dims, "b s n", [reads(name, "b s h d")], "h d n", elements, 2.0 * self.tokens * elements, "d"))
        return name + ".out"

    def dense(self, name, source, before, after):
        dims = {"b": BATCH, "s": self.rows, "c": before, "n": after}
        self.nodes.append(node(name, dims, "b s n", [reads(source, "b s c")], "c n", before * after, 2.0 * self.tokens * before * after))
        return name

    def add(self, name, first, second):
        dims = {"b": BATCH, "s": self.rows, "n": self.width}
        self.nodes.append(node(name, dims, "b s n", [reads(first, "b s n"), reads(second, "b s n")], flops=10.0 * self.tokens * self.width))
        return name

    def embed(self, name, words):
        dims = {"b": BATCH, "s": self.rows, "v": words, "n": self.width}
        self.nodes.append(node(name, dims, "b s n", (), "v n", words * self.width))
        return name

    def self_attention(self, name, x):
        qkv = self.project(name + ".qkv", x, 3)
        return self.add(name + ".add", x, self.attend(name + ".self", qkv, qkv, 2))

    def feed_forward(self, name, x):
        inner = self.dense(name + ".ff1", x, self.width, self.inner)
        return self.add(name, x, self.dense(name + ".ff2", inner, self.inner, self.width))


def transformer(words=50000):
    net = Attention(512, 1024, 16, 128, 8192)
    x = net.embed("source", words)
    for number in range(6):
        name = "encoder%d" % number
        x = net.feed_forward(name, net.self_attention(name, x))
    encoded, x = x, net.embed("target", words)
    for number in range(6):
        name = "decoder%d" % number
        x = net.self_attention(name, x)
        queries = net.project(name + ".q", x, 1)
        keys = net.project(name + ".kv", encoded, 2)
        x = net.add(name + ".cross.add", x, net.attend(name + ".cross", queries, keys, 2))
        x = net.feed_forward(name, x)
    return net.nodes + head(x, net.rows, net.width, words)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: make.py FOLDER")
    write(sys.argv[1], "alexnet", alexnet())
    write(sys.argv[1], "inception-v3", inception_v3())
    write(sys.argv[1], "rnnlm", rnnlm())
    write(sys.argv[1], "transformer", transformer())
