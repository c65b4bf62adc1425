"""The hub's page in a real browser: each view, each role, at three sizes, light and dark.

Looked for: errors in the console, requests to anything but the hub, a page wider than its window, text over text, what
axe-core finds (WCAG A and AA, contrast among it), and whether all can be reached by the keyboard. The hub is the real
program with simulated hosts, and with hosts that are broken or mean harm.
"""

import argparse
import datetime
import gzip
import hashlib
import json
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from urllib.parse import quote

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

SIZES = {"390": (390, 844), "1280": (1280, 800), "2560": (2560, 1440)}
SCHEMES = ("light", "dark")

# What a page must show as it is, and never read as markup.
HOSTILE = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "'; DROP TABLE jobs; --",
    "</td></tr></table><h1>broken out</h1>",
    "javascript:alert(1)",
    "{{7*7}} ${7*7} %s%s%n",
    "=HYPERLINK(\"http://evil.example\")",
    "\u202egnp.exe \u200b\ufeff \x1b[31mred\x07",
    "a" * 190,
    "\u0645\u0631\u062d\u0628\u0627 \u4f60\u597d \U0001f980",
    "https://evil.example/" + "x" * 100,
    "&lt;b&gt; &amp; &#x27;",
]

ROLES = {
    "user": {"some": [{"user": "ann", "project": None, "host": None}]},
    "manager": {"some": [{"user": "bea", "project": None, "host": None}, {"user": None, "project": "genomics", "host": None}]},
    "operator": "all",
}
OF_OPERATORS = ("/audit", "/tokens")

failures = []


def failed(words):
    failures.append(words)
    print("FAILED", words, file=sys.stderr)


class Hub:
    """The program, with simulated hosts and with hostile ones."""

    def __init__(self, program, home, hosts):
        self.program, self.home, self.database = program, home, home / "hub.db"
        said = open(home / "log", "w+")
        self.process = subprocess.Popen(
            [program, "demo", "--dir", str(home), "--listen", "127.0.0.1:0", "--days", "5", "--hosts", str(hosts)],
            stdout=subprocess.PIPE, stderr=said, text=True,
        )
        link = self.process.stdout.readline().strip()
        if "/login?code=" not in link:
            raise SystemExit(f"the hub does not serve: {(home / 'log').read_text()}")
        self.url = link.split("/login")[0]

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=30)

    def token(self, host):
        made = [self.program, "token", "--database", f"sqlite:{self.database}", "--host", host]
        return subprocess.run(made, check=True, capture_output=True, text=True).stdout.strip()

    def post(self, path, token, value):
        body = gzip.compress(json.dumps(value).encode())
        head = {"Authorization": f"Bearer {token}", "Content-Type": "application/gzip"}
        with urllib.request.urlopen(urllib.request.Request(self.url + path, body, head)) as answer:
            return json.load(answer)

    def link(self, role):
        """A link that signs this role in: what hosts' signatures make of roles is tested elsewhere."""
        code = hashlib.sha256(f"{role} {time.time_ns()}".encode()).hexdigest()
        with sqlite3.connect(self.database, timeout=30) as database:
            database.execute(
                "INSERT INTO codes (hash, name, expires_us, via, access) VALUES (?, ?, ?, '', ?)",
                (hashlib.sha256(code.encode()).digest(), role, (int(time.time()) + 600) * 1_000_000, json.dumps(ROLES[role])),
            )
        return f"{self.url}/login?code={code}"

    def job_numbers(self, where, count=3):
        with sqlite3.connect(self.database, timeout=30) as database:
            return [row[0] for row in database.execute(f"SELECT id FROM jobs WHERE {where} ORDER BY id LIMIT {count}")]

    def last_run(self):
        """The last run of the simulated workflow."""
        with sqlite3.connect(self.database, timeout=30) as database:
            return database.execute("SELECT run FROM runs WHERE workflow = 'exome' ORDER BY begun_us DESC LIMIT 1").fetchone()[0]


def this_week():
    year, week, _ = datetime.date.today().isocalendar()
    return f"{year}-W{week:02}"


