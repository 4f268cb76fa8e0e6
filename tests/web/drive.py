"""Drives the page in Chromium and compares it with the program.

drive.py FOLDER PENSTOCK [--pictures DIR] [--from-disk] [--measure]

FOLDER is the built page, or the address of a server that has it. Questions
are asked by typing, by links and by the keyboard: ten with PEN_LONG=1, else every
other one, odd or even by PEN_SEED, and --from-disk, where only the way to the
program differs, every fifth. The figures in
the page must be those that PENSTOCK prints, the plan file the bytes that
`plan -o` writes. No request may leave the origin, the console stays empty,
nothing shifts, nothing is wider than the window.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

from devtools import Browser, browser, serve

WIDTHS = (1440, 768, 390)
MOST_SHIFT = 0.1  # what web vitals call good

CONFIG = json.dumps({
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8,
    "intermediate_size": 14336, "vocab_size": 128256,
    "max_position_embeddings": 8192}, indent=2)

CLUSTER = """version: 2
name: two kinds
devices:
  - {kind: h100-sxm, count: 16}
links:
  - {level: node, size: 8, bandwidth: 450 GB/s, latency: 3 us}
  - {level: cluster, bandwidth: 25 GB/s, latency: 6 us}
"""

# Fields of the page, and the same question for the program
QUESTIONS = [
    ({}, ["--model", "llama-3.1-70b", "--cluster", "64xh100-sxm"]),
    ({"plan-count": "128"},
     ["--model", "llama-3.1-70b", "--cluster", "128xh100-sxm"]),
    ({"plan-model": "gpt3-175b", "plan-kind": "a100-80", "plan-count": "512",
      "plan-seq": "2k", "plan-batch": "1536"},
     ["--model", "gpt3-175b", "--cluster", "512xa100-80",
      "--seq-length", "2k", "--global-batch-size", "1536"]),
    ({"plan-model": "llama-3.1-8b", "plan-count": "32",
      "plan-target": "torchtitan", "plan-tokens": "2T"},
     ["--model", "llama-3.1-8b", "--cluster", "32xh100-sxm",
      "--target", "torchtitan", "--tokens", "2T"]),
    ({"plan-limit": "60"},
     ["--model", "llama-3.1-70b", "--cluster", "64xh100-sxm",
      "--memory-limit", "60GiB"]),
    ({"plan-config": CONFIG, "plan-count": "16", "plan-dtype": "fp8"},
     ["--model", "config.json", "--cluster", "16xh100-sxm",
      "--dtype", "fp8"]),
    ({"plan-cluster": CLUSTER, "plan-model": "llama-2-13b"},
     ["--model", "llama-2-13b", "--cluster", "cluster.yaml"]),
    ({"plan-model": "qwen3-30b-a3b", "plan-count": "32",
      "plan-dispatcher": "deepep"},
     ["--model", "qwen3-30b-a3b", "--cluster", "32xh100-sxm",
      "--dispatcher", "deepep"]),
    ({"plan-model": "llama-3.1-8b", "plan-kind": "dgx-h200",
      "plan-count": "4", "plan-objective": "energy"},
     ["--model", "llama-3.1-8b", "--cluster", "4xdgx-h200",
      "--objective", "energy"]),
    ({"plan-model": "llama-3.1-8b", "plan-kind": "b200", "plan-count": "64",
      "plan-optimizer": "muon", "plan-dtype": "mxfp8"},
     ["--model", "llama-3.1-8b", "--cluster", "64xb200",
      "--dtype", "mxfp8", "--optimizer", "muon"]),
]

WATCH = """
window.shift = 0;
window.shifted = [];
new PerformanceObserver((list) => {
    for (const entry of list.getEntries())
        if (!entry.hadRecentInput) {
            window.shift += entry.value;
            window.shifted.push(...entry.sources.map(({node}) =>
                node && (node.id || node.className || node.nodeName)));
        }
}).observe({type: "layout-shift", buffered: true});
"""

# Text whose contrast with its ground is below 4.5 to 1 (3 to 1 if large).
# Disabled fields and answers that are being replaced need none.
FAINT = """(() => {
    const parts = (text) => text.match(/[0-9.]+/g).map(Number);
    const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
        .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const ground = (element) => {
        for (; element; element = element.parentElement) {
            const c = parts(getComputedStyle(element).backgroundColor);
            if (c.length === 3 || c[3] === 1)
                return c;
        }
        return [255, 255, 255];
    };
    const walk = document.createTreeWalker(document.body, 4);
    const faint = new Set();
    while (walk.nextNode()) {
        const element = walk.currentNode.parentElement;
        if (!walk.currentNode.data.trim() || !element.offsetParent
            || element.closest(":disabled, .stale, option, script"))
            continue;
        const style = getComputedStyle(element);
        const size = parseFloat(style.fontSize);
        const least = size >= 24 || (size >= 18.6 && style.fontWeight >= 700)
            ? 3 : 4.5;
        const [a, b] = [light(parts(style.color)), light(ground(element))];
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < least)
            faint.add(element.className + " " + element.textContent.slice(0, 30)
                      + " " + ratio.toFixed(2));
    }
    return [...faint];
})()"""

SETTLED = ("typeof Pen !== 'undefined' && Pen.plan.chosenFile "
           "&& !Pen.byId('plan-answer').classList.contains('stale')")


class Failure(Exception):
    pass


def check(truth, *words):
    if not truth:
        raise Failure(" ".join(str(word) for word in words))


class Program:
    """The native program, in a folder with the question's files."""

    def __init__(self, path):
        self.path = os.path.abspath(path)
        self.folder = tempfile.mkdtemp()
        for name, text in (("config.json", CONFIG), ("cluster.yaml", CLUSTER)):
            with open(os.path.join(self.folder, name), "w") as file:
                file.write(text)

    def run(self, *argv):
        begun = time.monotonic()
        done = subprocess.run([self.path, *argv], cwd=self.folder,
                              capture_output=True, text=True)
        self.seconds = time.monotonic() - begun
        return done

    def read(self, name):
        with open(os.path.join(self.folder, name)) as file:
            return file.read()

    def close(self):
        shutil.rmtree(self.folder)


