"use strict";
/* Tab 1: the chosen plan. Its figures, memory, seconds and picture. */

Pen.plan.memoryParts = ["weights", "gradients", "optimizer", "activations", "loss", "buffers", "overhead"];

/* The plan file of a row: the program's own for the best plan, otherwise that
   of `penstock predict` with the layout of the row. */
Pen.plan.planFile = async function (row) {
    if (row === 0)
        return { text: this.file, same: true };
    const p = this.found.plans[row];
    const q = this.question("predict");
    const d = p.degrees;
    const layout = ["tp", "pp", "vpp", "cp", "ep", "dp"].flatMap((k) => ["--" + k, String(d[k])]);
    layout.push("--micro-batch-size", String(p.micro_batch), "--schedule", p.schedule, "--recompute-granularity", p.recompute, "--sharding", p.sharding);
    if (Pen.modules(p).length > 0)
        layout.push("--recompute-modules", Pen.modules(p).join(","));
    const tries = [[], this.blocks(p)].reverse().filter(Boolean);
    for (const blocks of tries) {
        const answer = await this.lane.ask(["predict", ...q.argv, ...layout, ...blocks, "--json", "-o", "plan.json"], q.files);
        const found = answer.code === 0 ? Pen.parse(answer.out) : null;
        if (found && found.step_sec === p.step_sec)
            return { text: answer.files["plan.json"], same: true };
    }
    return { text: null, same: false };
};

/* Blocks of each stage. The program counts embedding and head as layers. */
Pen.plan.blocks = function (p) {
    const blocks = p.layers.slice();
    if (blocks.length < 2)
        return null;
    blocks[0]--;
    blocks[blocks.length - 1]--;
    return ["--blocks", blocks.join(",")];
};

Pen.plan.detail = async function () {
    const fresh = this.lane.ticket();
    const row = this.row;
    const p = this.found.plans[row];
    Pen.byId("plan-chosen").textContent = "Plan " + (row + 1) + ": " + Pen.layout(p);
    this.figures(p);
    this.memory(p);
    this.secondsOf(p);
    this.filesOf(null);
    const file = await this.planFile(row);
    if (!fresh())
        return;
    this.chosenFile = file.text;
    this.filesOf(file.text);
    await this.picture(file.text);
    if (fresh())
        await this.explain();
};

Pen.plan.figures = function (p) {
    const limit = this.limitOf(p);
    const list = [
        ["Step", Pen.seconds(p.step_sec) + " s", "9 of 10: " + Pen.digits(p.low_sec, 3) + " to " + Pen.digits(p.high_sec, 3) + " s"],
        ["Tokens", Pen.whole(p.tokens_per_sec) + " /s", Pen.whole(p.tokens_per_sec_per_device) + " /s on a device"],
        ["Use of the peak", Pen.percent(p.utilisation) + " %", (p.flops_per_sec_per_device / 1e12).toFixed(0) + " of " + (p.peak_flops_per_device / 1e12).toFixed(0) + " Tflop/s"],
        ["Fullest device", Pen.gib(p.peak_bytes) + " GiB", (limit ? "of " + Pen.gib(limit) + "; " : "") + "typical error " + Pen.percent(p.memory_error, 0) + " %"],
        ["Bubble", Pen.percent(p.bubble) + " %", "of the step"],
    ];
    const run = this.found.run;
    if (run && run.tokens)
        list.push(["Whole run", Pen.duration(p === this.found.plans[0] ? run.days * 86400 : run.tokens / p.tokens_per_sec), Pen.count(run.tokens) + " tokens"]);
    else if (p.watts)
        list.push(["Power", Pen.whole(p.watts / 1000) + " kW", Pen.whole(p.joules_per_sample) + " J a sample"]);
    Pen.fill(
        Pen.byId("plan-figures"),
        list.map(([name, value, more]) => Pen.make("div", null, Pen.make("dt", null, name), Pen.make("dd", null, value, Pen.make("small", null, more))))
    );
};