def report(job, name):
    end = time.time() - 3600
    point = {"time_s": end - 30, "cpu_cores": 0.5, "memory_bytes": 1 << 30, "cache_bytes": None, "swap_bytes": 0,
             "io_read_bytes": 0, "io_write_bytes": 0, "processes": 1, "threads": 1, "state": "running"}
    return {
        "version": 1, "job": job, "name": name, "command": [name, "--also", name], "user": name[:60], "project": name[:60],
        "state": "exited", "class": "primary", "priority": 10, "cpus": None, "submitted_s": end - 70, "started_s": end - 60,
        "ended_s": end, "exit_code": None, "signal": None, "reason": name,
        "comment": f"workflow=evil run=1 version={name}", "queued_s": 10.0, "wall_s": 60.0, "suspended_s": 0.0,
        "cpu_user_s": 7.0, "cpu_system_s": 0.0, "cores": 2, "claim_bytes": 4 << 30, "memory_peak_bytes": 1 << 30,
        "memory_mean_bytes": 1 << 29, "cache_peak_bytes": None, "swap_peak_bytes": 0, "virtual_peak_bytes": 1 << 31,
        "io_read_bytes": 0, "io_write_bytes": 0, "processes_total": 1, "processes_peak": 1, "threads_peak": 1, "samples": 2,
    }, [dict(point), dict(point, time_s=end - 10)]


def columns(points):
    return {key: [point[key] for point in points] for key in points[0]}


def hostile_hosts(hub):
    """A host whose words are markup, a host whose figures make no sense, and a host that was never heard."""
    evil = hub.token("evil")
    parts = []
    for job, name in enumerate(HOSTILE, 1):
        view, points = report(job, name)
        submitted = round(view["submitted_s"] * 1e6)
        view["submitted_s"] = submitted / 1e6
        acts = [{"time_s": view["started_s"], "action": name, "reason": name}]
        parts.append({"job": job, "submitted_us": submitted, "part": 0, "parts": 1, "head": {"report": view, "acts": acts},
                      "series": columns(points)})
    bundle = {"version": 1, "origin": "evil", "boot": "<b>", "made_us": 1, "parts": parts}
    assert hub.post("/api/v1/bundles", evil, bundle)["new"] == len(HOSTILE)

    def live(name, jobs, **figures):
        status = {"version": 1, "host": name, "mode": "v2", "reading": None, "jobs": jobs,
                  "slots": {"cores": 4, "factor": 1.5, "total": 6, "used": 1},
                  "memory": {"budget_bytes": 8 << 30, "held_bytes": 1 << 30, "swap_held_bytes": 0, "pressure_full_avg10": None}}
        status.update(figures)
        spool = {"bundles": 3, "bytes": 1 << 20, "max_bytes": 1 << 28, "jobs_waiting": 7, "refused": 2}
        return {"version": 1, "boot": name, "sent_us": 1, "status": status, "spool": spool}

    jobs = [{"job": job, "name": name, "user": name[:60], "project": None, "state": "running", "class": "primary", "priority": 10,
             "cpus": None, "memory_bytes": (job + 1) << 46, "swap_bytes": None, "pids": [], "submitted_s": 1.0, "started_s": 2.0,
             "ended_s": None, "exit_code": None, "signal": None, "reason": name} for job, name in enumerate(HOSTILE, 1)]
    hub.post("/api/v1/live", evil, live("<i>evil</i>", jobs, warnings=HOSTILE))
    # As large as a hub takes them.
    huge = 2**50
    broken = live("broken", [], slots={"cores": 0, "factor": 0.0, "total": 0, "used": huge},
                  memory={"budget_bytes": 0, "held_bytes": huge, "swap_held_bytes": huge, "pressure_full_avg10": 1.001})
    hub.post("/api/v1/live", hub.token("a-host-with-quite-a-long-name.of-a-department.example.org"), broken)
    hub.token("never-heard")


