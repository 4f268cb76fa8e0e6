"use strict";
/* Files to download, made in the page. */

Pen.urls = [];

/* A link that downloads a text. The name may have folders; browsers keep the
   last part. */
Pen.fileLink = function (name, content, label) {
    const bytes = content instanceof Uint8Array ? content : new TextEncoder().encode(content);
    const url = URL.createObjectURL(new Blob([bytes], { type: "application/octet-stream" }));
    Pen.urls.push(url);
    while (Pen.urls.length > 200)
        URL.revokeObjectURL(Pen.urls.shift());
    return Pen.make("a", { href: url, download: name.replace(/^.*\//, "") }, label || name);
};

Pen.download = function (name, content) {
    const link = Pen.fileLink(name, content);
    document.body.append(link);
    link.click();
    link.remove();
};

Pen.crc = function (bytes) {
    let crc = -1;
    for (const byte of bytes) {
        crc ^= byte;
        for (let bit = 0; bit < 8; bit++)
            crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return ~crc >>> 0;
};

/* Fields of a zip file, little-endian: pairs of [bytes, value]. */
Pen.packed = function (pairs) {
    const out = new Uint8Array(pairs.reduce((sum, pair) => sum + pair[0], 0));
    let at = 0;
    for (const [size, value] of pairs)
        for (let i = 0; i < size; i++)
            out[at++] = Math.floor(value / 2 ** (8 * i)) & 255;
    return out;
};

/* Text files as one zip file, stored without compression. */
Pen.zip = function (files) {
    const encoder = new TextEncoder();
    const pieces = [];
    const index = [];
    let offset = 0;
    for (const [path, text] of Object.entries(files)) {
        const name = encoder.encode(path);
        const data = encoder.encode(text);
        const day = 0x21; /* 1 January 1980: the same files, the same bytes */
        const common = [[2, 20], [2, 0x800], [2, 0], [2, 0], [2, day], [4, Pen.crc(data)], [4, data.length], [4, data.length], [2, name.length], [2, 0]];
        pieces.push(Pen.packed([[4, 0x04034b50], ...common]), name, data);
        index.push(Pen.packed([[4, 0x02014b50], [2, 20], ...common, [2, 0], [2, 0], [2, 0], [4, 0], [4, offset]]), name);
        offset += 30 + name.length + data.length;
    }
    const size = index.reduce((sum, piece) => sum + piece.length, 0);
    const count = index.length / 2;
    const end = Pen.packed([[4, 0x06054b50], [2, 0], [2, 0], [2, count], [2, count], [4, size], [4, offset], [2, 0]]);
    const all = [...pieces, ...index, end];
    const out = new Uint8Array(all.reduce((sum, piece) => sum + piece.length, 0));
    let at = 0;
    for (const piece of all) {
        out.set(piece, at);
        at += piece.length;
    }
    return out;
};

/* The program's picture on white paper, as an image: its ids and scripts, if
   any, stay outside of the page. */
Pen.showPicture = function (box, svg, text) {
    const url = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
    const old = box.querySelector("img");
    const image = Pen.make("img", { src: url, alt: text });
    image.addEventListener("load", () => {
        URL.revokeObjectURL(url);
    });
    if (old)
        old.replaceWith(image);
    else
        Pen.fill(box, image);
};
