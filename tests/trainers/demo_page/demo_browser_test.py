"""The demo page in a real browser: `make test-browser`."""

import base64
import io

import numpy as np
import pytest

from s2d_tf.trainers.demo_page import demo as demo_lib

pytestmark = pytest.mark.browser

SCORES = ("total", "data", "knowledge")
PATIENCE = 120_000
"""Milliseconds to wait for the page, on a machine that has other work."""


@pytest.fixture(scope="module")
def demo():
    return demo_lib.open_demo()


@pytest.fixture(scope="module")
def url(showing, demo):
    with showing(demo) as address:
        yield address


@pytest.fixture
def page(browser, url):
    """The page, after its first answer; it may neither complain nor ask another host."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(PATIENCE)
    opened, wrong = context.new_page(), []
    opened.on("console", lambda m: wrong.append(m.text) if m.type in ("error", "warning") else None)
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("request", lambda r: None if _is_ours(r.url, url) else wrong.append(r.url))
    opened.goto(url)
    opened.wait_for_selector(".card")
    yield opened
    context.close()
    assert wrong == []


def _is_ours(address, url):
    return address.startswith((url, "data:"))


def shown(page):
    """What the page says of each model: exact numbers, and the verdict."""
    page.wait_for_selector("body:not([aria-busy])")
    found = []
    for card in page.query_selector_all(".card"):
        values = {
            each.get_attribute("data-score"): float(each.get_attribute("value"))
            for each in card.query_selector_all("data[data-score]")
        }
        probs = {
            int(each.get_attribute("data-class")): float(each.get_attribute("value"))
            for each in card.query_selector_all("data[data-class]")
        }
        found.append((values, probs, card.query_selector(".verdict strong").inner_text()))
    return found


def check(page, demo, inputs):
    cards = shown(page)
    assert len(cards) == 2
    for (values, probs, verdict), model in zip(cards, demo.models.values(), strict=True):
        expected = model.predict_uncertainty(inputs)
        assert set(values) == (set(SCORES) if model.decomposes else {"total"})
        for name, value in values.items():
            assert np.float32(value) == expected[name][0]
        assert set(probs) == set(range(8))
        for label, value in probs.items():
            assert np.float32(value) == expected["probs"][0, label]
        assert verdict in (f"Answers {expected['probs'][0].argmax()}", "Abstains")
    return cards


def seen(page):
    """The pixels that the page says the models saw."""
    from PIL import Image

    page.wait_for_selector("body:not([aria-busy])")
    source = page.get_attribute("#seen-image", "src")
    content = base64.b64decode(source.removeprefix("data:image/png;base64,"))
    return np.array(Image.open(io.BytesIO(content)))[None, ..., None]


def test_a_drawing_by_mouse_and_by_keyboard(page, demo):
    page.check("input[value=draw]", force=True)
    box = page.locator("#pad").bounding_box()
    # A seven-segment zero.
    corners = [(0.3, 0.15), (0.65, 0.15), (0.65, 0.85), (0.3, 0.85), (0.3, 0.15)]
    for i, (u, v) in enumerate(corners):
        page.mouse.move(box["x"] + u * box["width"], box["y"] + v * box["height"], steps=6)
        if not i:
            page.mouse.down()
    page.mouse.up()
    page.wait_for_selector("#seen-caption:has-text('Your drawing')")
    page.wait_for_timeout(300)
    cards = check(page, demo, seen(page))
    assert max(cards[1][1], key=cards[1][1].get) == 0

    page.focus("#pad")
    page.keyboard.press("Delete")
    for _ in range(6):
        page.keyboard.press("Shift+ArrowDown")
    page.wait_for_timeout(300)
    pixels = seen(page)
    assert pixels[0, :, 3:5].min() > 100  # a stroke from top to bottom
    assert pixels[0, :, :2].max() == 0
    check(page, demo, pixels)


def test_the_verdict_follows_the_risk(page, demo):
    page.click("[data-sample='9']")  # the hardest but one of the known
    verdicts = []
    for risk in range(7):
        page.evaluate(
            "risk => { const r = document.getElementById('risk'); r.value = risk;"
            " r.dispatchEvent(new Event('input')); }",
            risk,
        )
        verdicts.append([verdict != "Abstains" for *_, verdict in shown(page)])
    for answers in zip(*verdicts, strict=True):
        assert list(answers) == sorted(answers)  # more risk, more answers
        assert answers[0] is False
        assert answers[-1] is True


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_accessible_and_within_the_screen(browser, url, width, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="s2d_tf[browser]")
    context = browser.new_context(
        viewport={"width": width, "height": 844}, color_scheme=scheme, reduced_motion="reduce"
    )
    context.set_default_timeout(PATIENCE)
    opened = context.new_page()
    opened.goto(url)
    opened.wait_for_selector(".card")
    for way in ("samples", "draw", "file"):
        opened.check(f"input[value={way}]", force=True)
        results = axe.Axe().run(opened)
        assert results.violations_count == 0, results.generate_report()
        assert opened.evaluate("document.documentElement.scrollWidth") <= width
    context.close()