def views(hub, role):
    """Addresses of this role, by the names of their screenshots."""
    own = {"user": "\"user\" = 'ann'", "manager": "project = 'genomics'", "operator": "name = 'spades'"}[role]
    found = {
        "hosts": "/",
        "hosts-cards": "/?cards=true&sort=memory",
        "host": "/hosts/node001",
        "jobs": "/jobs",
        "jobs-filtered": "/jobs?name=s*&sort=memory_peak_bytes&days=365&figures=" + quote("wall_s>1min"),
        "jobs-none": "/jobs?name=nothing-of-that-name",
        "job": f"/jobs/{hub.job_numbers(own)[0]}",
        "classes": "/classes",
        "weeks": "/classes/weeks?name=spades",
        "weeks-all": "/classes/weeks?name=*",
        "weeks-none": "/classes/weeks?name=nothing-of-that-name",
        "weeks-unnamed": "/classes/weeks",
        "compare": "/compare?" + "&".join(f"job={number}" for number in hub.job_numbers(own)),
        "compare-one": "/compare?job=1",
        "workflows": "/workflows",
        "week": "/weekly?week=" + this_week(),
        "week-none": "/weekly?week=1999-W01",
        "users": "/users",
        "projects": "/projects",
        "wrong": "/jobs?figures=" + quote("no_such_figure>1"),
        "not-there": "/jobs/999999999",
    }
    # Of ann, and of the project genomics.
    found["run"] = "/workflows/run?workflow=exome&user=ann&run=" + hub.last_run()
    if role == "operator":
        keys = re.findall(r'name="col" value="(\w+)"', page_of(hub, role))
        found |= {
            "jobs-all-columns": "/jobs?" + "&".join(f"col={key}" for key in keys),
            "compare-hostile": "/compare?" + "&".join(f"job={number}" for number in hub.job_numbers("name LIKE '%alert%' OR name LIKE 'aaa%'")),
            "compare-six": "/compare?" + "&".join(f"job={number}" for number in hub.job_numbers("name = 'spades'", 6)),
            "workflows-hostile": "/workflows?host=evil",
            "run-hostile": "/workflows/run?workflow=evil&run=1&user=" + quote(HOSTILE[0][:60]),
            "weeks-hostile": "/classes/weeks?host=evil&name=" + quote(HOSTILE[0][:60]),
            "week-hostile": "/weekly?week=" + this_week() + "&user=" + quote(HOSTILE[0][:60]),
            "jobs-hostile": "/jobs?host=evil",
            "job-hostile": f"/jobs/{hub.job_numbers(chr(34) + 'user' + chr(34) + ' LIKE ' + chr(39) + '<script%' + chr(39))[0]}",
            "audit": "/audit",
            "tokens": "/tokens",
        }
    return found


pages = {}
only = set()


def page_of(hub, role):
    return pages[role]


# In a page: what is wider than the window, and words that lie over other words.
LAYOUT = """() => {
  const found = [];
  const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  if (wide > 0) {
    const who = [...document.querySelectorAll('body *')].filter(one => !one.closest('.scroll') || one.matches('.scroll'))
      .filter(one => one.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
      .map(one => one.tagName + '.' + one.className).slice(0, 5);
    found.push(`the page is ${wide} px wider than the window: ${who.join(', ')}`);
  }
  const boxes = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (!node.data.trim() || node.parentElement.closest('.skip, option, svg, script, style, details:not([open]) > :not(summary)')) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const box of range.getClientRects()) {
      if (box.width < 2 || box.height < 2) continue;
      // As far as its own box lets it be seen.
      let [left, right] = [box.left, box.right];
      for (let up = node.parentElement; up; up = up.parentElement) {
        if (getComputedStyle(up).overflowX !== 'visible') {
          const bound = up.getBoundingClientRect();
          [left, right] = [Math.max(left, bound.left), Math.min(right, bound.right)];
        }
      }
      if (right - left > 2) boxes.push({ left, right, top: box.top + 2, bottom: box.bottom - 2, text: node.data.trim().slice(0, 30), node });
    }
  }
  for (let a = 0; a < boxes.length && found.length < 5; a++) {
    for (let b = a + 1; b < boxes.length; b++) {
      const [x, y] = [boxes[a], boxes[b]];
      if (x.node !== y.node && x.left + 1 < y.right && y.left + 1 < x.right && x.top < y.bottom && y.top < x.bottom) {
        found.push(`"${x.text}" lies over "${y.text}"`);
        break;
      }
    }
  }
  return found;
}"""


