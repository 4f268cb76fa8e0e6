"use strict";
/* Questions to the program. Each is a command line, carried out in a worker
   (runner.js) that answers {code, out, err, files}. */

/* Answers of the last questions, so that back, forward and another row of a
   table are immediate. */
Pen.answers = new Map();

Pen.keep = function (key, answer) {
    if (Pen.answers.size > 60)
        Pen.answers.delete(Pen.answers.keys().next().value);
    Pen.answers.set(key, answer);
};

/* A lane has one question under way and a worker of its own. A newer question
   replaces the older one: it is cancelled, and its promise never resolves. */
Pen.lane = function () {
    const runner = new PenstockRunner();
    let turn = 0;
    const lane = {};
    lane.drop = function () {
        turn++;
        runner.cancel();
    };
    /* Begins a new chain of questions; the result tells if it is still the
       newest one. */
    lane.ticket = function () {
        lane.drop();
        const mine = turn;
        return () => mine === turn;
    };
    lane.ask = async function (argv, files) {
        const key = JSON.stringify([argv, files || {}]);
        const known = Pen.answers.get(key);
        if (known)
            return known;
        const mine = turn;
        let answer = null;
        try {
            answer = await runner.run(argv, files || {});
        } catch (problem) {
            if (mine === turn)
                throw problem;
        }
        if (mine !== turn)
            return new Promise(() => {});
        for (const [path, bytes] of Object.entries(answer.files))
            answer.files[path] = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
        Pen.keep(key, answer);
        return answer;
    };
    return lane;
};

Pen.parse = function (text) {
    try {
        return JSON.parse(text);
    } catch (problem) {
        return null;
    }
};

/* What the program says about a question that it cannot answer. Commands
   without --json say it on stderr: without the program's name then, and
   without advice for a terminal. */
Pen.complaint = function (answer) {
    const found = Pen.parse(answer.out);
    if (found && found.error)
        return found.error.message;
    const lines = answer.err.split("\n").filter((line) => line && !/^Try `/.test(line) && !/: not all given;/.test(line));
    const text = lines.join("\n").replace(/^penstock[a-z ]*: (error: )?/gm, "");
    return text || "The program ended with code " + answer.code + " and said nothing.";
};

/* Warnings that come with an answer. */
Pen.remarks = function (answer) {
    const found = Pen.parse(answer.out);
    if (found && Array.isArray(found.notes))
        return found.notes.filter((note) => note.level === "warning").map((note) => note.text);
    const lines = answer.err.split("\n").filter((line) => /^penstock[a-z ]*: warning: /.test(line));
    return lines.map((line) => line.replace(/^penstock[a-z ]*: warning: /, ""));
};

/* The command line, for people who want it in a terminal. */
Pen.commandLine = function (argv) {
    const word = (text) => (/^[\w@%+=:,./*-]+$/.test(text) ? text : "'" + text.replace(/'/g, "'\\''") + "'");
    return "penstock " + argv.map(word).join(" ");
};
