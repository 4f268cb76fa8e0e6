"use strict";
/* A schedule drawn over time, from the trace that `penstock schedule draw -o
   trace.json` writes, with a cursor that plays the step. */

Pen.timeline = {
    rows: 34,
    left: 58,
    zoom: 1,
    time: 0,
    speed: 1,
    playing: false,
};

/* Operations of each rank, in order of time, and its memory curve; and the
   critical path, which the trace has as one more process. */
Pen.timeline.read = function (trace) {
    const ranks = [];
    const rank = (number) => (ranks[number] = ranks[number] || { ops: [], memory: [] });
    const critical = [];
    let end = 0;
    for (const event of trace.traceEvents) {
        if (event.ph === "X" && event.tid === 1 && event.args && event.args.rank !== undefined) {
            if (event.pid !== event.args.rank + 1) {
                critical.push({ rank: event.args.rank, from: event.ts / 1e6, to: (event.ts + event.dur) / 1e6 });
                continue;
            }
            const op = { from: event.ts / 1e6, to: (event.ts + event.dur) / 1e6, name: event.name, stage: event.args.stage, version: event.args.version };
            rank(event.args.rank).ops.push(op);
            end = Math.max(end, op.to);
        } else if (event.ph === "C" && event.name === "memory" && event.args) {
            rank(event.pid - 1).memory.push({ at: event.ts / 1e6, value: Object.values(event.args)[0] });
        }
    }
    for (const r of ranks)
        r.ops.sort((a, b) => a.from - b.from);
    return { ranks, end, critical };
};

Pen.timeline.kinds = [
    ["forward", "f", "F"],
    ["backward", "b", "B"],
    ["input gradient", "i", "I"],
    ["weight gradient", "w", "W"],
    ["optimizer step", "s", ""],
];

Pen.timeline.kindOf = function (op) {
    const kind = this.kinds.find((k) => op.name.startsWith(k[0])) || ["other", "s", ""];
    return { style: kind[1], letter: kind[2], number: op.name.slice(kind[0].length).trim() };
};

/* Sets a new schedule; null empties the drawing. */
Pen.timeline.set = function (trace) {
    this.pause();
    this.data = trace ? this.read(trace) : null;
    this.time = 0;
    this.draw();
    this.moved();
};

Pen.timeline.width = function () {
    const box = Pen.byId("sched-timeline");
    const most = Math.max(1, ...this.data.ranks.map((r) => r.ops.length));
    return Math.max(box.clientWidth - 4, Math.min(24000, this.left + most * 15 * this.zoom));
};

Pen.timeline.draw = function () {
    const box = Pen.byId("sched-timeline");
    if (!this.data) {
        Pen.fill(box);
        return;
    }
    const { ranks, end } = this.data;
    const width = this.width();
    const scale = (width - this.left - 10) / (end || 1);
    this.scale = scale;
    this.rows = Math.max(32, Math.min(52, Math.floor(270 / ranks.length)));
    const height = ranks.length * this.rows + 28;
    const svg = Pen.draw("svg", { width, height, viewBox: "0 0 " + width + " " + height, role: "img", "aria-label": "Operations of " + ranks.length + " ranks over " + Pen.digits(end, 4) + " s" });
    this.axis(svg, end, ranks.length * this.rows);
    const stages = Math.max(...ranks.flatMap((r) => r.ops.map((op) => op.stage || 0))) + 1;
    const many = stages > ranks.length;
    const peak = Math.max(1e-9, ...ranks.flatMap((r) => r.memory.map((m) => m.value)));
    ranks.forEach((r, number) => this.rank(svg, r, number, many ? ranks.length : stages, peak));
    for (const c of this.data.critical) {
        const y = c.rank * this.rows + 2;
        svg.append(Pen.draw("line", { class: "critical", x1: this.left + c.from * scale, x2: this.left + c.to * scale, y1: y, y2: y }));
    }
    this.cursor = Pen.draw("line", { class: "cursor", y1: 0, y2: ranks.length * this.rows + 6, x1: this.left, x2: this.left });
    svg.append(this.cursor);
    Pen.fill(box, svg);
};