# Views whose tables have room for all their columns with names of usual length, and at which sizes.
WHOLE = dict.fromkeys(("hosts", "host", "jobs", "classes", "users", "projects", "workflows", "week"), ("390", "1280"))

CUT = """() => [...document.querySelectorAll('.scroll')].filter(one => one.scrollWidth > one.clientWidth + 1)
  .map(one => `the table "${one.getAttribute('aria-label')}" is ${one.scrollWidth} px wide in ${one.clientWidth}`)"""


def watched(context, hub, where):
    """A page whose errors and requests are looked at."""
    page = context.new_page()
    # A busy machine draws slowly.
    page.set_default_timeout(180_000)

    def said(message):
        # A status that is shown to people as a page of its own is told there as well.
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            failed(f"{where()}: console: {message.text}")

    page.on("console", said)
    page.on("pageerror", lambda error: failed(f"{where()}: {error}"))
    page.on("dialog", lambda dialog: (failed(f"{where()}: a dialog: {dialog.message}"), dialog.dismiss()))
    page.on("request", lambda request: request.url.startswith((hub.url + "/", "data:")) or failed(f"{where()}: asked {request.url}"))
    return page


def look_at(hub, browser, out, role):
    print(f"{role} ...", flush=True)
    for scheme in SCHEMES:
        context = browser.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 800})
        at = [""]
        page = watched(context, hub, lambda: f"{role} {scheme} {at[0]}")
        page.goto(hub.link(role))
        if scheme == "light":
            shot(page, out, f"{role}-sign-in", "1280", scheme, at)
        page.get_by_role("button").first.click()
        try:
            page.wait_for_url(hub.url + "/")
        except Exception:
            raise SystemExit(f"{role}: nobody is signed in: {page.url}: {page.inner_text('body')}")
        page.goto(hub.url + "/jobs")
        pages[role] = page.content()
        for name, address in views(hub, role).items():
            if only and name not in only:
                continue
            answer = page.goto(hub.url + address)
            want = {"wrong": 400, "compare-one": 400, "not-there": 404}.get(name, 200)
            at[0] = name
            if answer.status != want:
                failed(f"{role} {name}: {answer.status}, not {want}")
            for size in SIZES if role == "operator" and scheme == "light" else ("390", "1280"):
                shot(page, out, f"{role}-{name}", size, scheme, at)
            text = page.inner_text("body")
            if role == "user" and ("genomics\n" in text and "bo\t" in text):
                failed(f"{role} {name}: sees others' jobs")
            if page.locator("main script, main img[onerror], main h1 ~ h1").count():
                failed(f"{role} {name}: words became markup")
        for path in OF_OPERATORS:
            status = page.goto(hub.url + path).status
            if (status == 200) != (role == "operator"):
                failed(f"{role} {path}: {status}")
        if role == "operator" and scheme == "light":
            hostile(page, hub)
            keyboard(page, hub)
        context.close()


def until(page, holds):
    """Waits for a function of the page's. Playwright's own wait evaluates its text in the page, which the page forbids."""
    end = time.monotonic() + 30
    while not page.evaluate(holds):
        if time.monotonic() > end:
            raise TimeoutError(f"not within 30 s: {holds}")
        time.sleep(0.05)


def shot(page, out, name, size, scheme, at):
    width, height = SIZES[size]
    page.set_viewport_size({"width": width, "height": height})
    at[0] = f"{name} at {size}"
    page.wait_for_load_state("networkidle")
    # Another size may want another picture, which comes a moment later.
    page.evaluate("() => new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
    until(page, "() => [...document.images].every(one => one.complete || one.loading === 'lazy')")
    page.screenshot(path=out / f"{name}-{size}-{scheme}.png", full_page=size != "2560")
    for words in page.evaluate(LAYOUT):
        failed(f"{name} {size} {scheme}: {words}")
    if size in WHOLE.get(name.removeprefix("manager-"), ()):
        for words in page.evaluate(CUT):
            failed(f"{name} {size} {scheme}: {words}")
    if size == "2560":
        return
    options = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}
    for violation in Axe().run(page, options=options).response["violations"]:
        nodes = [node["html"][:120] + " " + " ".join(node.get("failureSummary", "").split())[:200] for node in violation["nodes"][:2]]
        failed(f"{name} {size} {scheme}: {violation['id']}: {violation['help']}: {nodes}")