def ranking(text):
    """Cells of the first table that `penstock plan` prints."""
    lines = text.split("\n")
    first = next(i for i, line in enumerate(lines) if line.startswith("--"))
    rows = []
    for line in lines[first + 1:]:
        if not line.strip():
            break
        rows.append(line.split())
    return rows


def shown(page):
    """The same cells of the page: without interval, limit and signs."""
    rows = page.run("[...document.querySelectorAll('#plan-ranking tbody tr')]"
                    ".map(r => [...r.cells].map(c => c.textContent))")
    return [[c[0], c[1], c[3], c[4], c[5], *c[6:12],
             *c[12].replace("\u00d7", "x").split(), *c[13:]] for c in rows]


def type_in(page, fields):
    """Types values into fields, as a user does, with the events of keys."""
    page.run("""((fields) => {
        for (const [id, value] of Object.entries(fields)) {
            const field = Pen.byId(id);
            const fold = field.closest("details");
            if (fold) fold.open = true;
            field.focus();
            if (field.tagName === "SELECT") Pen.choose(field, value);
            else field.value = value;
            field.dispatchEvent(new Event("input", {bubbles: true}));
            field.dispatchEvent(new Event("change", {bubbles: true}));
        }
    })(%s)""" % json.dumps(fields))


def ask(page, fields):
    page.run("Pen.answers.clear();"
             "Pen.plan.chosenFile = null; Pen.plan.asked = null;"
             "Pen.plan.found = null")
    if fields:
        type_in(page, fields)
    else:
        page.run("Pen.plan.load({})")
    page.until(SETTLED + " && Pen.plan.found", 120)


def compare_plan(page, program, argv, number):
    text = program.run("plan", *argv)
    wanted = [row[:5] + row[6:] for row in ranking(text.stdout)]
    found = shown(page)
    check(found == wanted, "question", number, ":\n", found, "\n", wanted)
    program.run("plan", *argv, "--json", "-o", "plan.json")
    check(page.run("Pen.plan.file") == program.read("plan.json"),
          "question", number, ": plan.json differs")
    return len(wanted)


