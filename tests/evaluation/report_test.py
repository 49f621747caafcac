"""The report in a real browser, on a desk and on a phone."""

import html
import json
import re
import shutil
import subprocess

import matplotlib.image
import pytest

from s2d_tf import evaluation, paper

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
  parent.postMessage({width, images: images.length, problems,
                      scroll: document.documentElement.scrollWidth,
                      height: document.documentElement.scrollHeight}, "*");
});
</script>
"""
# Chromium's own window is never narrower than 500 pixels; a frame can be.
FRAME = """<!doctype html><body style="margin:0"><pre id="seen"></pre>
<script>addEventListener("message", e => {{
  document.getElementById("seen").textContent = JSON.stringify(e.data); }});</script>
<iframe src="probed.html" style="border:0;width:{width}px;height:3000px"></iframe>"""


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
    sections = paper.report_sections
    return evaluation.write_report(evaluated[0], folder, log=lambda _: None, sections=sections)


def browse(chromium, url, profile, *flags):
    return subprocess.run(
        [chromium, *FLAGS, f"--user-data-dir={profile}", *flags, f"file://{url}"],
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_missing_wrong_or_too_wide(chromium, page, tmp_path, width):
    text = page.read_text(encoding="utf-8")
    (tmp_path / "probed.html").write_text(text.replace("<style>", PROBE + "<style>", 1), "utf-8")
    frame = tmp_path / "frame.html"
    frame.write_text(FRAME.format(width=width), "utf-8")
    done = browse(chromium, frame, tmp_path / "profile", "--dump-dom", "--window-size=1400,3000")
    (seen,) = re.findall(r'<pre id="seen">(.+?)</pre>', done.stdout)
    seen = json.loads(html.unescape(seen))
    assert seen["problems"] == []
    assert seen["width"] == width
    assert seen["scroll"] <= width
    assert seen["images"] == text.count("<img ") > 5
    assert seen["height"] > 2000
    assert "CONSOLE" not in done.stderr


@pytest.mark.slow
def test_it_prints(chromium, page, tmp_path):
    path = tmp_path / "report.pdf"
    browse(chromium, page, tmp_path / "profile", f"--print-to-pdf={path}")
    pdf = path.read_bytes()
    assert pdf.startswith(b"%PDF")
    assert pdf.count(b"/Subtype /Image") > 5


@pytest.mark.slow
def test_it_is_not_a_blank_sheet(chromium, page, tmp_path):
    path = tmp_path / "shot.png"
    browse(chromium, page, tmp_path / "profile", "--window-size=1280,2000", f"--screenshot={path}")
    image = matplotlib.image.imread(path)
    assert image.shape[:2] == (2000, 1280)
    assert image[..., :3].mean() > 0.8  # Mostly paper,
    assert (image[..., :3].min(axis=-1) < 0.4).mean() > 0.005  # with ink on it.