Pen.timeline.axis = function (svg, end, bottom) {
    const step = Pen.tickStep(end || 1);
    for (let at = 0; at <= end * 1.0001; at += step) {
        const x = this.left + at * this.scale;
        svg.append(Pen.draw("line", { x1: x, x2: x, y1: 0, y2: bottom + 4 }), Pen.draw("text", { x, y: bottom + 18, "text-anchor": "middle" }, Pen.digits(at, 4) + (at === 0 ? " s" : "")));
    }
};

Pen.timeline.rank = function (svg, r, number, perRound, peak) {
    const top = number * this.rows + 3;
    const middle = top + (this.rows - 13) / 2 + 4;
    svg.append(Pen.draw("text", { x: 4, y: middle }, "rank " + number));
    const short = r.ops.length <= 3000;
    for (const op of r.ops) {
        const x = this.left + op.from * this.scale;
        const wide = (op.to - op.from) * this.scale;
        const kind = this.kindOf(op);
        const later = op.stage >= perRound && kind.style !== "s" ? "2" : "";
        const mark = Pen.draw("rect", { x, y: top, width: Math.max(0.8, wide), height: this.rows - 13, class: kind.style + later });
        mark.append(Pen.draw("title", null, op.name + ", stage " + op.stage + ": " + Pen.digits(op.from, 4) + " to " + Pen.digits(op.to, 4) + " s"));
        svg.append(mark);
        op.mark = mark;
        const label = (wide >= 24 ? kind.letter : "") + kind.number;
        if (short && wide > label.length * 6.2 + 2)
            svg.append(Pen.draw("text", { class: "in", x: x + wide / 2, y: middle }, label));
    }
    this.curve(svg, r.memory, top + this.rows - 4, peak);
};

/* Activations held, as a low curve under the operations */
Pen.timeline.curve = function (svg, memory, base, peak) {
    if (!memory.length)
        return;
    let path = "";
    let height = 0;
    for (const m of memory) {
        const x = (this.left + m.at * this.scale).toFixed(1);
        path += path ? "L" + x + "," + (base - height).toFixed(1) : "M" + x + "," + base;
        height = (7 * m.value) / peak;
        path += "L" + x + "," + (base - height).toFixed(1);
    }
    svg.append(Pen.draw("path", { d: path + "V" + base + "Z", class: "held" }));
};

/* The operation of a rank at a time, or undefined while it waits */
Pen.timeline.at = function (r, time) {
    let low = 0;
    let high = r.ops.length - 1;
    while (low <= high) {
        const middle = (low + high) >> 1;
        const op = r.ops[middle];
        if (time < op.from)
            high = middle - 1;
        else if (time >= op.to)
            low = middle + 1;
        else
            return op;
    }
    return undefined;
};

Pen.timeline.moved = function () {
    const slide = Pen.byId("sched-time");
    const now = Pen.byId("sched-now");
    if (!this.data) {
        Pen.fill(now);
        return;
    }
    const x = this.left + this.time * this.scale;
    this.cursor.setAttribute("x1", x);
    this.cursor.setAttribute("x2", x);
    slide.max = String(this.data.end);
    slide.step = String(this.data.end / 2000 || 1);
    slide.value = String(this.time);
    slide.setAttribute("aria-valuetext", Pen.digits(this.time, 4) + " s");
    Pen.byId("sched-at").textContent = Pen.digits(this.time, 4) + " of " + Pen.digits(this.data.end, 4) + " s";
    for (const mark of Pen.byId("sched-timeline").querySelectorAll("rect.now"))
        mark.classList.remove("now");
    const words = this.data.ranks.map((r, number) => {
        const op = this.at(r, this.time);
        if (op)
            op.mark.classList.add("now");
        const next = op ? null : r.ops.find((o) => o.from >= this.time);
        const text = op ? op.name + (op.stage === undefined ? "" : ", stage " + op.stage) : next ? "waits for " + next.name : "has finished";
        return Pen.make("div", { class: op ? "" : "sub" }, "rank " + number + ": " + text);
    });
    Pen.fill(now, words);
    this.keepInView(x);
};