def drive_plans(page, program, stride):
    cells = 0
    first = int(os.environ.get("PEN_SEED", "0")) % stride
    chosen = list(enumerate(QUESTIONS, 1))[first::stride]
    for number, (fields, argv) in chosen:
        page.run("Pen.writeForm(Pen.byId('plan-form'), Pen.plan.usual, {})")
        ask(page, fields)
        cells += compare_plan(page, program, argv, number)
    print("%d questions: %d plans with the program's digits, "
          "%d plan files with its bytes" % (len(chosen), cells, len(chosen)))


def drive_row(page, program):
    """Another row: its plan file is that of predict; its export too."""
    page.run("Pen.plan.load({})")
    page.until(SETTLED + " && Pen.plan.found.model === 'llama-3.1-70b'")
    page.run("Pen.plan.chosenFile = null;"
             "document.querySelectorAll('[name=plan-row]')[5].click()")
    page.until(SETTLED, 60)
    plan = page.run("JSON.parse(Pen.plan.chosenFile).degrees")
    check(plan == page.run("Pen.plan.found.plans[5].degrees"), "row", plan)
    with open(os.path.join(program.folder, "plan.json"), "w") as file:
        file.write(page.run("Pen.plan.chosenFile"))
    done = program.run("export", "plan.json", "--to", "megatron",
                       "-o", "megatron")
    check(done.returncode == 0, done.stderr)
    page.run("[...Pen.byId('plan-files').querySelectorAll('button')]"
             ".find((b) => b.textContent === 'Megatron').click()")
    page.until("document.querySelector('#plan-export-answer pre.preview')")
    text = page.run("[...document.querySelectorAll('#plan-export-answer li')]"
                    ".find((l) => l.querySelector('a[download=\"megatron.args\"]'))"
                    ".querySelector('pre').textContent")
    check(text == program.read("megatron/megatron.args"), "megatron.args")
    page.run("Pen.byId('plan-why').value = 'tp=8,pp=4';"
             "Pen.byId('plan-why-form').requestSubmit()")
    page.until("document.querySelector('#plan-why-answer table')", 60)
    said = program.run("plan", "llama-3.1-70b", "64xh100-sxm", "--why",
                       "tp=8,pp=4").stdout
    percent = page.run("Pen.byId('plan-why-answer').textContent"
                       ".match(/[0-9.]+ %/)[0]")
    check(percent in said, percent, said)
    print("a row's plan, its export and the reason against tp=8,pp=4 agree")


def drive_errors(page):
    type_in(page, {"plan-seq": "foo"})
    page.until("document.querySelector('.field-error')", 30)
    check("whole number" in page.run(
        "document.querySelector('.field-error').textContent"), "error")
    check(page.run("Pen.byId('plan-seq').getAttribute('aria-invalid')")
          == "true", "the field is not marked")
    type_in(page, {"plan-seq": "4k"})
    page.until("!document.querySelector('.field-error')", 60)
    page.run("setTimeout(() => history.back(), 0)")
    page.until("Pen.byId('plan-seq').value === 'foo'", 30)
    page.run("setTimeout(() => history.forward(), 0)")
    page.until("Pen.byId('plan-seq').value === '4k'", 30)
    print("an error stands beside its field; back and forward work")


def drive_link(browser_, base, page):
    """A link with a pasted model asks the same question elsewhere."""
    type_in(page, {"plan-config": CONFIG, "plan-count": "16"})
    page.until("location.hash.includes('config=z.')", 30)
    link = page.run("location.hash")
    other = open_page(browser_, base, 768, link)
    other.until(SETTLED, 120)
    check(other.run("Pen.byId('plan-config').value") == CONFIG, "config")
    check(other.run("Pen.byId('plan-count').value") == "16", "count")
    judge(other, base)
    other.close()
    print("a link of %d characters restores its question" % len(link))


def table_of(page, where):
    return page.run("[...document.querySelectorAll('#%s tbody tr')]"
                    ".map(r => [...r.cells].map(c => c.textContent))" % where)


