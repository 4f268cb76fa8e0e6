"use strict";
/* A form is the question of a tab. Fields have a name (for the link) and, if
   they are an option of the program, data-option. */

Pen.fields = (form) => [...form.elements].filter((field) => field.name);

/* Values that differ from the usual ones, by name. */
Pen.readForm = function (form, usual) {
    const state = {};
    for (const field of Pen.fields(form)) {
        const value = field.type === "checkbox" ? (field.checked ? "1" : "") : field.value.trim();
        if (value !== (usual[field.name] || ""))
            state[field.name] = value;
    }
    return state;
};

Pen.writeForm = function (form, usual, state) {
    for (const field of Pen.fields(form)) {
        const value = state[field.name] !== undefined ? state[field.name] : usual[field.name] || "";
        if (field.type === "checkbox")
            field.checked = value === "1";
        else if (field.tagName === "SELECT")
            Pen.choose(field, value);
        else if (field.value !== value)
            field.value = value;
        const fold = field.closest("details");
        if (fold && value && value !== (usual[field.name] || ""))
            fold.open = true;
    }
};

/* Chooses a value, even before the program has listed the others. */
Pen.choose = function (select, value) {
    if (![...select.options].some((option) => option.value === value))
        select.append(Pen.make("option", null, value));
    select.value = value;
};

/* Options of the program from the fields that are shown and not empty. */
Pen.optionsOf = function (form, command) {
    const argv = [];
    for (const field of Pen.fields(form)) {
        const option = field.dataset.option;
        if (!option || field.disabled || (field.dataset.only && field.dataset.only !== command))
            continue;
        if (field.type === "checkbox") {
            if (field.checked)
                argv.push(option);
        } else if (field.value.trim()) {
            const plain = /^[0-9.]+$/.test(field.value.trim());
            argv.push(option, field.value.trim() + (plain && field.dataset.unit ? field.dataset.unit : ""));
        }
    }
    return argv;
};

Pen.listModels = function (select, models) {
    const chosen = select.value;
    const option = (m) => Pen.make("option", { value: m.model }, m.model);
    Pen.fill(select, models.map(option));
    Pen.choose(select, chosen);
};

Pen.listKinds = function (select, kinds) {
    const chosen = select.value;
    const group = (label, list, key) =>
        Pen.make("optgroup", { label }, list.map((k) => Pen.make("option", { value: k[key] }, k[key])));
    Pen.fill(select, group("Devices", kinds.devices, "device"), group("Systems", kinds.systems, "system"));
    Pen.choose(select, chosen);
};

/* An error of the program with the labels of fields instead of options. */
Pen.plainly = function (form, text) {
    for (const field of Pen.fields(form)) {
        const label = field.labels && field.labels[0];
        if (field.dataset.option && label && field.type !== "checkbox")
            text = text.replace(new RegExp(field.dataset.option + "(?![\\w-])", "g"), label.textContent.trim());
    }
    return text[0].toUpperCase() + text.slice(1);
};

/* Shows an error of the program beside the field it is about, if it names an
   option or a file of the question. */
Pen.blame = function (form, text) {
    Pen.forgive(form);
    const names = { "--model": ["config", "model"], "config.json": ["config"], "cluster.yaml": ["cluster"], "--cluster": ["cluster", "kind"] };
    const found = Pen.fields(form).filter((field) => {
        const words = [field.dataset.option].filter(Boolean);
        for (const [word, fields] of Object.entries(names))
            if (fields.includes(field.name) && (field.value || field.tagName === "SELECT"))
                words.push(word);
        return words.some((word) => new RegExp(word.replace(/[.]/g, "\\.") + "(?![\\w-])").test(text));
    });
    const field = found[0];
    if (!field || !field.closest(".field"))
        return;
    const fold = field.closest("details");
    if (fold)
        fold.open = true;
    field.setAttribute("aria-invalid", "true");
    const bubble = Pen.make("p", { class: "field-error", id: field.id + "-error" }, Pen.plainly(form, text.split("\n")[0]));
    field.setAttribute("aria-describedby", bubble.id);
    field.closest(".field").append(bubble);
};

Pen.forgive = function (form) {
    for (const bubble of form.querySelectorAll(".field-error"))
        bubble.remove();
    for (const field of form.querySelectorAll('[aria-invalid="true"]')) {
        field.removeAttribute("aria-invalid");
        field.removeAttribute("aria-describedby");
    }
};

/* Reads a file that is dropped on an area, or chosen, into a text field. */
Pen.acceptFiles = function (area, field, chooser) {
    const take = async (file) => {
        if (!file)
            return;
        field.value = await file.text();
        field.closest("details").open = true;
        field.dispatchEvent(new Event("input", { bubbles: true }));
        field.dispatchEvent(new Event("change", { bubbles: true }));
    };
    area.addEventListener("dragover", (event) => {
        event.preventDefault();
        area.classList.add("over");
    });
    area.addEventListener("dragleave", () => area.classList.remove("over"));
    area.addEventListener("drop", (event) => {
        event.preventDefault();
        area.classList.remove("over");
        take(event.dataTransfer.files[0]);
    });
    if (chooser)
        chooser.addEventListener("change", () => take(chooser.files[0]));
};

/* Watches a form: ask("typing") is called a moment after the last key,
   ask("done") when a change is finished. */
Pen.watch = function (form, ask) {
    const soon = Pen.later(() => ask("typing"), 220);
    form.addEventListener("input", soon);
    form.addEventListener("change", (event) => {
        if (event.target.type !== "file")
            setTimeout(() => ask("done"), 0);
    });
    form.addEventListener("submit", (event) => {
        event.preventDefault();
        ask("done");
    });
    form.addEventListener("reset", (event) => {
        event.preventDefault();
        form.dispatchEvent(new CustomEvent("again"));
    });
    for (const button of form.querySelectorAll("[data-clear]"))
        button.addEventListener("click", () => {
            Pen.byId(button.dataset.clear).value = "";
            ask("done");
        });
};
