"use strict";
/* Tab 2: one schedule. It is made by its name, or edited as text; either way
   the text is checked, timed and drawn. */

Pen.schedules = {
    usual: { name: "1f1b", p: "4", m: "8" },
    lane: Pen.lane(),
    list: null,
    text: "",
    edited: false,
};

Pen.schedules.state = function () {
    const state = Pen.readForm(Pen.byId("sched-form"), this.usual);
    if (this.edited)
        state.text = this.text;
    const drawn = [...this.chosen];
    if (drawn.length)
        state.draw = drawn.join(",");
    return state;
};

Pen.schedules.load = async function (state) {
    Pen.writeForm(Pen.byId("sched-form"), this.usual, state);
    this.edited = state.text !== undefined;
    this.text = state.text || "";
    this.chosen = new Set((state.draw || "").split(",").filter(Boolean));
    if (this.edited)
        this.editor.set(this.text);
    await this.loadList();
    this.ask("load");
};

Pen.schedules.loadList = async function () {
    if (this.list)
        return;
    const lane = Pen.lane();
    this.list = Pen.parse((await lane.ask(["schedule", "list", "--json"])).out).schedules;
    const select = Pen.byId("sched-name");
    const chosen = select.value;
    const group = (label, list) => Pen.make("optgroup", { label }, list.map((s) => Pen.make("option", { value: s.name }, s.name)));
    Pen.fill(select, group("Synchronous", this.list.filter((s) => s.synchronous)), group("Asynchronous", this.list.filter((s) => !s.synchronous)));
    Pen.choose(select, chosen);
};

/* Shows the fields that the chosen schedule has. */
Pen.schedules.follow = function () {
    const form = Pen.byId("sched-form");
    const s = (this.list || []).find((x) => x.name === form.elements.name.value);
    for (const field of form.querySelectorAll("[data-when]")) {
        const when = field.dataset.when;
        const has = s && (when === "asynchronous" ? !s.synchronous : when === s.name || s[when] === true);
        field.hidden = !has;
        field.querySelector("input").disabled = !has;
    }
    const words = s ? [s.title + ".", s.paper + ".", s.constraints === "none" ? "" : "Needs: " + s.constraints + ".", "Bubble " + s.bubble + ", peak " + s.peak + ".", s.note ? "Note: " + s.note + "." : "", s.finding || ""] : [];
    Pen.byId("sched-hint").textContent = words.filter(Boolean).join(" ");
};

/* Options of a command; not every command has all of them. */
Pen.schedules.options = function (...names) {
    const all = Pen.optionsOf(Pen.byId("sched-form"), "schedule");
    const out = [];
    for (let i = 0; i < all.length; i += 2)
        if (names.includes(all[i]))
            out.push(all[i], all[i + 1]);
    return out;
};

Pen.schedules.makeOptions = ["--stages", "--microbatches", "--chunks", "--slices", "--batches", "--group-size", "--costs", "--memory", "--memory-limit"];

Pen.schedules.ask = async function (mode) {
    const form = Pen.byId("sched-form");
    this.follow();
    const made = JSON.stringify(["name", "p", "m", "v", "slices", "batches", "k", "limit"].map((n) => form.elements[n].value));
    if (this.edited && this.made && made !== this.made)
        this.edited = false;
    this.made = made;
    Pen.record("schedules", this.state(), mode);
    const fresh = this.lane.ticket();
    if (!this.edited) {
        const name = form.elements.name.value;
        const answer = await this.lane.ask(["schedule", "make", name, ...this.options(...this.makeOptions)]);
        if (answer.code !== 0) {
            this.fail(Pen.complaint(answer));
            this.askCompare();
            return;
        }
        Pen.forgive(form);
        this.text = answer.out;
        this.editor.set(answer.out);
    }
    await this.showText(fresh);
    if (fresh())
        this.askCompare();
};

Pen.schedules.fail = function (text) {
    Pen.status(Pen.byId("sched-status"), Pen.plainly(Pen.byId("sched-form"), text), "bad");
    Pen.blame(Pen.byId("sched-form"), text);
    Pen.byId("sched-timeline").classList.add("stale");
};

/* Checks the text; a correct one is timed and drawn. */
Pen.schedules.showText = async function (fresh) {
    const files = { "schedule.txt": this.text };
    const limits = this.options("--memory", "--memory-limit");
    const checked = await this.lane.ask(["schedule", "check", "schedule.txt", ...limits, "--json"], files);
    if (!fresh())
        return;
    this.editor.judge(checked);
    if (checked.code !== 0) {
        this.fail(this.editor.mistakes.length + (this.editor.mistakes.length === 1 ? " mistake" : " mistakes") + " in the schedule; see the text below.");
        Pen.forgive(Pen.byId("sched-form"));
        return;
    }
    const costs = this.options("--costs", "--memory");
    const timed = await this.lane.ask(["schedule", "time", "schedule.txt", ...costs, "--json"], files);
    const drawn = await this.lane.ask(["schedule", "draw", "./schedule.txt", ...costs, "-o", "trace.json"], files);
    if (!fresh())
        return;
    const time = Pen.parse(timed.out);
    const trace = Pen.parse((drawn.files || {})["trace.json"] || "");
    if (timed.code !== 0 || !time || !trace) {
        this.fail(Pen.complaint(timed.code !== 0 ? timed : drawn));
        return;
    }
    Pen.forgive(Pen.byId("sched-form"));
    Pen.status(Pen.byId("sched-status"), Pen.praise(Pen.parse(checked.out)), "");
    this.figures(time);
    Pen.byId("sched-timeline").classList.remove("stale");
    Pen.timeline.set(trace);
};

Pen.schedules.figures = function (time) {
    const busiest = Math.max(...time.ranks.map((r) => r.busy));
    const list = [
        ["Span", Pen.digits(time.span, 6) + " s", "time per step in a run of many"],
        ["Makespan", Pen.digits(time.makespan, 6) + " s", "first start to last end"],
        ["Bubble", Pen.percent(time.bubble, 2) + " %", "busiest rank works " + Pen.digits(busiest, 6) + " s"],
        ["Peak", Pen.digits(time.peak_activations, 6) + " A", "activations on a rank"],
        ["Weights", String(time.versions), time.versions === 1 ? "version on a rank" : "versions on a rank"],
    ];
    Pen.fill(
        Pen.byId("sched-figures"),
        list.map(([name, value, more]) => Pen.make("div", null, Pen.make("dt", null, name), Pen.make("dd", null, value, Pen.make("small", null, more))))
    );
};

Pen.schedules.start = function () {
    const form = Pen.byId("sched-form");
    this.chosen = new Set();
    this.editor = Pen.makeEditor(Pen.byId("sched-editor"), (text, done) => {
        this.text = text;
        this.edited = true;
        this.ask(done ? "done" : "typing");
    });
    form.addEventListener("again", () => {
        this.made = null;
        this.load({});
        Pen.record("schedules", {}, "done");
    });
    Pen.watch(form, (mode) => this.ask(mode));
    Pen.timeline.start();
    const key = ([name, style]) => Pen.make("li", null, Pen.draw("svg", { width: 14, height: 12 }, Pen.draw("rect", { width: 14, height: 12, class: style })), name);
    Pen.byId("sched-timeline").after(Pen.make("ul", { class: "keys" }, Pen.timeline.kinds.map(key), Pen.make("li", null, "lighter: later stages of a rank · line above: critical path · grey below: activations held")));
};