def drive_schedules(browser_, base, program):
    page = open_page(browser_, base, 1440,
                     "#schedules?name=zb-v&p=4&m=8&draw=zb-v,1f1b")
    page.until("document.querySelectorAll('#sched-compare tbody tr').length"
               " && document.querySelector('#sched-drawn img')", 120)
    count = page.run("document.querySelectorAll('#sched-name option').length")
    listed = json.loads(program.run("schedule", "list", "--json").stdout)
    check(count == len(listed["schedules"]), count, "schedules")
    lines = program.run("schedule", "compare", "--stages", "4",
                        "--microbatches", "8").stdout.split("\n")
    wanted = {line.split()[0]: line.split()[1:7] for line in lines
              if len(line.split()) >= 8 and line[0] not in "-s"}
    for row in table_of(page, "sched-compare"):
        if row[1] in wanted:
            check(row[2:8] == wanted.pop(row[1]), row)
    check(page.run("Pen.timeline.data.end") == 25.5, "end of the step")
    page.run("Pen.byId('sched-timeline').focus()")
    page.key("ArrowRight", 39)
    check(page.run("Pen.timeline.time") == 0.5, "the cursor")
    check("forward 1" in page.run("Pen.byId('sched-now').textContent"), "now")
    page.key(" ", 32, " ")
    page.until("Pen.timeline.time > 0.6", 10)
    page.key(" ", 32, " ")
    check(page.run("!Pen.timeline.playing"), "it still plays")
    page.run("""(() => { const a = Pen.byId('sched-text');
        a.value = a.value.replace('0F1 0SA1', '0SA1 0F1');
        a.dispatchEvent(new Event('input', {bubbles: true})); })()""")
    page.until("document.querySelector('.editor .message')", 30)
    check("comes before the forward" in page.run(
        "document.querySelector('.editor .message').textContent"), "message")
    judge(page, base)
    page.close()
    print(f"{count} schedules; the table, the cursor and the verifier's message")


def drive_replicas(browser_, base, program):
    page = open_page(browser_, base, 1440, "#replicas")
    page.until("document.querySelectorAll('#sync-table tbody tr').length", 60)
    argv = ["--model", "llama-3.1-8b", "--link", "1Gbit/s", "--replicas", "4",
            "--cluster", "8xh100-sxm", "--seq-length", "8192",
            "--global-batch-size", "512"]
    lines = program.run("sync", "compare", *argv).stdout.split("\n")
    first = next(i for i, line in enumerate(lines) if line.startswith("--"))
    rows = table_of(page, "sync-table")
    found = [" ".join(row).split() for row in rows]
    wanted = [line.split() for line in lines[first + 1:][:len(rows)]]
    for row, line in zip(found, wanted):
        check(row == line, row, line)
    judge(page, base)
    page.close()
    print("%d methods to synchronise, with the program's digits" % len(rows))