/* Stacked columns, one per class of pipeline ranks, as wide as its ranks. */
Pen.plan.memory = function (p) {
    const limit = this.limitOf(p);
    const top = Math.max(limit, p.peak_bytes) * 1.08;
    const ranks = p.memory.reduce((sum, m) => sum + m.ranks, 0);
    const column = (m) =>
        Pen.make(
            "div",
            { class: "column", style: { flex: m.ranks + " 1 0", height: (100 * m.bytes) / top + "%" }, title: Pen.ranks(m.first_rank, m.ranks) + ": " + Pen.gib(m.bytes, 2) + " GiB" },
            this.memoryParts.map((part, i) => Pen.make("i", { class: "part" + (i + 1), style: { height: (100 * m[part]) / m.bytes + "%" } }))
        );
    const step = Pen.tickStep(top / Pen.GIB);
    const ticks = [];
    for (let at = 0; at * Pen.GIB < top; at += step)
        ticks.push(Pen.make("span", { class: "tick", style: { bottom: (100 * at * Pen.GIB) / top + "%" } }, at + (at === 0 ? " GiB" : "")));
    const line = limit ? Pen.make("div", { class: "limit", style: { bottom: (100 * limit) / top + "%" } }, Pen.make("span", null, "limit " + Pen.gib(limit) + " GiB")) : null;
    const every = Math.ceil(ranks / 16);
    const under = p.memory.map((m) => Pen.make("span", { style: { flex: m.ranks + " 1 0" } }, m.ranks > 1 ? m.first_rank + "–" + (m.first_rank + m.ranks - 1) : m.first_rank % every ? "" : String(m.first_rank)));
    const legend = this.memoryParts.filter((part) => p.memory.some((m) => m[part] > 0)).map((part) => Pen.make("li", null, Pen.make("i", { class: "part" + (this.memoryParts.indexOf(part) + 1) }), part));
    const number = (head, cell) => ({ head, cell });
    const table = Pen.table(
        [
            { head: "ranks", text: true, cell: (m) => (m.ranks > 1 ? m.first_rank + "–" + (m.first_rank + m.ranks - 1) : String(m.first_rank)) },
            number("devices", (m) => Pen.whole(m.devices)),
            ...this.memoryParts.map((part) => number(part, (m) => Pen.gib(m[part], 2))),
            number("GiB", (m) => Pen.gib(m.bytes, 2)),
        ],
        p.memory
    );
    const open = Pen.byId("plan-memory").querySelector("details[open]") !== null;
    Pen.fill(
        Pen.byId("plan-memory"),
        Pen.make("div", { class: "chart" + (ranks > 64 ? " dense" : ""), "aria-hidden": "true" }, ticks, Pen.make("div", { class: "columns" }, p.memory.map(column)), line),
        Pen.make("div", { class: "under", "aria-hidden": "true" }, under),
        Pen.make("ul", { class: "legend" }, legend),
        Pen.make("details", { open }, Pen.make("summary", null, "as a table"), Pen.make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Memory of ranks" }, table))
    );
};

Pen.plan.secondsOf = function (p) {
    const parts = Object.entries(p.spent_sec).map(([name, sec], i) => ({ name, sec, i: i + 1 }));
    const all = parts.reduce((sum, part) => sum + part.sec, 0);
    const shown = parts.filter((part) => part.sec > 1e-6 * all);
    const bar = shown.map((part) => Pen.make("i", { class: "part" + part.i, style: { flex: part.sec + " 1 0" }, title: part.name + ": " + Pen.seconds(part.sec) + " s" }));
    const table = Pen.table(
        [
            { head: "part", text: true, cell: (part) => [Pen.make("i", { class: "part" + part.i }), part.name] },
            { head: "s", cell: (part) => Pen.seconds(part.sec) },
            { head: "%", cell: (part) => Pen.percent(part.sec / all) },
        ],
        shown,
        { label: "Parts of a step" }
    );
    table.classList.add("parts");
    Pen.fill(Pen.byId("plan-seconds-of"), Pen.make("div", { class: "whole", "aria-hidden": "true" }, bar), table);
};

/* The program draws the best plan with plan, and any plan file with view,
   which not every build of the page has. */
Pen.plan.picture = async function (text) {
    const box = Pen.byId("plan-picture");
    const say = (words) => Pen.fill(box, Pen.make("p", { class: "wait" }, words));
    this.svg = null;
    if (!text) {
        say("One command line cannot name this layout, because its stages differ in more than their blocks. Files and pictures are there for the best plan.");
        return;
    }
    const q = this.question("plan");
    const best = ["plan", ...q.argv, "-o", "step.svg"];
    const answer = this.row === 0 ? await this.lane.ask(best, q.files) : await this.lane.ask(["view", "plan.json", "-o", "step.svg"], { "plan.json": text });
    this.svg = answer.files["step.svg"];
    if (this.svg)
        Pen.showPicture(box, this.svg, "Operations of each pipeline rank over time, for plan " + (this.row + 1));
    else
        say("The page draws the best plan only. For this one: download plan.json, then penstock view plan.json -o step.svg.");
};
