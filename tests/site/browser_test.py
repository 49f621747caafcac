"""The site, built and opened in a real browser: `make test-site`."""

import functools
import http.server
import pathlib
import threading

import pytest

pytestmark = pytest.mark.site

PATIENCE = 120_000
"""Milliseconds to wait for a page, on a machine that has other work."""

# One page of each kind.
KINDS = (
    "index.html",
    "docs/five-minutes.html",
    "docs/uncertainty.html",
    "docs/how-s2d-works.html",
    "examples/notebooks/first_steps.html",
    "api/index.html",
    "api/models.html",
    "docs/zoo.html",
    "zoo/pretrained/fast_resnet.s2d.cifar100_plus/index.html",
    "results/benchmark.html",
    "CHANGELOG.html",
)


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def html(build):
    pytest.importorskip("zensical", reason="needs the extra s2d_tf[docs]")
    assert build.main() == 0
    return build.SITE / "html"


@pytest.fixture(scope="module")
def url(html):
    handler = functools.partial(_Quiet, directory=html)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture
def opener(browser):
    """Opens pages in one look; afterwards none may have complained or called another host."""
    wrong, contexts = [], []

    def open_page(address, width=1280, scheme="light"):
        context = browser.new_context(
            viewport={"width": width, "height": 844}, color_scheme=scheme, reduced_motion="reduce"
        )
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.on("console", lambda m: wrong.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda r: None if _is_ours(r.url) else wrong.append(r.url))
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []


def _is_ours(address):
    return address.startswith(("http://127.0.0.1:", "file:", "data:", "blob:"))


def test_a_link_to_a_missing_heading_ends_the_build(build, monkeypatch, project_root, capfd):
    pytest.importorskip("zensical", reason="needs the extra s2d_tf[docs]")
    written = build.written()
    monkeypatch.setattr(build, "SITE", project_root / ".site-broken")
    broken = {**written, "CHANGELOG.md": "# x\n\n[x](docs/how-s2d-works.md#nowhere)\n"}
    monkeypatch.setattr(build, "written", lambda: broken)
    try:
        assert build.main() != 0
    finally:
        build.shutil.rmtree(build.SITE)
    found = capfd.readouterr()
    assert "anchor does not exist" in found.out + found.err


def test_every_page_is_built_and_names_no_other_host(html, navigation):
    pages = {path.relative_to(html).as_posix() for path in html.rglob("*.html")}
    for name in navigation:
        name = name.replace("README.md", "index.md").removesuffix(".md") + ".html"
        assert name in pages
    assert set(KINDS) <= pages
    cards = {path.parent.name for path in html.glob("zoo/pretrained/*/index.html")}
    assert len(cards) > 10
    for name in pages:
        text = (html / name).read_text(encoding="utf-8")
        assert "::: s2d_tf" not in text, name
        for word in ("unpkg.com", "googleapis", "gstatic", "jsdelivr", "cdnjs"):
            assert word not in text, name


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_accessible_and_within_the_screen(opener, url, width, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="s2d_tf[browser]")
    found = []
    for name in KINDS:
        page = opener(url + name, width, scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        blocks = page.locator(".md-typeset pre > code")
        hidden = "all => all.filter(x => x.scrollWidth > x.clientWidth).map(x => x.innerText)"
        assert blocks.evaluate_all(hidden) == [], name  # no code is cut off
        assert page.evaluate("document.body.dataset.mdColorScheme") == (
            "slate" if scheme == "dark" else "default"
        )
        for violation in axe.Axe().run(page).response["violations"]:
            if violation["impact"] in ("serious", "critical"):
                where = [node["html"][:150] for node in violation["nodes"][:3]]
                found.append((name, violation["id"], where))
        page.close()
    assert found == []


@pytest.mark.parametrize("served", [True, False], ids=["server", "folder"])
def test_search_finds_without_a_network(opener, url, html, served):
    start = url if served else pathlib.Path(html).as_uri() + "/"
    page = opener(start + "docs/how-s2d-works.html")
    page.wait_for_load_state("networkidle")
    page.keyboard.press("Control+k")
    page.keyboard.type("fit_dirichlet")
    page.wait_for_timeout(4000)  # for the worker to read its index and answer
    page.keyboard.press("Enter")
    page.wait_for_url("**/api/numerics.html*")