def open_page(browser_, base, width, fragment="", **settings):
    page = browser_.page(width, 2600, **settings)
    page.call("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
    page.open(base + "index.html" + fragment)
    page.until("typeof Pen !== 'undefined'", 60)
    return page


def judge(page, base, most=MOST_SHIFT):
    """What holds for every page."""
    check(not page.complaints(), "console:", page.complaints())
    for address in page.requests():
        check(address.startswith((base, "data:", "blob:" + base[:16],
                                  "blob:null")), "request to", address)
    wide, window = page.run("[document.documentElement.scrollWidth,"
                            "document.documentElement.clientWidth]")
    check(wide <= window, "the page is", wide, "wide, not", window)
    shift = page.run("window.shift")
    check(shift <= most, "layout shift", shift, page.run("window.shifted"))
    if shift > most / 10:
        print("layout shift %.3f:" % shift, page.run("window.shifted"))
    return shift


def drive_widths(browser_, base, folder):
    shifts = []
    for width in WIDTHS:
        for tab in ("plan", "schedules", "replicas"):
            page = open_page(browser_, base, width, "#" + tab,
                             dark=width == 768)
            page.until({"plan": SETTLED + " && Pen.plan.explained && [...document"
                        ".querySelectorAll('#plan-picture img')].some("
                        "(image) => image.naturalWidth > 0)",
                        "schedules": "document.querySelector("
                        "'#sched-compare tbody tr')",
                        "replicas": "document.querySelector("
                        "'#sync-table tbody tr')"}[tab], 120)
            shifts.append(judge(page, base))
            check(not page.run(FAINT), "faint:", page.run(FAINT))
            page.run("Pen.byId('theme').click()")
            check(not page.run(FAINT), "faint:", page.run(FAINT))
            page.run("Pen.byId('theme').click()")
            if folder:
                height = page.call("Page.getLayoutMetrics")["cssContentSize"]
                page.size(width, int(min(height["height"], 6000)))
                page.picture(os.path.join(folder, "%s-%d.png" % (tab, width)))
            page.close()
    print("widths %s: nothing wider, no faint text in dark or light, "
          "layout shift at most %.3f"
          % (", ".join(map(str, WIDTHS)), max(shifts)))


OUTSIDE = """new Promise((resolve) => {
    const text = "fetch('http://127.0.0.2:9/').then(() => 'sent',"
        + "(problem) => 'refused').then(postMessage)";
    document.addEventListener("securitypolicyviolation", (event) => {
        const worker = new Worker(URL.createObjectURL(new Blob([text])));
        worker.onmessage = ({data}) => resolve([event.blockedURI, data]);
    }, {once: true});
    fetch("http://127.0.0.2:9/").then(() => resolve("sent"), () => {});
})"""


def drive_outside(browser_, base):
    """The page itself refuses requests to elsewhere, in workers, too."""
    page = open_page(browser_, base, 1440)
    found = page.run(OUTSIDE)
    check(found[0].startswith("http://127.0.0.2") and found[1] == "refused",
          "a request elsewhere:", found)
    page.close()
    print("a request to elsewhere is refused by the page")


def measure(browser_, base, program):
    """Seconds to the first answer, the ratio to the program, and memory."""
    for slowdown in (1, 4):
        firsts, ratios = [], []
        for _ in range(3):
            page = open_page(browser_, base, 1440, slowdown=slowdown)
            page.until("Pen.plan.first", 120)
            firsts.append(page.run("Pen.plan.first") / 1000)
            for _ in range(3):
                program.run("plan", *QUESTIONS[0][1], "--json", "-o",
                            "plan.json")
                page.run("Pen.plan.explained = null")
                ask(page, {})
                ratios.append(page.run("Pen.plan.took") / 1000
                              / program.seconds)
            memory = page.run("Pen.plan.bytes") or 0
            page.close()
        print("processor slowed %d times: first answer %.2f s after the "
              "start of the page, an answer %.2f times the program's "
              "(%.2f to %.2f), memory %.1f MiB"
              % (slowdown, sorted(firsts)[1], sorted(ratios)[4], min(ratios),
                 max(ratios), memory / 2**20))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("penstock")
    parser.add_argument("--pictures")
    parser.add_argument("--from-disk", action="store_true")
    parser.add_argument("--measure", action="store_true")
    wish = parser.parse_args()
    if not browser():
        print("skipped: there is no Chromium")
        return 77
    if wish.folder.startswith("http"):
        base = wish.folder
    elif wish.from_disk:
        base = "file://" + os.path.abspath(wish.folder) + "/"
    else:
        base = serve(wish.folder)
    program = Program(wish.penstock)
    browser_ = Browser()
    try:
        if wish.measure:
            measure(browser_, base, program)
            return 0
        page = open_page(browser_, base, 1440)
        page.until(SETTLED, 120)
        drive_plans(page, program, 1 if os.environ.get("PEN_LONG") else
                    5 if wish.from_disk else 2)
        drive_row(page, program)
        drive_errors(page)
        drive_link(browser_, base, page)
        # Typing by script is no input to the browser, so that all shifts of
        # all questions count here, also those that a user asked for.
        judge(page, base, 2 * MOST_SHIFT)
        page.close()
        drive_schedules(browser_, base, program)
        drive_replicas(browser_, base, program)
        drive_widths(browser_, base, wish.pictures)
        drive_outside(browser_, base)
    except Failure as failure:
        print("failed:", failure)
        return 1
    finally:
        browser_.close()
        program.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
