"use strict";
/* The schedule as text, with line numbers, and the verifier's message under
   the line that it is about. Lines are far apart, so that a message has its
   room and nothing moves. */

/* Mistakes of `schedule check --json`: {line, column, text}. A text that is
   no schedule at all is one mistake. */
Pen.mistakesOf = function (answer) {
    const found = Pen.parse(answer.out) || {};
    if (found.error)
        return [{ line: found.error.line || 1, column: found.error.column || 1, text: found.error.message.replace(/^schedule\.txt: (line \d+, column \d+: )?/, "") }];
    return (found.mistakes || []).map((m) => ({ line: m.line || 1, column: m.column || 1, text: (m.op ? m.op + ": " : "") + m.message }));
};

/* One line about a correct schedule. */
Pen.praise = function (found) {
    const versions = found.versions === 1 ? "1 weight version" : found.versions + " weight versions";
    return (
        "Correct: " + found.name + ", " + Pen.whole(found.operations) + " operations on " + found.num_ranks + (found.num_ranks === 1 ? " rank" : " ranks") +
        ", no deadlock with a send window of " + found.send_window + ", peak " + Pen.digits(found.peak_activations, 6) + " A on rank " + found.fullest_rank + ", " + versions + "."
    );
};

Pen.makeEditor = function (box, changed) {
    const numbers = Pen.make("pre", { class: "numbers", "aria-hidden": "true" });
    const area = Pen.make("textarea", { id: "sched-text", spellcheck: "false", autocomplete: "off", autocapitalize: "off", wrap: "off", "aria-label": "Schedule as text", "aria-describedby": "sched-messages" });
    const notes = Pen.make("div", { class: "notes", "aria-hidden": "true" });
    const messages = Pen.make("div", { class: "messages", id: "sched-messages", role: "status" });
    const frame = Pen.make("div", { class: "editor" }, numbers, Pen.make("div", { class: "writing" }, area, Pen.make("div", { class: "glass" }, notes)));
    const editor = { mistakes: [] };

    const count = () => {
        const lines = area.value.split("\n").length;
        const wrong = new Set(editor.mistakes.map((m) => m.line));
        Pen.fill(numbers, Array.from({ length: lines }, (unused, i) => Pen.make("span", { class: wrong.has(i + 1) ? "wrong" : "" }, i + 1 + "\n")));
        follow();
    };
    const follow = () => {
        numbers.scrollTop = area.scrollTop;
        notes.style.transform = "translate(" + -area.scrollLeft + "px," + -area.scrollTop + "px)";
    };
    const soon = Pen.later(() => changed(area.value, false), 300);
    area.addEventListener("scroll", follow);
    area.addEventListener("input", () => {
        count();
        soon();
    });
    area.addEventListener("change", () => changed(area.value, true));
    box.addEventListener("click", (event) => {
        const at = event.target.dataset.line;
        if (!at)
            return;
        const start = area.value.split("\n").slice(0, Number(at) - 1).join("\n").length + (at > 1 ? 1 : 0) + Number(event.target.dataset.column) - 1;
        area.focus();
        area.setSelectionRange(start, start);
    });
    Pen.fill(box, frame, messages);

    editor.set = function (text) {
        if (area.value !== text)
            area.value = text;
        count();
    };
    /* Places the messages: under the line, from the column on. Two messages
       for a line are joined. */
    editor.judge = function (answer) {
        editor.mistakes = Pen.mistakesOf(answer);
        const byLine = new Map();
        for (const m of editor.mistakes)
            byLine.set(m.line, [...(byLine.get(m.line) || []), m]);
        Pen.fill(
            notes,
            [...byLine].map(([line, list]) =>
                Pen.make("span", { class: "message", style: { top: "calc(" + (line - 1) + " * var(--far) + var(--far) / 2 + .62rem)", left: "calc(" + (list[0].column - 1) + "ch + .6rem)" } }, "▲ " + list.map((m) => m.text).join("; "))
            )
        );
        Pen.fill(
            messages,
            editor.mistakes.length
                ? Pen.make("ul", null, editor.mistakes.slice(0, 20).map((m) => Pen.make("li", null, Pen.make("button", { type: "button", class: "place", "data-line": m.line, "data-column": m.column }, "line " + m.line + ", column " + m.column), " ", m.text)))
                : Pen.make("p", { class: "good" }, Pen.praise(Pen.parse(answer.out))),
            ...Pen.remarks(answer).map((line) => Pen.make("p", { class: "sub" }, line))
        );
        count();
    };
    return editor;
};
