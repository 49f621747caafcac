"""The report in a real browser, on a desk and on a phone, by day and by night."""

import html
import json
import re
import shutil
import subprocess

import matplotlib.image
import pytest
from tests.evaluation.report_look_test import contrast, luminance

from s2d_tf import evaluation
from s2d_tf.evaluation import drawing
from s2d_tf.trainers import studies as paper

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
function cells(row) {
  return [...row.cells].map(cell => {
    const mark = cell.querySelector("b.overall"), style = mark && getComputedStyle(mark);
    return {text: cell.innerText, span: cell.colSpan, scope: cell.getAttribute("scope"),
            header: cell.tagName === "TH",
            marked: !!mark && style.textDecorationLine === "underline" && style.fontWeight >= 600};
  });
}
function tables() {
  return [...document.querySelectorAll("table")].map(table => ({
    caption: table.caption && isShown(table.caption) ? table.caption.innerText : "",
    head: [...table.tHead.rows].map(cells),
    body: [...table.tBodies].flatMap(body => [...body.rows].map(cells)),
  }));
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
    width, problems, texts: texts(), tables: tables(),
    images: images.map(i => [i.alt, i.getBoundingClientRect().width / i.naturalWidth]),
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
    paper: ground(document.body), words: document.body.innerText,
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
    sections = paper.report_sections
    return evaluation.write_report(evaluated[0], folder, log=lambda _: None, sections=sections)


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
    assert len(seen["images"]) == page.read_text(encoding="utf-8").count("<img ") > 5
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
def test_tables_tell_a_screen_reader_what_their_numbers_are(see):
    tables = see(DESK)["tables"]
    assert len(tables) > 4
    for table in tables:
        assert table["caption"], table
        for cell in (cell for row in table["head"] for cell in row):
            # What heads nothing is no head.
            assert cell["scope"] in ("col", "colgroup") if cell["header"] else not cell["text"]
        headers = [cell["scope"] for row in table["body"] for cell in row if cell["header"]]
        assert len(headers) >= len(table["body"]), table["caption"]
        assert set(headers) == {"row"}, table["caption"]


@pytest.mark.slow
def test_no_abbreviation_stands_for_an_uncertainty(see):
    words = see(DESK)["words"]
    assert "Knowledge uncertainty" in words
    assert not re.search(r"\b([TDK]U|Conf)\b", words)


def groups_of_columns(table):
    """For each header over several columns, their texts and marks in all rows."""
    top, at = table["head"][0], 0
    for header in top:
        columns = range(at, at + header["span"])
        if header["scope"] == "colgroup":
            yield header["text"], [row[i] for row in table["body"] for i in columns if i < len(row)]
        at += header["span"]


@pytest.mark.slow
def test_the_best_value_is_marked_whichever_column_it_is_in(see):
    found = 0
    for table in see(DESK)["tables"]:
        for name, cells in groups_of_columns(table):
            if "AUROC" not in name:
                continue
            values = {i: re.match(r"[\d.]+", cell["text"]) for i, cell in enumerate(cells)}
            values = {i: float(match.group()) for i, match in values.items() if match}
            marked = {values[i] for i, cell in enumerate(cells) if cell["marked"]}
            assert marked == {max(values.values())}, (table["caption"], name)
            found += 1
    assert found


@pytest.mark.slow
@pytest.mark.parametrize("width", [DESK, PHONE])
def test_labels_under_images_are_legible(see, width):
    scales = [scale for alt, scale in see(width)["images"] if "highest uncertainty" in alt]
    assert len(scales) >= 2
    for scale in scales:
        assert drawing.STYLE["font.size"] * drawing.DPI / 72 * scale >= 10


@pytest.mark.slow
def test_it_prints(chromium, page, tmp_path):
    path = tmp_path / "report.pdf"
    browse(chromium, page, tmp_path / "profile", f"--print-to-pdf={path}")
    pdf = path.read_bytes()
    assert pdf.startswith(b"%PDF")
    assert pdf.count(b"/Subtype /Image") > 5


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), (NIGHT,)], ids=["day", "night"])
def test_it_is_not_a_blank_sheet(chromium, page, tmp_path, flags):
    path = tmp_path / "shot.png"
    size = "--window-size=1280,2000"
    browse(chromium, page, tmp_path / "profile", size, f"--screenshot={path}", *flags)
    image = matplotlib.image.imread(path)
    assert image.shape[:2] == (2000, 1280)
    pixels = 1 - image[..., :3] if flags else image[..., :3]
    assert pixels.mean() > (0.6 if flags else 0.8)  # Mostly paper; figures stay white at night.
    assert (pixels.min(axis=-1) < 0.4).mean() > 0.005  # With ink on it.
