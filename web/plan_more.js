"use strict";
/* Tab 1: why not another plan, neighbours, what would help, and files. */

Pen.plan.targets = { megatron: "Megatron", torchtitan: "torchtitan", deepspeed: "DeepSpeed", nanotron: "nanotron", sbatch: "Slurm script" };

Pen.plan.startMore = function () {
    Pen.byId("plan-why-form").addEventListener("submit", (event) => {
        event.preventDefault();
        this.why = Pen.byId("plan-why").value.trim();
        Pen.record("plan", this.state(), "done");
        this.askWhy();
    });
};

Pen.plan.askWhy = async function () {
    const box = Pen.byId("plan-why-answer");
    if (!this.why) {
        Pen.fill(box, Pen.make("p", { class: "sub" }, "Names: tp, cp, pp, vpp, ep, dp, micro-batch, schedule, recompute, sharding."));
        return;
    }
    Pen.fill(box, Pen.make("p", { class: "sub" }, "Searching the fastest plan with " + this.why + " …"));
    const q = this.question("plan");
    const answer = await this.side.ask(["plan", ...q.argv, "--why", this.why, "--json"], q.files);
    const found = answer.code === 0 ? Pen.parse(answer.out) : null;
    if (!found) {
        Pen.fill(box, Pen.make("p", { class: "bad" }, Pen.complaint(answer)));
        return;
    }
    this.showWhy(box, found);
};

Pen.plan.showWhy = function (box, found) {
    const said = Pen.make("p", null, found.text);
    if (found.verdict === "best" || !found.parts) {
        Pen.fill(box, said);
        return;
    }
    const parts = found.parts.filter((part) => Math.abs(part.longer_sec) > 0.0005 * found.best.step_sec);
    const all = { part: "all", best_sec: found.best.step_sec, other_sec: found.other.step_sec, longer_sec: found.other.step_sec - found.best.step_sec };
    const table = Pen.table(
        [
            { head: "part of the step, s", text: true, cell: (x) => x.part },
            { head: "best", cell: (x) => Pen.seconds(x.best_sec) },
            { head: "this", cell: (x) => Pen.seconds(x.other_sec) },
            { head: "longer by", cell: (x) => (x.longer_sec > 0 ? "+" : "") + Pen.digits(x.longer_sec, 3) },
        ],
        [...parts, all]
    );
    const layout = Pen.seconds(found.other.step_sec) + " s and " + Pen.gib(found.other.peak_bytes) + " GiB, with " + Pen.layout(found.other) + ".";
    Pen.fill(box, said, Pen.make("p", { class: "sub" }, layout), Pen.make("div", { class: "scroll" }, table));
};

/* Plans that need fewer devices, or less memory, than the best one. */
Pen.plan.fewer = function (found) {
    const best = found.plans[0];
    const slower = (p) => Pen.percent(p.step_sec / best.step_sec - 1);
    const rows = [...(found.by_devices || []).filter((p) => p.devices < best.devices), ...(found.front || [])];
    const table = Pen.table(
        [
            { head: "devices", cell: (p) => Pen.whole(p.devices) },
            { head: "GiB", title: "memory of the fullest device", cell: (p) => Pen.gib(p.peak_bytes) },
            { head: "step, s", cell: (p) => Pen.seconds(p.step_sec) },
            { head: "slower, %", cell: slower },
            { head: "J/sample", title: "energy of a sample", cell: (p) => (p.joules_per_sample ? Pen.whole(p.joules_per_sample) : "–") },
            { head: "best for", text: true, cell: (p) => p.best_for || "" },
            { head: "layout", text: true, cell: (p) => Pen.layout(p) },
        ],
        rows,
        { label: "Plans with fewer devices or less memory" }
    );
    const short = found.by_devices_complete === false || found.front_complete === false;
    Pen.fill(
        Pen.byId("plan-fewer"),
        rows.length ? table : Pen.make("p", { class: "sub inside" }, "The program found none."),
        rows.length && short ? Pen.make("p", { class: "sub inside" }, "The search for this table was cut short; more work of the search (under More) may find better plans.") : null
    );
};

