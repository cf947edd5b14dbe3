#!/usr/bin/env python3
"""HTML reports of many recordings in headless Chromium: do they load, how fast, and does axe-core find anything?

usage: html_pages.py GPUWHY AXE_JS RECORDING...

AXE_JS is axe.min.js of the npm package axe-core. Needs Chromium, chromedriver and Selenium (scripts/install-deps test). Prints a
line for each page with a complaint of the browser, a violation or a load of more than a second, then the sum. Exit 1 when there
is one.
"""
import os
import subprocess
import sys
import tempfile

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

AXE = ("const done = arguments[arguments.length - 1];"
       "for (const e of document.querySelectorAll('details')) e.open = true;"
       "axe.run(document, {resultTypes: ['violations']}).then(r => done(r.violations.map(v => v.id + ': ' + v.nodes.length)))")


def browser():
    o = webdriver.ChromeOptions()
    for a in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        o.add_argument(a)
    o.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=o)


def main():
    if len(sys.argv) < 4:
        print(__doc__.split("\n\n")[1])
        return 2
    with open(sys.argv[2], encoding="utf-8") as f:
        axe = f.read()
    d, loads, bad, refused = browser(), [], 0, 0
    with tempfile.TemporaryDirectory() as folder:
        page = os.path.join(folder, "page.html")
        for recording in sys.argv[3:]:
            if os.path.exists(page):
                os.remove(page)
            subprocess.run([sys.argv[1], "read", "--quiet", "--html", page, recording], stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, check=False)
            if not os.path.exists(page):
                refused += 1
                continue
            d.get("file://" + page)
            complaints = [e["message"] for e in d.get_log("browser")]
            loads.append(d.execute_script("return performance.getEntriesByType('navigation')[0].loadEventEnd"))
            d.execute_cdp_cmd("Runtime.evaluate", {"expression": axe})
            violations = d.execute_async_script(AXE)
            if complaints or violations or loads[-1] > 1000:
                bad += 1
                print(f"{recording}: {loads[-1]:.0f} ms {violations} {complaints[:1]}", flush=True)
    d.quit()
    loads.sort()
    print(f"{len(loads)} pages, {refused} recordings refused, {bad} with something to mend; loaded in {loads[len(loads) // 2]:.0f} ms "
          f"(median), {loads[-1]:.0f} ms at most" if loads else "no page was made")
    return 1 if bad or not loads else 0


if __name__ == "__main__":
    sys.exit(main())
