"use strict";
/* Tab 1: the question and the ranking of plans. */

Pen.plan = {
    usual: { model: "llama-3.1-70b", kind: "h100-sxm", count: "64" },
    counts: [1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384],
    lane: Pen.lane(),
    side: Pen.lane(),
    row: 0,
    why: "",
    kinds: null,
    models: null,
    found: null,
};

/* The question as options and files of the program. */
Pen.plan.question = function (command) {
    const form = Pen.byId("plan-form");
    const value = (name) => form.elements[name].value.trim();
    const files = {};
    const argv = ["--model", value("model")];
    if (value("config")) {
        files["config.json"] = form.elements.config.value;
        argv[1] = "config.json";
    }
    argv.push("--cluster", value("count") + "x" + value("kind"));
    if (value("cluster")) {
        files["cluster.yaml"] = form.elements.cluster.value;
        argv[3] = "cluster.yaml";
    }
    return { argv: [...argv, ...Pen.optionsOf(form, command)], files };
};

Pen.plan.state = function () {
    const state = Pen.readForm(Pen.byId("plan-form"), this.usual);
    if (this.row > 0)
        state.row = String(this.row + 1);
    if (this.why)
        state.why = this.why;
    return state;
};

Pen.plan.load = function (state) {
    Pen.writeForm(Pen.byId("plan-form"), this.usual, state);
    this.row = Math.max(0, (parseInt(state.row, 10) || 1) - 1);
    this.why = state.why || "";
    Pen.byId("plan-why").value = this.why;
    this.follow();
    this.ask("load");
};

/* Bytes of a preset's device, for the slider; 0 for a cluster file. */
Pen.plan.deviceBytes = function () {
    const form = Pen.byId("plan-form");
    if (form.elements.cluster.value.trim() || !this.kinds)
        return 0;
    const kind = form.elements.kind.value;
    const system = this.kinds.systems.find((s) => s.system === kind);
    const device = this.kinds.devices.find((d) => d.device === (system ? system.device : kind));
    return device ? device.memory_bytes : 0;
};

/* Bytes that a plan may use on its fullest device. */
Pen.plan.limitOf = (p) => p.offered_bytes || 0;

/* Sets sliders and labels to the fields. */
Pen.plan.follow = function () {
    const form = Pen.byId("plan-form");
    const count = Number(form.elements.count.value) || 1;
    let nearest = 0;
    this.counts.forEach((c, i) => {
        if (Math.abs(Math.log(c / count)) < Math.abs(Math.log(this.counts[nearest] / count)))
            nearest = i;
    });
    Pen.byId("plan-count-slide").value = nearest;
    const own = form.elements.cluster.value.trim() !== "";
    const ownModel = form.elements.config.value.trim() !== "";
    const system = this.kinds && this.kinds.systems.find((s) => s.system === form.elements.kind.value);
    for (const id of ["plan-count-slide", "plan-count", "plan-kind"])
        Pen.byId(id).disabled = own;
    Pen.byId("plan-model").disabled = ownModel;
    Pen.byId("plan-count-label").textContent = own ? "Devices (in the cluster file)" : system ? "Systems of " + system.devices + " devices" : "Devices";
    Pen.byId("plan-kind-hint").textContent = own ? "the cluster file below is used" : system ? system.links : "figures from the vendors' data sheets";
    const model = this.models && this.models.find((m) => m.model === form.elements.model.value);
    Pen.byId("plan-model-hint").textContent = ownModel
        ? "the config.json below is used"
        : model
          ? Pen.count(model.parameters) + " parameters" + (model.active_parameters !== model.parameters ? ", " + Pen.count(model.active_parameters) + " active" : "")
          : "a preset, or paste a config.json below";
    const bytes = this.deviceBytes();
    const slide = Pen.byId("plan-limit-slide");
    slide.max = bytes ? Math.ceil(bytes / Pen.GIB) : 100;
    slide.value = Pen.byId("plan-limit").value.trim() ? parseFloat(Pen.byId("plan-limit").value) : slide.max;
    slide.setAttribute("aria-valuetext", Pen.byId("plan-limit").value ? Pen.byId("plan-limit").value + " GiB" : "all of it");
    Pen.byId("plan-count-slide").setAttribute("aria-valuetext", String(count));
};

Pen.plan.ask = async function (mode) {
    const form = Pen.byId("plan-form");
    if (mode !== "load")
        this.row = 0;
    this.follow();
    Pen.record("plan", this.state(), mode);
    const q = this.question("plan");
    const key = JSON.stringify(q);
    if (key === this.asked && mode !== "load")
        return;
    this.asked = key;
    const fresh = this.lane.ticket();
    this.side.drop();
    Pen.byId("plan-answer").classList.add("stale");
    const begun = performance.now();
    let answer;
    try {
        answer = await this.lane.ask(["plan", ...q.argv, "--json", "-o", "plan.json"], q.files);
    } catch (problem) {
        Pen.status(Pen.byId("plan-status"), "The program could not be run: " + problem.message, "bad");
        return;
    }
    if (!fresh())
        return;
    const found = answer.code === 0 ? Pen.parse(answer.out) : null;
    if (!found || !found.plans) {
        this.fail(answer);
        return;
    }
    Pen.forgive(form);
    this.took = performance.now() - begun;
    this.first = this.first || performance.now();
    this.bytes = answer.memory;
    this.found = found;
    this.file = answer.files["plan.json"];
    this.row = Math.min(this.row, found.plans.length - 1);
    this.show(answer);
};

