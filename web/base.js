"use strict";
/* The one object of the page. Every file adds its functions to it; the order
   of the files is in scripts.txt. */
const Pen = {};

Pen.byId = (id) => document.getElementById(id);

/* Makes an element. Text is always text: nothing that a user pastes or the
   program prints becomes markup. */
Pen.make = function (tag, settings, ...children) {
    const element = document.createElement(tag);
    for (const [key, value] of Object.entries(settings || {})) {
        if (value === undefined || value === null || value === false)
            continue;
        if (key === "class")
            element.className = value;
        else if (key.startsWith("on"))
            element.addEventListener(key.slice(2), value);
        else if (key === "style")
            Object.assign(element.style, value);
        else
            element.setAttribute(key, value === true ? "" : String(value));
    }
    element.append(...children.flat().filter((c) => c !== null && c !== undefined));
    return element;
};

Pen.SVG = "http://www.w3.org/2000/svg";

Pen.draw = function (tag, settings, ...children) {
    const element = document.createElementNS(Pen.SVG, tag);
    for (const [key, value] of Object.entries(settings || {}))
        element.setAttribute(key, String(value));
    element.append(...children);
    return element;
};

Pen.fill = function (element, ...children) {
    element.replaceChildren(...children.flat().filter(Boolean));
    return element;
};

/* Calls work after `wait` milliseconds without another call. */
Pen.later = function (work, wait) {
    let timer = 0;
    return function (...rest) {
        clearTimeout(timer);
        timer = setTimeout(() => work(...rest), wait);
    };
};

/* A table: columns are {head, title, text, wrap, cell(row, index)}. */
Pen.table = function (columns, rows, settings) {
    const kind = (c) => (c.wrap ? "text wrap" : c.text ? "text" : null);
    const head = columns.map((c) =>
        Pen.make("th", { scope: "col", class: c.text || c.wrap ? "text" : null, title: c.title }, c.head)
    );
    const body = rows.map((row, index) =>
        Pen.make(
            "tr",
            settings && settings.row ? settings.row(row, index) : null,
            columns.map((c) => Pen.make("td", { class: kind(c) }, c.cell(row, index)))
        )
    );
    return Pen.make(
        "table",
        { "aria-label": settings && settings.label },
        Pen.make("thead", null, Pen.make("tr", null, head)),
        Pen.make("tbody", null, body)
    );
};

/* One line that says how the question stands: "busy", "bad" or "". */
Pen.status = function (element, text, kind) {
    element.className = "status " + (kind || "");
    if (element.textContent !== text)
        element.textContent = text;
};
