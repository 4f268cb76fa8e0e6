"""The documents as pages: tools/site builds them, names links that lead nowhere, and Chromium reads and searches them.

    python3 tests/web/site.py [--pictures FOLDER]
"""
import os
import pathlib
import subprocess
import sys
import tempfile

from devtools import Browser, browser, serve

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ("index.html", "docs/running.html", "docs/planning.html", "docs/commands.html", "docs/papers.html", "docs/man/penstock-plan.html",
         "docs/tutorials/train.html")
WIDTHS = (1440, 768, 390)
LINKS = """
import importlib.machinery, pathlib, sys
site = importlib.machinery.SourceFileLoader("site_of_documents", sys.argv[1]).load_module()
print(*sorted(site.dead_links(pathlib.Path(sys.argv[2]).resolve())), sep="\\n")
"""


def check(truth, *words):
    if not truth:
        sys.exit("failed: " + " ".join(map(str, words)))


def find_dead_links(work):
    (work / "one.html").write_text('<h2 id="here"></h2><a href="two.html#there">x</a> <a href="two.html#gone">x</a>'
                                   ' <a href="#here">x</a> <a href="three.html">x</a> <a href="https://example.org/">x</a>')
    (work / "two.html").write_text('<h2 id="there"></h2><img src="one.html">')
    found = subprocess.run(["/usr/bin/python3", "-W", "ignore", "-c", LINKS, ROOT / "tools/site", work], capture_output=True, text=True)
    check(found.stdout.split("\n")[:-1] == ["one.html: three.html", "one.html: two.html#gone"], found.stdout, found.stderr)


def read(browser_, base, pictures):
    for name in PAGES:
        for width in WIDTHS:
            page = browser_.page(width, 900, dark=width == 768)
            page.open(base + name)
            page.until("document.readyState == 'complete' && document.querySelector('article h1')")
            wide, window = page.run("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
            check(wide <= window, name, "is", wide, "wide in a window of", window)
            check(not page.complaints(), name, page.complaints())
            for address in page.requests():
                check(address.startswith((base, "data:")), name, "asks for", address)
            check(page.run("document.getElementById('contents').open") == (width >= 800), name, "contents at", width)
            if pictures:
                page.picture(os.path.join(pictures, f"{name.replace('/', '-')}-{width}.png"), whole=False)
            page.close()


def search(browser_, base):
    page = browser_.page(1440, 900)
    page.open(base + "docs/papers.html?q=deadlock")
    page.until("document.querySelector('#mkdocs-search-results article a')")
    check(page.run("document.querySelector('main > article').hidden"), "the page is shown beside what was found")
    first = page.run("document.querySelector('#mkdocs-search-results article a').href")
    page.open(first)
    page.until(f"location.href == '{first}' && document.readyState == 'complete'")
    check("deadlock" in page.run("document.querySelector('article').innerText").lower(), first, "does not have the word")
    page.close()


def main():
    if not browser():
        print("skipped: there is no Chromium")
        return 77
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work)
        (folder / "links").mkdir()
        find_dead_links(folder / "links")
        subprocess.run([ROOT / "tools/site", folder / "site"], check=True)
        browser_ = Browser()
        try:
            base = serve(str(folder / "site"))
            read(browser_, base, sys.argv[2] if sys.argv[1:2] == ["--pictures"] else None)
            search(browser_, base)
        finally:
            browser_.close()
    print(f"{len(PAGES)} pages at {len(WIDTHS)} widths, a search")
    return 0


if __name__ == "__main__":
    sys.exit(main())
