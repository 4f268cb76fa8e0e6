"use strict";
/* Tab 3: methods to synchronise replicas over a slow link. */

Pen.replicas = {
    usual: { model: "llama-3.1-8b", replicas: "4", link: "1Gbit/s", kind: "h100-sxm", count: "8", seq: "8192", batch: "512" },
    lane: Pen.lane(),
};

Pen.replicas.state = function () {
    return Pen.readForm(Pen.byId("sync-form"), this.usual);
};

Pen.replicas.load = function (state) {
    Pen.writeForm(Pen.byId("sync-form"), this.usual, state);
    this.ask("load");
};

Pen.replicas.question = function () {
    const form = Pen.byId("sync-form");
    const value = (name) => form.elements[name].value.trim();
    const files = {};
    const argv = ["sync", "compare", "--model", value("model")];
    if (value("config")) {
        files["config.json"] = form.elements.config.value;
        argv[3] = "config.json";
    }
    argv.push(...Pen.optionsOf(form, "sync"));
    if (value("step")) {
        argv.push("--step-time", value("step"));
        if (value("micro"))
            argv.push("--microbatches", value("micro"));
    } else {
        argv.push("--cluster", value("count") + "x" + value("kind"), "--seq-length", value("seq"));
    }
    return { argv: [...argv, "--json"], files };
};

Pen.replicas.ask = async function (mode) {
    const form = Pen.byId("sync-form");
    const known = form.elements.step.value.trim() !== "";
    for (const name of ["kind", "count", "seq"])
        form.elements[name].disabled = known;
    form.elements.micro.disabled = !known;
    form.elements.model.disabled = form.elements.config.value.trim() !== "";
    Pen.record("replicas", this.state(), mode);
    const q = this.question();
    const fresh = this.lane.ticket();
    Pen.byId("sync-table").classList.add("stale");
    const answer = await this.lane.ask(q.argv, q.files);
    if (!fresh())
        return;
    const found = answer.code === 0 ? Pen.parse(answer.out) : null;
    if (!found) {
        const text = Pen.complaint(answer);
        Pen.status(Pen.byId("sync-status"), Pen.plainly(Pen.byId("sync-form"), text), "bad");
        Pen.blame(form, text);
        return;
    }
    Pen.forgive(form);
    this.show(found, answer);
};

Pen.replicas.show = function (found, answer) {
    Pen.status(
        Pen.byId("sync-status"),
        [
            Pen.count(found.weights) + " parameters, " + Pen.whole(found.replicas) + " replicas on links of " + Pen.bytes(found.link_bytes_per_sec) + "/s and " + Pen.digits(found.latency_sec * 1000, 3) + " ms. A step computes " + Pen.duration(found.compute_sec) + ".",
            ...Pen.remarks(answer),
        ].join(" "),
        ""
    );
    const lines = found.advice && found.advice.text ? found.advice.text.trim().split("\n") : [];
    Pen.fill(
        Pen.byId("sync-advice"),
        Pen.make("ul", null, lines.map((line, i) => Pen.make("li", { class: i === 0 ? "first" : "" }, line.replace(/^advice: /, ""))))
    );
    const ms = (sec) => Pen.three(sec * 1000);
    const number = (head, title, cell) => ({ head, title, cell });
    const columns = [
        { head: "method", text: true, cell: (m) => m.name },
        number("interval", "steps between synchronisations", (m) => String(m.interval)),
        number("sent/step", "bytes of a replica", (m) => (m.bytes_are_estimated ? "~" : "") + Pen.bytes(m.bytes_per_step)),
        number("stall, ms", "time of a step in which the replica waits", (m) => ms(m.stall_sec)),
        number("encode, ms", "time of compression", (m) => ms(m.encode_sec)),
        number("step, ms", "", (m) => ms(m.step_sec)),
        number("samples/s", "", (m) => Pen.digits(m.samples_per_sec, 3)),
        number("stale", "steps by which a replica may lag the others", (m) => (m.staleness === null ? "any" : Pen.digits(m.staleness, 3))),
        number("memory", "of a replica", (m) => Pen.bytes(m.extra_bytes)),
        { head: "does it pay", text: true, cell: (m) => Pen.make("span", { class: m.verdict === "pays" ? "good" : "" }, m.reason) },
    ];
    Pen.fill(
        Pen.byId("sync-table"),
        Pen.table(columns, found.methods, {
            label: "Methods, fastest first",
            row: (m, i) => ({ class: i === found.advised_row ? "chosen" : null }),
        })
    );
    Pen.byId("sync-table").classList.remove("stale");
};

Pen.replicas.start = function () {
    const form = Pen.byId("sync-form");
    form.addEventListener("again", () => {
        this.load({});
        Pen.record("replicas", {}, "done");
    });
    Pen.watch(form, (mode) => this.ask(mode));
    Pen.acceptFiles(Pen.byId("sync-drop"), form.elements.config);
};
