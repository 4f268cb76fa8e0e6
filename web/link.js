"use strict";
/* The question as a link: #tab?name=value&name=value. Long texts, such as a
   config.json, are compressed (name=z.BASE64URL); nothing else is needed to
   ask the same question again, and a fragment never leaves the browser. */

Pen.toBase64 = function (bytes) {
    let text = "";
    for (let i = 0; i < bytes.length; i += 4096)
        text += String.fromCharCode(...bytes.subarray(i, i + 4096));
    return btoa(text).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
};

Pen.fromBase64 = function (text) {
    const plain = atob(text.replace(/-/g, "+").replace(/_/g, "/"));
    return Uint8Array.from(plain, (c) => c.charCodeAt(0));
};

Pen.through = async function (bytes, stream) {
    const answer = new Response(new Blob([bytes]).stream().pipeThrough(stream));
    return new Uint8Array(await answer.arrayBuffer());
};

Pen.pack = async function (text) {
    const bytes = new TextEncoder().encode(text);
    if (text.length < 120 && /^[\x20-\x7e]*$/.test(text))
        return text;
    if (typeof CompressionStream === "undefined")
        return "b." + Pen.toBase64(bytes);
    return "z." + Pen.toBase64(await Pen.through(bytes, new CompressionStream("deflate-raw")));
};

Pen.unpack = async function (text) {
    if (!/^[bz]\.[\w-]*$/.test(text))
        return text;
    const bytes = Pen.fromBase64(text.slice(2));
    const plain = text[0] === "z" ? await Pen.through(bytes, new DecompressionStream("deflate-raw")) : bytes;
    return new TextDecoder().decode(plain);
};

/* The fragment of a tab's question; values that are usual are left out. */
Pen.toFragment = async function (tab, state) {
    const parts = [];
    for (const [name, value] of Object.entries(state))
        parts.push(encodeURIComponent(name) + "=" + encodeURIComponent(await Pen.pack(value)).replace(/%2C/g, ",").replace(/%3D/g, "="));
    return "#" + tab + (parts.length ? "?" + parts.join("&") : "");
};

Pen.fromFragment = async function (fragment) {
    const text = fragment.replace(/^#/, "");
    const cut = text.indexOf("?");
    const tab = cut < 0 ? text : text.slice(0, cut);
    const state = {};
    for (const part of cut < 0 ? [] : text.slice(cut + 1).split("&")) {
        const at = part.indexOf("=");
        if (at < 1)
            continue;
        try {
            state[decodeURIComponent(part.slice(0, at))] = await Pen.unpack(decodeURIComponent(part.slice(at + 1)));
        } catch (problem) {
            state.damaged = "1";
        }
    }
    return { tab, state };
};

/* Writes the question to the address. The first key of a change makes an
   entry of the history, further keys overwrite it until the change is done,
   so that back and forward go from question to question. */
Pen.settled = true;
Pen.recorded = 0;

Pen.record = async function (tab, state, mode) {
    const turn = ++Pen.recorded;
    const fragment = await Pen.toFragment(tab, state);
    if (turn !== Pen.recorded)
        return;
    const first = fragment === "#plan" && location.hash === "";
    if (first || fragment === location.hash) {
        Pen.settled = Pen.settled || mode !== "typing";
        return;
    }
    const add = Pen.settled && mode !== "load";
    Pen.settled = mode !== "typing";
    try {
        if (add)
            history.pushState(null, "", fragment);
        else
            history.replaceState(null, "", fragment);
    } catch (problem) {
        location.replace(fragment);
    }
};