def hostile(page, hub):
    """Each word is on the page as text, but for signs that nobody sees, which are shown as `?`."""
    page.goto(hub.url + "/jobs?host=evil&col=name&col=user&limit=50")
    names = page.locator("tbody td.name").all_inner_texts()
    for name in HOSTILE:
        seen = re.sub("[\x00-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]", "?", name)
        if not any(seen.split()[0] in shown for shown in names):
            failed(f"hostile: {name!r} is not shown; {names}")


def keyboard(page, hub):
    """From the top of a page to a job, to a sorted list, to the next view, and out, without a mouse."""
    page.goto(hub.url + "/jobs")
    page.keyboard.press("Tab")
    if "To the view" not in page.evaluate("document.activeElement.textContent"):
        failed("keyboard: the way past the head is not the first")
    seen, looks = set(), "one => { const style = getComputedStyle(one); return style.outlineStyle + ' ' + style.outlineWidth }"
    for _ in range(400):
        element = page.evaluate_handle("document.activeElement").as_element()
        key = page.evaluate("one => one.outerHTML.slice(0, 200)", element)
        if key.startswith("<body"):
            break
        if page.evaluate(looks, element).startswith("none"):
            failed(f"keyboard: it is not seen where one is: {key}")
        box = element.bounding_box()
        if box is None or box["width"] < 1:
            failed(f"keyboard: one is at what is not shown: {key}")
        seen.add(key)
        page.keyboard.press("Tab")
    for wanted in ('name="job"', "Compare those", 'href="/classes"', 'name="name"', "summary", "sort=wall_s", 'href="/jobs/', "jobs.csv", "Sign out"):
        if not any(wanted in key for key in seen):
            failed(f"keyboard: {wanted} is not reached")
    # A form is sent, and a link followed, by Enter.
    page.goto(hub.url + "/jobs")
    page.focus("input[name=name]")
    page.keyboard.type("spades")
    page.keyboard.press("Enter")
    page.wait_for_url("**name=spades**")
    page.focus("tbody a[href^='/jobs/']")
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs/*")
    # Jobs are compared without a pointer.
    page.goto(hub.url + "/jobs?name=spades")
    for at in (0, 1):
        page.locator("input[name=job]").nth(at).focus()
        page.keyboard.press("Space")
    page.get_by_role("button", name="Compare those").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/compare?job=*")
    # What scrolls can be scrolled.
    page.set_viewport_size({"width": 640, "height": 740})
    page.goto(hub.url + "/jobs")
    page.focus(".scroll")
    page.keyboard.press("ArrowRight")
    until(page, "() => document.querySelector('.scroll').scrollLeft > 0")
    page.focus("form.who button")
    page.keyboard.press("Enter")
    page.wait_for_url("**/login")


def main():
    options = argparse.ArgumentParser()
    for name in ("--hub", "--chromium", "--out"):
        options.add_argument(name, required=True)
    options.add_argument("--hosts", type=int, default=5, help="simulated hosts")
    options.add_argument("--only", default="", help="names of views, separated by commas")
    args = options.parse_args()
    only.update(name for name in args.only.split(",") if name)
    out = Path(args.out)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="pinfold-hub-browser-") as home, sync_playwright() as playwright:
        hub = Hub(args.hub, Path(home), args.hosts)
        try:
            hostile_hosts(hub)
            until = time.time() + 300
            while len(hub.job_numbers("name = 'spades'")) < 3 or len(hub.job_numbers("project = 'genomics'")) < 3:
                if time.time() > until:
                    raise SystemExit("the simulated hosts push nothing")
                time.sleep(0.2)
            browser = playwright.chromium.launch(executable_path=args.chromium, args=["--no-sandbox"])
            print(f"Chromium {browser.version}", flush=True)
            for role in ROLES:
                look_at(hub, browser, out, role)
            browser.close()
        finally:
            hub.stop()
    print(f"{len(list(out.glob('*.png')))} screenshots in {out}; {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