Pen.plan.fail = function (answer) {
    const text = Pen.complaint(answer);
    const form = Pen.byId("plan-form");
    Pen.status(Pen.byId("plan-status"), Pen.plainly(form, text) + (this.found ? " (Below: the last question that had an answer.)" : ""), "bad");
    Pen.blame(form, text);
};

Pen.plan.show = function (answer) {
    const found = this.found;
    Pen.byId("plan-seq").placeholder = String(found.sequence);
    Pen.byId("plan-batch").placeholder = String(found.global_batch);
    const s = found.search;
    const words = [
        found.model + " on " + Pen.whole(found.devices) + " devices with " + found.target + " in " + found.dtype + ": a batch of " + Pen.whole(found.global_batch) + (found.unit === "images" ? " images." : " × " + Pen.whole(found.sequence) + " tokens."),
        Pen.whole(s.layouts) + " layouts considered, " + Pen.whole(s.timed) + " timed, " + Pen.whole(s.unfit) + " do not fit" + (s.complete ? "." : "; the search was cut short."),
        ...(found.findings || []).map((f) => f.schedule + ": " + f.text + "."),
        ...Pen.remarks(answer),
    ];
    Pen.status(Pen.byId("plan-status"), words.join(" "), "");
    const e = found.plans[0];
    Pen.byId("plan-error-note").textContent =
        "Predicted. The interval should hold 9 of 10 such steps: it comes from measured steps that the program's constants had not seen (docs/accuracy.md). Memory: typical error " + Pen.percent(e.memory_error, 0) + " %; the limit includes a margin of " + Pen.percent(e.memory_margin, 0) + " %.";
    Pen.byId("plan-answer").classList.remove("stale");
    this.table();
    this.detail();
};

Pen.plan.table = function () {
    const limit = this.limitOf(this.found.plans[0]);
    const number = (head, title, cell) => ({ head, title, cell });
    const degree = (key, title) => number(key, title, (p) => String(p.degrees[key]));
    const columns = [
        number("", "choose", (p, i) =>
            Pen.make("label", null, Pen.make("input", { type: "radio", name: "plan-row", value: i, "aria-label": "Plan " + (i + 1) + ": " + Pen.layout(p), onchange: () => this.pick(i) }), String(i + 1))
        ),
        number("step, s", "seconds of a step", (p) => Pen.seconds(p.step_sec)),
        number("9 of 10, s", "interval that should hold 9 of 10 such steps", (p) => Pen.digits(p.low_sec, 3) + " – " + Pen.digits(p.high_sec, 3)),
        number("tokens/s", "", (p) => Pen.whole(p.tokens_per_sec)),
        number("MFU, %", "model-flops utilisation: the share of the peak that the model's own arithmetic takes", (p) => Pen.percent(p.utilisation)),
        number(limit ? "GiB of " + Pen.gib(limit) : "GiB", "memory of the fullest device", (p) => [Pen.gib(p.peak_bytes), limit ? this.meter(p.peak_bytes / this.limitOf(p)) : null].filter(Boolean)),
        degree("tp", "devices that share each tensor"),
        degree("cp", "devices that share each sequence"),
        degree("pp", "ranks of the pipeline"),
        degree("vpp", "stages on each rank of the pipeline"),
        degree("ep", "devices that share the experts"),
        degree("dp", "replicas"),
        number("batch", "micro-batches of a replica × sequences in each", (p) => p.num_microbatches + " × " + p.micro_batch),
        { head: "schedule", text: true, cell: (p) => (p.degrees.pp > 1 ? p.schedule : "-") },
        { head: "recompute", text: true, cell: (p) => Pen.recompute(p) },
        { head: "sharding", text: true, cell: (p) => p.sharding },
    ];
    const table = Pen.table(columns, this.found.plans, {
        label: "Plans, best first",
        row: (p, i) => ({ "data-pick": i, onclick: () => this.pick(i) }),
    });
    Pen.fill(Pen.byId("plan-ranking"), table);
    this.mark();
};

Pen.plan.meter = (share) => Pen.make("span", { class: "meter", "aria-hidden": "true" }, Pen.make("i", { style: { width: Math.min(100, share * 100) + "%" } }));

Pen.plan.mark = function () {
    Pen.byId("plan-ranking").querySelectorAll("tbody tr").forEach((row, i) => {
        row.classList.toggle("chosen", i === this.row);
        row.querySelector("input").checked = i === this.row;
    });
};

Pen.plan.pick = function (row) {
    if (row === this.row)
        return;
    this.row = row;
    Pen.record("plan", this.state(), "done");
    this.mark();
    this.detail();
};

Pen.plan.start = function () {
    const form = Pen.byId("plan-form");
    Pen.byId("plan-count-slide").addEventListener("input", (event) => {
        form.elements.count.value = this.counts[Number(event.target.value)];
    });
    Pen.byId("plan-limit-slide").addEventListener("input", (event) => {
        const all = event.target.value === event.target.max;
        form.elements.limit.value = all ? "" : event.target.value;
    });
    Pen.byId("plan-cluster-fill").addEventListener("click", async () => {
        const answer = await this.side.ask(["cluster", "show", form.elements.count.value + "x" + form.elements.kind.value], {});
        form.elements.cluster.value = answer.out;
        this.ask("done");
    });
    form.addEventListener("again", () => {
        this.load({});
        Pen.record("plan", {}, "done");
    });
    Pen.watch(form, (mode) => this.ask(mode));
    Pen.acceptFiles(Pen.byId("plan-drop"), form.elements.config, Pen.byId("plan-config-file"));
    this.startMore();
};
