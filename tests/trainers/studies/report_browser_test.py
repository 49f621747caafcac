"""The report in a real browser, on a desk and on a phone, by day and by night."""

import html
import json
import re
import shutil
import subprocess

import pytest

from s2d_tf.trainers import studies
from tests.trainers.studies.report_look_test import contrast, luminance

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--enable-logging=stderr", "--virtual-time-budget=20000",
)  # fmt: skip
# Runs inside the page when all is loaded, and tells the page around it what it sees.
PROBE = """
<script>
const problems = [];
addEventListener("error", e => problems.push("error " + e.message), true);
function hex(color) {
  const [r, g, b] = color.match(/[0-9.]+/g).map(Number);
  return "#" + [r, g, b].map(each => each.toString(16).padStart(2, "0")).join("");
}
function ground(element) {
  const color = getComputedStyle(element).backgroundColor;
  return color.endsWith(", 0)") ? ground(element.parentElement) : hex(color);
}
function isShown(element) {
  const box = element.getBoundingClientRect();
  return box.width > 0 && box.height > 0 && getComputedStyle(element).visibility === "visible";
}
function texts() {
  const found = {};
  for (const element of document.body.querySelectorAll("*")) {
    const own = [...element.childNodes].filter(n => n.nodeType === 3 && n.data.trim());
    if (!own.length || !isShown(element)) continue;
    const style = getComputedStyle(element);
    const seen = [hex(style.color), ground(element), parseFloat(style.fontSize)];
    found[seen] = [...seen, `${element.tagName} ${own[0].data.trim().slice(0, 40)}`];
  }
  return Object.values(found);
}
addEventListener("load", () => {
  const width = innerWidth, images = [...document.images];
  for (const image of images)
    if (!image.complete || !image.naturalWidth) problems.push("image missing: " + image.alt);
  for (const element of document.body.querySelectorAll("*")) {
    const box = element.getBoundingClientRect();
    if (box.right > width + 1 && !element.closest(".scroll, nav"))
      problems.push(`${element.tagName} ${element.className} ends at ${box.right} of ${width}`);
    if (box.width && element.scrollWidth > element.clientWidth + 1
        && getComputedStyle(element).overflowX === "hidden")
      problems.push(`${element.tagName} is cut`);
  }
  parent.postMessage({
    width, problems, texts: texts(),
    images: images.length,
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
    paper: ground(document.body),
    scroll: document.documentElement.scrollWidth,
    height: document.documentElement.scrollHeight,
  }, "*");
});
</script>
"""
# Chromium's own window is never narrower than 500 pixels; a frame can be.
FRAME = """<!doctype html><body style="margin:0"><pre id="seen"></pre>
<script>addEventListener("message", e => {{
  document.getElementById("seen").textContent = JSON.stringify(e.data); }});</script>
<iframe src="probed.html" style="border:0;width:{width}px;height:3000px"></iframe>"""
DESK, PHONE = 1280, 390
NIGHT = "--force-dark-mode"


@pytest.fixture(scope="module")
def chromium():
    for name in ("chromium", "chromium-browser", "google-chrome", "chrome"):
        if path := shutil.which(name):
            return path
    pytest.skip("needs Chromium on the PATH (Debian: apt-get install chromium)")


@pytest.fixture(scope="module")
def page(chromium, evaluated, tmp_path_factory):
    """A report of evaluated runs whose networks are untrained."""
    folder = tmp_path_factory.mktemp("report")
    return studies.write_report(evaluated[0], folder, log=lambda _: None)


def browse(chromium, url, profile, *flags):
    return subprocess.run(
        [chromium, *FLAGS, f"--user-data-dir={profile}", *flags, f"file://{url}"],
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip


@pytest.fixture(scope="module")
def see(chromium, page, tmp_path_factory):
    """`see(width, *flags)`: what the probe finds in the page, looked at once."""
    known = {}

    def run(width, *flags):
        if (width, flags) not in known:
            folder = tmp_path_factory.mktemp("seen")
            text = page.read_text(encoding="utf-8").replace("<style>", PROBE + "<style>", 1)
            (folder / "probed.html").write_text(text, "utf-8")
            frame = folder / "frame.html"
            frame.write_text(FRAME.format(width=width), "utf-8")
            flags_of_all = ("--dump-dom", "--window-size=1400,3000", *flags)
            done = browse(chromium, frame, folder / "profile", *flags_of_all)
            assert "CONSOLE" not in done.stderr
            (seen,) = re.findall(r'<pre id="seen">(.+?)</pre>', done.stdout, re.DOTALL)
            known[width, flags] = json.loads(html.unescape(seen))
        return known[width, flags]

    return run


@pytest.mark.slow
@pytest.mark.parametrize("width", [DESK, PHONE])
def test_nothing_is_missing_wrong_or_too_wide(see, page, width):
    seen = see(width)
    assert seen["problems"] == []
    assert seen["width"] == width
    assert seen["scroll"] <= width
    assert seen["images"] == page.read_text(encoding="utf-8").count("<img ") > 5
    assert seen["height"] > 2000


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), (NIGHT,)], ids=["day", "night"])
def test_every_text_can_be_read_by_day_and_by_night(see, flags):
    seen = see(DESK, *flags)
    assert seen["dark"] == bool(flags)
    assert luminance(seen["paper"]) < 0.05 if flags else luminance(seen["paper"]) > 0.9
    assert len(seen["texts"]) > 5
    for color, ground, size, where in seen["texts"]:
        assert contrast(color, ground) >= 4.5, where
        assert size >= 11, where


@pytest.mark.slow
def test_it_prints(chromium, page, tmp_path):
    path = tmp_path / "report.pdf"
    browse(chromium, page, tmp_path / "profile", f"--print-to-pdf={path}")
    pdf = path.read_bytes()
    assert pdf.startswith(b"%PDF")
    assert pdf.count(b"/Subtype /Image") > 5
