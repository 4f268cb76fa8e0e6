"use strict";
/* Numbers as the program prints them, so that the page and a terminal show
   the same digits. */

Pen.GIB = 1024 * 1024 * 1024;

/* printf's %.4g for the sizes that occur here */
Pen.digits = function (value, count) {
    if (value === 0)
        return "0";
    const text = value.toPrecision(count || 4);
    const [front, power] = text.split("e");
    const short = front.includes(".") ? front.replace(/\.?0+$/, "") : front;
    if (power === undefined)
        return short;
    const sign = power[0] === "-" ? "-" : "+";
    return short + "e" + sign + power.replace(/^[+-]/, "").padStart(2, "0");
};

/* a whole number with commas */
Pen.whole = (value) => value.toFixed(0).replace(/\B(?=(\d{3})+(?!\d))/g, ",");

/* three digits, with commas from a thousand on */
Pen.three = (value) => (Math.abs(value) >= 1000 ? Pen.whole(value) : Pen.digits(value, 3));

Pen.gib = (bytes, places) => (bytes / Pen.GIB).toFixed(places === undefined ? 1 : places);

Pen.percent = (share, places) => (share * 100).toFixed(places === undefined ? 1 : places);

Pen.seconds = (value) => Pen.digits(value, 4);

/* bytes with a decimal unit, three digits, as sync compare prints them */
Pen.bytes = function (value) {
    const units = ["B", "kB", "MB", "GB", "TB", "PB"];
    let unit = 0;
    while (value >= 999.5 && unit < units.length - 1) {
        value /= 1000;
        unit++;
    }
    return Pen.digits(value, 3) + " " + units[unit];
};

/* "ranks 4-7" or "rank 3" */
Pen.ranks = (first, count) => (count === 1 ? "rank " + first : "ranks " + first + "–" + (first + count - 1));

/* The mode of recomputation, or the modules that are computed again. */
Pen.modules = (plan) => (plan.recompute === "selective" && plan.recipe && plan.recipe.recompute_modules) || [];
Pen.recompute = (plan) => Pen.modules(plan).join(",") || plan.recompute;

/* A layout in the words of the program. */
Pen.layout = function (plan) {
    const d = plan.degrees;
    const words = ["tp", "cp", "pp", "vpp", "ep"].filter((k) => d[k] > 1).map((k) => k + " " + d[k]);
    words.push("dp " + d.dp, "micro-batch " + plan.micro_batch);
    if (d.pp > 1)
        words.push(plan.schedule);
    if (plan.recompute !== "none")
        words.push("recompute " + Pen.recompute(plan));
    if (plan.sharding !== "none")
        words.push(plan.sharding);
    return words.join(" ");
};

/* "70.6 billion" */
Pen.count = function (value) {
    for (const [size, name] of [[1e12, "trillion"], [1e9, "billion"], [1e6, "million"]])
        if (value >= size)
            return Pen.digits(value / size, 4) + " " + name;
    return Pen.whole(value);
};

/* A duration that people read: days, hours, minutes or seconds. */
Pen.duration = function (sec) {
    if (sec >= 86400 * 2)
        return Pen.digits(sec / 86400, 3) + " days";
    if (sec >= 7200)
        return Pen.digits(sec / 3600, 3) + " hours";
    if (sec >= 120)
        return Pen.digits(sec / 60, 3) + " minutes";
    return Pen.digits(sec, 3) + " s";
};

/* A round distance of ticks, four to eight of them */
Pen.tickStep = function (range) {
    const power = 10 ** Math.floor(Math.log10(range / 4));
    return [1, 2, 5, 10].map((f) => f * power).find((s) => range / s <= 8) || power * 10;
};
