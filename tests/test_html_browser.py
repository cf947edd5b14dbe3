#!/usr/bin/env python3
"""HTML reports in a real browser: headless Chromium, driven by Selenium; axe-core looks for what shuts people out.

usage: test_html_browser.py GPUWHY REPORT_SAMPLES ROOT FOLDER
FOLDER is where axe-core is kept between runs. Skipped (77) without Chromium, its driver or Selenium; without axe-core,
which npm fetches, only that check is skipped. Nothing here fails on the speed of the machine but by an order of magnitude.
"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

if sys.argv[1:] and not os.environ.get("GW_SELENIUM_TRIED"):
    try:
        import selenium  # noqa: F401
    except ImportError:  # Debian's package is for Debian's Python
        if os.path.exists("/usr/bin/python3") and os.path.realpath(sys.executable) != os.path.realpath("/usr/bin/python3"):
            os.execve("/usr/bin/python3", ["/usr/bin/python3"] + sys.argv, {**os.environ, "GW_SELENIUM_TRIED": "1"})


def skip(why):
    print("skipped: " + why)
    sys.exit(77)


try:
    from selenium import webdriver
    from selenium.common.exceptions import WebDriverException
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:
    skip("Selenium for Python is not there (Debian: python3-selenium)")

import html_pages

GPUWHY, SAMPLES, ROOT, FOLDER = sys.argv[1:5]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
if not CHROMIUM or not DRIVER:
    skip("Chromium or its driver is not there (Debian: chromium, chromium-driver)")


def axe_source():
    """axe-core, fetched once; None when it cannot be had."""
    found = glob.glob(os.path.join(FOLDER, "node_modules/axe-core/axe.min.js"))
    npm = shutil.which("npm")
    if not found and npm:
        os.makedirs(FOLDER, exist_ok=True)
        for f in ("package.json", "package-lock.json"):
            shutil.copy(os.path.join(ROOT, "web", f), FOLDER)
        try:
            subprocess.run([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--fetch-retries=0"], cwd=FOLDER,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60)
        except subprocess.TimeoutExpired:
            pass
        found = glob.glob(os.path.join(FOLDER, "node_modules/axe-core/axe.min.js"))
    return html_pages.read(found[0]) if found else None


def browser(folder):
    o = Options()
    o.binary_location = CHROMIUM
    for a in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1200,900",
              "--disable-background-networking", "--no-first-run", "--user-data-dir=" + os.path.join(folder, "profile")):
        o.add_argument(a)
    o.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(service=Service(DRIVER), options=o)


class TestBrowser(unittest.TestCase):
    d = None  # the browser, one for all

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.pages = html_pages.make(GPUWHY, SAMPLES, ROOT, cls.folder.name)
        cls.axe = axe_source()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def setUp(self):
        self.media()
        self.d.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    def media(self, kind="", **features):
        features.setdefault("prefers_reduced_motion", "reduce")  # clicks must not chase what still scrolls
        f = [{"name": k.replace("_", "-"), "value": v} for k, v in features.items()]
        self.d.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": kind, "features": f})

    def js(self, code, *args):
        return self.d.execute_script(code, *args)

    def open(self, name):
        """Loads a page; ms until it had loaded. Fails on anything that the browser complains of."""
        self.d.get("file://" + self.pages[name])
        self.js("return document.fonts && document.fonts.status")
        complaints = [e["message"] for e in self.d.get_log("browser")]
        self.assertEqual(complaints, [], name)
        return self.js("const n = performance.getEntriesByType('navigation')[0]; return n.loadEventEnd")

    def settle(self):
        """Until what was asked to be drawn is drawn."""
        self.d.execute_async_script("const f = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(f))")

    def app(self):
        return self.d.find_element(By.CSS_SELECTOR, "#tl .view")

    def panel(self):
        return self.d.find_element(By.CSS_SELECTOR, "#tl .detail").text

    # ---- every page ----

    def test_pages_load(self):
        for name in self.pages:
            with self.subTest(page=name):
                ms = self.open(name)
                size = os.path.getsize(self.pages[name])
                print(f"{name:22} {size / 1000:7.0f} kB {ms:6.0f} ms")
                self.assertLess(ms, 5000)
                self.assertEqual(self.js("return performance.getEntriesByType('resource').length"), 0)
                self.assertIsNone(self.js("return window.pwned || null"))

    def test_nobody_is_shut_out(self):
        if not self.axe:
            self.skipTest("axe-core could not be fetched (npm and a network are needed): accessibility is not checked")
        run = ("const done = arguments[arguments.length - 1]; for (const e of document.querySelectorAll('details')) e.open = true;"
               "axe.run(document, {resultTypes: ['violations']}).then(r => done(r.violations.map(v => v.id + ': ' + v.nodes.length + 'x '"
               " + v.nodes[0].html.slice(0, 150) + ' ' + v.nodes[0].failureSummary.slice(0, 250))))")
        for name, scheme in (("item_sync", "light"), ("item_sync", "dark"), ("diff", "light"), ("check", "dark"),
                             ("made-two-devices", "light"), ("hostile", "dark")):
            if name not in self.pages:
                continue
            with self.subTest(page=name, scheme=scheme):
                self.media(prefers_color_scheme=scheme)
                self.open(name)
                self.d.execute_cdp_cmd("Runtime.evaluate", {"expression": self.axe})
                self.assertEqual(self.d.execute_async_script(run), [])

    def test_phone(self):
        self.d.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True})
        for name in self.pages:
            with self.subTest(page=name):
                self.open(name)
                self.js("for (const e of document.querySelectorAll('details')) e.open = true")
                self.settle()
                self.assertLessEqual(self.js("return document.documentElement.scrollWidth"), 390)

    # ---- the timeline ----

    def test_idle_spans_say_what_they_waited_for(self):
        self.open("item_sync")
        # the longest idle span of the steady part, by where it is on the canvas
        at = self.js("""const g = document.getElementById('tl').gpuwhy, l = g.lanes[0], v = g.view(); let b = -1;
            for (let i = 0; i < l.n; i++) if (!l.many.has(i) && l.start[i] > v[0] && l.end[i] < v[1] && (b < 0 || l.ns[i] > l.ns[b])) b = i;
            return [(g.x(l.start[b]) + g.x(l.end[b])) / 2, l.y + l.h / 2, b, l.ns[b]]""")
        canvas = self.d.find_element(By.CSS_SELECTOR, "#tl canvas")
        self.js("arguments[0].scrollIntoView({block: 'center'})", canvas)
        box = canvas.size
        ActionChains(self.d).move_to_element_with_offset(canvas, int(at[0] - box["width"] / 2), int(at[1] - box["height"] / 2)).click().perform()
        self.settle()
        self.assertEqual(self.js("return document.getElementById('tl').gpuwhy.selected()"), at[2])
        for words in ("idle for", "The host is in", "Ended by", "Issued by"):
            self.assertIn(words, self.panel())
        self.assertFalse(self.js("return document.querySelector('#tl .tip').hidden"))

    def test_the_table_leads_to_the_timeline(self):
        self.open("slow_read")
        self.js("document.querySelectorAll('#timeline details').forEach(e => e.open = true)")
        row = self.d.find_element(By.CSS_SELECTOR, "tr[data-gap]")
        row.find_element(By.CSS_SELECTOR, "button").click()
        self.settle()
        self.assertEqual(self.js("return document.getElementById('tl').gpuwhy.selected()"), int(row.get_attribute("data-gap")))
        self.assertIn("waiting for the data loader", self.panel())

    def test_keys(self):
        self.open("item_sync")
        app = self.app()
        view = lambda: self.js("return document.getElementById('tl').gpuwhy.view()")
        whole = self.js("return [0, JSON.parse(document.getElementById('gw-timeline').textContent).length]")
        app.send_keys(Keys.HOME)
        self.assertEqual(view(), whole)
        app.send_keys("+")
        half = view()
        self.assertAlmostEqual(half[1] - half[0], whole[1] / 2, delta=2)
        app.send_keys(Keys.ARROW_RIGHT)
        self.assertGreater(view()[0], half[0])
        app.send_keys("-", "-")
        self.assertEqual(view(), whole)
        app.send_keys("n")
        first = self.js("return document.getElementById('tl').gpuwhy.selected()")
        self.assertGreaterEqual(first, 0)
        self.assertIn("idle for", self.panel())
        app.send_keys("n")
        self.assertGreater(self.js("return document.getElementById('tl').gpuwhy.selected()"), first)
        app.send_keys("p")
        self.assertEqual(self.js("return document.getElementById('tl').gpuwhy.selected()"), first)
        app.send_keys(Keys.ESCAPE)
        self.assertEqual(self.panel(), "")

    def test_it_can_be_reached_by_tab(self):
        self.open("item_sync")
        body = self.d.find_element(By.TAG_NAME, "body")
        body.send_keys(Keys.TAB)
        self.assertIn("skip", self.js("return document.activeElement.className"))
        for _ in range(60):
            self.d.switch_to.active_element.send_keys(Keys.TAB)
            if self.js("return document.activeElement.className") == "view":
                break
        self.assertEqual(self.js("return [document.activeElement.className, document.activeElement.getAttribute('role')]"), ["view", "application"])
        self.assertTrue(self.js("return document.activeElement.getAttribute('aria-label').length > 20"))

    def test_wheel_and_drag(self):
        self.open("item_sync")
        canvas = self.d.find_element(By.CSS_SELECTOR, "#tl canvas")
        self.js("arguments[0].scrollIntoView({block: 'center'})", canvas)
        width = lambda: self.js("const v = document.getElementById('tl').gpuwhy.view(); return v[1] - v[0]")
        start = lambda: self.js("return document.getElementById('tl').gpuwhy.view()[0]")
        before = width()
        self.js("arguments[0].dispatchEvent(new WheelEvent('wheel', {deltaY: -200, ctrlKey: true, bubbles: true, cancelable: true, "
                "clientX: arguments[0].getBoundingClientRect().x + 500}))", canvas)
        self.assertLess(width(), before * 0.6)
        at = start()
        ActionChains(self.d).move_to_element(canvas).click_and_hold().move_by_offset(-120, 0).release().perform()
        self.assertGreater(start(), at)

    # ---- the rest ----

    def test_copy(self):
        self.open("item_sync")
        b = self.d.find_element(By.CSS_SELECTOR, ".fix .do .copy")
        self.js("arguments[0].scrollIntoView({block: 'center'})", b)
        b.click()
        end = time.time() + 5
        while b.text == "Copy" and time.time() < end:
            time.sleep(0.05)
        self.assertEqual(b.text, "Copied")

    def test_hostile_names_are_inert(self):
        for name in ("hostile", "made-hostile"):
            self.open(name)
            self.js("for (const e of document.querySelectorAll('details')) e.open = true")
            if name == "hostile":
                for _ in range(8):
                    self.app().send_keys("n")
                self.assertIn("idle for", self.panel())
            self.assertIsNone(self.js("return window.pwned || null"))
            self.assertEqual(self.js("return document.images.length"), 0)
            self.assertEqual(self.js("return document.querySelectorAll('[onerror],[onload],iframe,object,embed,form').length"), 0)

    def test_print(self):
        self.open("item_sync")
        self.media("print")
        shown = lambda s: self.js("return getComputedStyle(document.querySelector(arguments[0])).display !== 'none'", s)
        self.assertEqual([shown("#tl"), shown("#plot"), shown("nav")], [False, False, False])
        self.assertEqual([shown("#tl-static"), shown("#plot-static")], [True, True])
        self.assertTrue(self.d.execute_cdp_cmd("Page.printToPDF", {})["data"].startswith("JVBER"))

    def test_without_script(self):
        self.d.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
        try:
            self.d.get("file://" + self.pages["item_sync"])
            self.assertIn("Your GPU waits", self.d.find_element(By.TAG_NAME, "h1").text)
            self.assertTrue(self.d.find_element(By.CSS_SELECTOR, "#tl-static svg").is_displayed())
            self.assertFalse(self.d.find_element(By.ID, "tl").is_displayed())
        finally:
            self.d.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})

    def test_themes(self):
        back = {}
        for scheme in ("light", "dark"):
            self.media(prefers_color_scheme=scheme)
            self.open("item_sync")
            back[scheme] = self.js("return getComputedStyle(document.body).backgroundColor")
        self.assertNotEqual(back["light"], back["dark"])

    def test_less_motion(self):
        self.open("item_sync")
        scroll = lambda: self.js("return getComputedStyle(document.documentElement).scrollBehavior")
        self.media(prefers_reduced_motion="reduce")
        self.assertEqual(scroll(), "auto")
        self.media(prefers_reduced_motion="no-preference")
        self.assertEqual(scroll(), "smooth")


if __name__ == "__main__":
    sys.argv[1:] = []
    with tempfile.TemporaryDirectory() as home:
        try:
            TestBrowser.d = browser(home)
        except WebDriverException as e:
            skip("Chromium does not start here: " + str(e).strip().splitlines()[0])
        try:
            unittest.main(verbosity=1)
        finally:
            TestBrowser.d.quit()
