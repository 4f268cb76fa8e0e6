"use strict";
/* Tab 2: all schedules for the same pipeline, and drawings of some of them. */

Pen.schedules.side = Pen.lane();
Pen.schedules.compareOptions = ["--stages", "--microbatches", "--chunks", "--slices", "--costs", "--memory", "--memory-limit"];
Pen.schedules.mostDrawn = 4;

Pen.schedules.askCompare = async function () {
    const box = Pen.byId("sched-compare");
    const argv = ["schedule", "compare", ...this.options(...this.compareOptions), "--json"];
    const fresh = this.side.ticket();
    box.classList.add("stale");
    const answer = await this.side.ask(argv);
    if (!fresh())
        return;
    const found = answer.code === 0 ? Pen.parse(answer.out) : null;
    box.classList.remove("stale");
    if (!found) {
        Pen.fill(box, Pen.make("p", { class: "bad inside" }, Pen.complaint(answer)));
        return;
    }
    this.compared = found;
    this.showCompare();
    await this.drawChosen(fresh);
};

Pen.schedules.showCompare = function () {
    const found = this.compared;
    const rows = [...found.schedules, ...(found.asynchronous || [])];
    const number = (head, title, cell) => ({ head, title, cell });
    const refused = (found.refused || []).map((r) => ({ refused: r.reason || r.text || r.because || "", name: r.name || r.schedule }));
    const blank = (work) => (s) => (s.refused === undefined ? work(s) : "");
    const columns = [
        { head: "draw", text: true, cell: (s) => (s.refused === undefined ? this.box(s.name) : "") },
        { head: "schedule", text: true, cell: (s) => Pen.make("button", { type: "button", class: "link", onclick: () => this.take(s.name) }, s.name) },
        number("span, s", "time per step in a run of many", blank((s) => Pen.digits(s.span_per_batch, 6))),
        number("makespan, s", "first start to last end", blank((s) => Pen.digits(s.makespan, 6))),
        number("bubble, %", "", blank((s) => Pen.percent(s.bubble, 2))),
        number("peak, A", "maximum of activations on a rank", blank((s) => Pen.digits(s.peak_activations, 6))),
        number("weights", "sets of weights on a rank", blank((s) => String(s.versions * s.copies))),
        number("stages", "stages on a rank", blank((s) => String(s.chunks))),
        { head: "remark", wrap: true, cell: (s) => s.refused || (s.synchronous ? "" : "asynchronous: other updates; span of one batch of " + s.batches) },
    ];
    const current = Pen.byId("sched-name").value;
    Pen.fill(
        Pen.byId("sched-compare"),
        Pen.table(columns, [...rows, ...refused], { label: "Schedules, best first", row: (s) => ({ class: s.name === current ? "chosen" : null }) })
    );
};

Pen.schedules.box = function (name) {
    const box = Pen.make("input", { type: "checkbox", "aria-label": "Draw " + name });
    box.checked = this.chosen.has(name);
    box.disabled = !box.checked && this.chosen.size >= this.mostDrawn;
    box.addEventListener("change", async () => {
        if (box.checked)
            this.chosen.add(name);
        else
            this.chosen.delete(name);
        Pen.record("schedules", this.state(), "done");
        for (const other of Pen.byId("sched-compare").querySelectorAll("input"))
            other.disabled = !other.checked && this.chosen.size >= this.mostDrawn;
        await this.drawChosen(this.side.ticket());
    });
    return box;
};

/* Makes a compared schedule the one of the tab. */
Pen.schedules.take = function (name) {
    Pen.choose(Pen.byId("sched-name"), name);
    this.edited = false;
    this.ask("done");
    Pen.byId("sched-status").scrollIntoView({ block: "nearest" });
};

Pen.schedules.drawChosen = async function (fresh) {
    const box = Pen.byId("sched-drawn");
    const names = [...this.chosen];
    if (!names.length) {
        Pen.fill(box, Pen.make("p", { class: "wait" }, "Choose schedules in the table to draw them here."));
        return;
    }
    const argv = ["schedule", "draw", ...names, ...this.options(...this.compareOptions), "-o", "drawn.svg"];
    const answer = await this.side.ask(argv);
    if (!fresh())
        return;
    const svg = answer.files && answer.files["drawn.svg"];
    if (answer.code !== 0 || !svg)
        Pen.fill(box, Pen.make("p", { class: "wait" }, Pen.complaint(answer)));
    else
        Pen.showPicture(box, svg, "Schedules " + names.join(", ") + " over one time axis");
};