Pen.timeline.keepInView = function (x) {
    const box = Pen.byId("sched-timeline");
    if (this.playing && (x < box.scrollLeft + 80 || x > box.scrollLeft + box.clientWidth - 80))
        box.scrollLeft = x - box.clientWidth / 3;
};

Pen.timeline.play = function () {
    if (!this.data || this.playing)
        return;
    if (this.time >= this.data.end)
        this.time = 0;
    this.playing = true;
    Pen.byId("sched-play").textContent = "Pause";
    let last = performance.now();
    const frame = (now) => {
        if (!this.playing)
            return;
        this.time += ((now - last) / 1000) * this.speed * (this.data.end / 20);
        last = now;
        if (this.time >= this.data.end) {
            this.time = this.data.end;
            this.pause();
        }
        this.moved();
        requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
};

Pen.timeline.pause = function () {
    this.playing = false;
    const button = Pen.byId("sched-play");
    if (button)
        button.textContent = "Play";
};

/* Moves to the next or previous start or end of an operation. */
Pen.timeline.jump = function (forward) {
    if (!this.data)
        return;
    this.pause();
    const times = this.data.ranks.flatMap((r) => r.ops.flatMap((op) => [op.from, op.to]));
    const slack = this.data.end * 1e-9;
    const left = times.filter((t) => (forward ? t > this.time + slack : t < this.time - slack));
    if (left.length)
        this.time = forward ? left.reduce((a, b) => Math.min(a, b)) : left.reduce((a, b) => Math.max(a, b));
    this.moved();
};

Pen.timeline.keys = function (event) {
    if (event.target.tagName === "SELECT" || event.target.type === "range")
        return;
    const work = {
        " ": () => (this.playing ? this.pause() : this.play()),
        ArrowRight: () => this.jump(true),
        ArrowLeft: () => this.jump(false),
        Home: () => this.go(0),
        End: () => this.go(this.data ? this.data.end : 0),
    }[event.key];
    if (!work || (event.key === " " && event.target.tagName === "BUTTON"))
        return;
    event.preventDefault();
    work();
};

Pen.timeline.go = function (time) {
    this.pause();
    this.time = time;
    this.moved();
};

Pen.timeline.start = function () {
    const button = (id, text, label, work) => Pen.make("button", { type: "button", id, "aria-label": label, onclick: work }, text);
    const option = (value) => Pen.make("option", { value }, value + " ×");
    const speed = Pen.make("select", { "aria-label": "Speed", onchange: () => (this.speed = Number(speed.value)) }, ["0.25", "0.5", "1", "2", "4"].map(option));
    speed.value = "1";
    const zoom = Pen.make("select", { "aria-label": "Width of the drawing", onchange: () => this.rezoom(Number(zoom.value)) }, [["1", "fit"], ["2", "wide"], ["4", "wider"]].map(([value, text]) => Pen.make("option", { value }, text)));
    Pen.fill(
        Pen.byId("sched-player"),
        button("sched-play", "Play", undefined, () => (this.playing ? this.pause() : this.play())),
        button(null, "‹", "Previous operation", () => this.jump(false)),
        button(null, "›", "Next operation", () => this.jump(true)),
        Pen.make("input", { type: "range", id: "sched-time", min: 0, "aria-label": "Time", oninput: (event) => this.go(Number(event.target.value)) }),
        Pen.make("span", { class: "at", id: "sched-at" }),
        speed,
        zoom
    );
    Pen.byId("sched-timeline").addEventListener("keydown", (event) => this.keys(event));
    window.addEventListener("resize", Pen.later(() => this.redraw(), 150));
};

Pen.timeline.rezoom = function (zoom) {
    this.zoom = zoom;
    this.redraw();
};

Pen.timeline.redraw = function () {
    if (!this.data || !Pen.byId("sched-timeline").clientWidth)
        return;
    this.draw();
    this.moved();
};