/* Neighbours and gains: a longer search, asked after everything else. */
Pen.plan.explain = async function () {
    const q = this.question("plan");
    const key = JSON.stringify(q);
    if (this.why && this.whyKey !== key + this.why)
        this.askWhy();
    else if (!this.why)
        this.askWhy();
    this.whyKey = key + this.why;
    if (this.explained === key)
        return;
    for (const id of ["plan-fewer", "plan-helps", "plan-neighbours"])
        Pen.byId(id).classList.add("stale");
    const answer = await this.lane.ask(["plan", ...q.argv, "--explain", "--json"], q.files);
    const found = answer.code === 0 ? Pen.parse(answer.out) : null;
    if (!found || !found.explanation)
        return;
    this.explained = key;
    this.fewer(found);
    this.helps(found);
    this.neighbours(found);
    for (const id of ["plan-fewer", "plan-helps", "plan-neighbours"])
        Pen.byId(id).classList.remove("stale");
};

Pen.plan.helps = function (found) {
    const e = found.explanation;
    const table = Pen.table(
        [
            { head: "twice the", text: true, cell: (h) => h.twice },
            { head: "tokens/s", cell: (h) => Pen.whole(h.tokens_per_sec) },
            { head: "gain, %", cell: (h) => (h.gain >= 0 ? "+" : "") + Pen.percent(h.gain) },
            { head: "with", text: true, cell: (h) => h.layout_text + (h.complete ? "" : " (search cut short)") },
        ],
        e.helps
    );
    Pen.fill(
        Pen.byId("plan-helps"),
        Pen.make("p", { class: "sub" }, e.limit_text[0].toUpperCase() + e.limit_text.slice(1) + ". Gain from doubling one resource:"),
        Pen.make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Gains" }, table),
        Pen.make("p", { class: "sub" }, "Asynchronous schedules would save at most " + Pen.percent(found.most_saved.allow_stale) + " % of the step (the bubble); replicas that rarely synchronise at most " + Pen.percent(found.most_saved.rare_synchronisation) + " % (transfers of gradients and parameters).")
    );
};

Pen.plan.neighbours = function (found) {
    const sign = (value, places) => (value >= 0 ? "+" : "") + value.toFixed(places);
    const table = Pen.table(
        [
            { head: "changed", text: true, cell: (n) => n.changed },
            { head: "layout, and why not", wrap: true, cell: (n) => [n.layout_text, Pen.make("span", { class: "under-line" }, n.reason || (n.slower_sec > 0 ? "slower" : ""))] },
            { head: "slower, ms", cell: (n) => (n.step_sec ? sign(n.slower_sec * 1000, 1) : "–") },
            { head: "more, GiB", cell: (n) => (n.peak_bytes ? sign(n.more_bytes / Pen.GIB, 1) : "–") },
        ],
        found.explanation.neighbours
    );
    Pen.fill(Pen.byId("plan-neighbours"), table);
};

/* Buttons for the plan file, its picture and the exports. */
Pen.plan.filesOf = function (text) {
    const name = this.row === 0 ? "plan.json" : "plan-" + (this.row + 1) + ".json";
    const button = (label, work) => Pen.make("button", { type: "button", disabled: !text, onclick: work }, label);
    Pen.fill(
        Pen.byId("plan-files"),
        button("plan.json", () => Pen.download(name, text)),
        button("Picture", () => this.svg && Pen.download("step.svg", this.svg)),
        Object.entries(this.targets).map(([target, name]) => button(name, () => this.exportTo(target, text)))
    );
    const q = this.question("plan");
    Pen.fill(
        Pen.byId("plan-export-answer"),
        Pen.make("p", { class: "sub" }, "Choose a program to see its files. The same question in a terminal:"),
        Pen.make("pre", { class: "command" }, Pen.commandLine(["plan", ...q.argv, "-o", "plan.json"]))
    );
};

Pen.plan.exportTo = async function (target, text) {
    const box = Pen.byId("plan-export-answer");
    const answer = await this.side.ask(["export", "plan.json", "--to", target, "-o", target], { "plan.json": text });
    const made = Object.entries(answer.files || {}).filter(([path]) => path.startsWith(target + "/"));
    if (answer.code !== 0 || !made.length) {
        Pen.fill(box, Pen.make("p", { class: "bad" }, Pen.complaint(answer)));
        return;
    }
    const files = Object.fromEntries(made);
    Pen.fill(
        box,
        made.length > 1 ? Pen.fileLink("penstock-" + target + ".zip", Pen.zip(files), "All " + made.length + " files as penstock-" + target + ".zip") : null,
        Pen.make("ul", null, made.map(([path, content]) => Pen.make("li", null, Pen.fileLink(path, content), " ", Pen.make("details", null, Pen.make("summary", null, "show"), Pen.make("pre", { class: "preview", tabindex: 0 }, content))))),
        Pen.remarks(answer).map((line) => Pen.make("p", { class: "sub" }, line))
    );
};
