"use strict";
/* Tabs, theme, link and the start of the page. */

Pen.tabNames = ["plan", "schedules", "replicas"];
Pen.tab = "plan";

Pen.showTab = function (name, focus) {
    Pen.tab = name;
    for (const other of Pen.tabNames) {
        const tab = Pen.byId("tab-" + other);
        tab.setAttribute("aria-selected", String(other === name));
        tab.tabIndex = other === name ? 0 : -1;
        Pen.byId("panel-" + other).hidden = other !== name;
    }
    if (focus)
        Pen.byId("tab-" + name).focus();
};

Pen.openTab = function (name) {
    if (name === Pen.tab)
        return;
    Pen.showTab(name, true);
    const part = Pen[name];
    Pen.record(name, part.state(), "done");
    if (!part.begun) {
        part.begun = true;
        part.load({});
    }
};

Pen.startTabs = function () {
    const names = Pen.tabNames;
    for (const name of names) {
        const tab = Pen.byId("tab-" + name);
        tab.addEventListener("click", () => Pen.openTab(name));
        tab.addEventListener("keydown", (event) => {
            const at = names.indexOf(name);
            const goal = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: names.length - 1 }[event.key];
            if (goal === undefined)
                return;
            event.preventDefault();
            Pen.openTab(names[(goal + names.length) % names.length]);
        });
    }
};

Pen.loadLink = async function () {
    const found = /^#(\w+)/.exec(location.hash);
    const name = found && Pen.tabNames.includes(found[1]) ? found[1] : "plan";
    Pen.showTab(name);
    Pen.openFolds(name);
    const { state } = await Pen.fromFragment(location.hash);
    Pen[name].begun = true;
    Pen[name].load(state);
    if (state.damaged)
        Pen.status(Pen.byId("plan-status"), "A part of this link is damaged; the page uses the rest.", "bad");
};

/* Opens the folds of a link's fields before the first picture of the page:
   unpacking a text takes a moment, and nothing may move then. */
Pen.openFolds = function (tab) {
    for (const field of Pen.byId("panel-" + tab).querySelectorAll("details [name]"))
        if (new RegExp("[?&]" + field.name + "=").test(location.hash))
            field.closest("details").open = true;
};

/* Dark or light: as the system says, until the switch is used. */
Pen.startTheme = function () {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const button = Pen.byId("theme");
    let chosen = null;
    try {
        chosen = localStorage.getItem("penstock-theme");
    } catch (problem) {
        chosen = null;
    }
    const apply = () => {
        const theme = chosen || (dark.matches ? "dark" : "light");
        document.documentElement.dataset.theme = theme;
        button.textContent = theme === "dark" ? "Light" : "Dark";
        button.setAttribute("aria-label", "Use " + (theme === "dark" ? "light" : "dark") + " colours");
    };
    dark.addEventListener("change", apply);
    button.addEventListener("click", () => {
        chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
        try {
            localStorage.setItem("penstock-theme", chosen);
        } catch (problem) {
            /* the choice then lasts as long as the page */
        }
        apply();
    });
    apply();
};

Pen.startLink = function () {
    const button = Pen.byId("copy-link");
    button.addEventListener("click", async () => {
        await Pen.record(Pen.tab, Pen[Pen.tab].state(), "done");
        let done = true;
        try {
            await navigator.clipboard.writeText(location.href);
        } catch (problem) {
            done = Pen.copyByHand(location.href);
        }
        button.textContent = done ? "Copied" : "No access";
        setTimeout(() => (button.textContent = "Copy link"), 1500);
    });
    window.addEventListener("popstate", () => Pen.loadLink());
};

/* Pages from disk may have no clipboard: select the text and copy it. */
Pen.copyByHand = function (text) {
    const field = Pen.make("textarea", { class: "offstage", "aria-hidden": "true" });
    field.value = text;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
};

/* Lists of the program for the choices of all tabs. */
Pen.loadLists = async function () {
    const lane = Pen.lane();
    const models = Pen.parse((await lane.ask(["models", "--json"])).out);
    const kinds = Pen.parse((await lane.ask(["cluster", "list", "--json"])).out);
    const version = await lane.ask(["--version"]);
    Pen.byId("version").textContent = version.out.trim().replace(/^p/, "P");
    for (const id of ["plan-model", "sync-model"])
        Pen.listModels(Pen.byId(id), models.models);
    for (const id of ["plan-kind", "sync-kind"])
        Pen.listKinds(Pen.byId(id), kinds);
    Pen.plan.models = models.models;
    Pen.plan.kinds = kinds;
    Pen.plan.follow();
};

Pen.start = function () {
    Pen.startTabs();
    Pen.startLink();
    for (const name of Pen.tabNames)
        Pen[name].start();
    Pen.loadLink();
    Pen.startTheme();
    Pen.loadLists();
};

Pen.start();
