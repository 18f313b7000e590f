"""The pages as a browser shows them: on a desk and on a phone, by keyboard, without scripts."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from autograder.course.records import LANGUAGES, ClassRecord
from autograder.report import student_pages
from tests.report import classes
from tests.report.test_dashboard import _with_text
from tests.report.test_report import CLASS, MIXED, record

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DESK = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}
WIDTHS = {"desk": DESK, "phone": PHONE}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]
# A name as it can stand in a text, in any script.
NAMES = re.compile(r"王伟|Alice|李娜|Bob|Nobody")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        # Its own sandbox needs rights that a container may lack; the pages are ours.
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(autouse=True)
def _closed(browser: Browser) -> Iterator[None]:
    """A page that is looked at no more takes no time from the next one."""
    yield
    for context in browser.contexts:
        context.close()


class Shown:
    """A page in a browser, with everything that went wrong in it."""

    def __init__(self, browser: Browser, file: Path, **options: Any) -> None:
        self.wrong: list[str] = []
        context = browser.new_context(**{"viewport": DESK, **options})
        self.page: Page = context.new_page()
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("console", lambda message: self.wrong.append(message.text))
        self.page.on("request", lambda request: self._asked(request.url))
        self.page.goto(file.as_uri())

    def _asked(self, url: str) -> None:
        if not url.startswith("file:"):
            self.wrong.append(url)

    def text(self) -> str:
        """What can be seen, without what is hidden."""
        return self.page.inner_text("body")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("class"), classes.typical())


def written(folder: Path, record: ClassRecord, language: str = "en") -> Path:
    path = folder / f"dashboard.{language}.html"
    path.write_text(classes.page(record, language), encoding="utf-8")
    return path


def report(folder: Path, language: str) -> Path:
    path = folder / f"report.{language}.html"
    path.write_text(student_pages.student_html(CLASS, MIXED, language), encoding="utf-8")
    return path


def overflow(page: Page) -> int:
    """Pixels that the page is wider than its window."""
    width: int = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    return width


# ---------------------------------------------------------------- both pages


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("width", WIDTHS)
def test_pages_fit_the_window_and_ask_for_nothing(
    browser: Browser, tmp_path: Path, width: str, language: str
) -> None:
    for path in (written(tmp_path, classes.typical(), language), report(tmp_path, language)):
        shown = Shown(browser, path, viewport=WIDTHS[width])
        assert overflow(shown.page) <= 0 and not shown.wrong, path.name


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_axe_finds_nothing_serious(
    browser: Browser, tmp_path: Path, width: str, colours: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    for path in (written(tmp_path, classes.typical()), report(tmp_path, "zh")):
        options = {"viewport": WIDTHS[width], "color_scheme": colours, "bypass_csp": True}
        page = Shown(browser, path, **options).page
        page.evaluate("document.querySelectorAll('details').forEach((one) => one.open = true)")
        # Of what is in order no list is made: that takes most of the time.
        found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
        serious = [one for one in found if one["impact"] in ("serious", "critical")]
        told = [(one["id"], one["nodes"][0]["html"], len(one["nodes"])) for one in serious]
        assert not told, path.name


@pytest.mark.parametrize("scripts", [True, False])
def test_hostile_text_does_nothing(browser: Browser, tmp_path: Path, scripts: bool) -> None:
    spoiled = [_with_text(text, number) for number, text in enumerate(classes.HOSTILE)]
    shown = Shown(browser, written(tmp_path, record(*spoiled)), java_script_enabled=scripts)
    shown.page.wait_for_timeout(200)
    assert shown.page.title() == "The class at a glance · The Qwen3 block"
    assert not shown.wrong
    assert "<img src=x onerror" in shown.text()


# ---------------------------------------------------------------- the class first


def test_what_is_seen_first_is_the_class(browser: Browser, file: Path) -> None:
    page = Shown(browser, file).page
    for title in ("How did it go?", "What to teach again", "Who needs you"):
        box = page.get_by_role("heading", name=title).bounding_box()
        assert box is not None and box["y"] < DESK["height"] / 2
    box = page.get_by_role("heading", name="Who passed what").bounding_box()
    assert box is not None and box["y"] > DESK["height"] / 2


def test_what_a_student_sees_first_is_the_next_step(browser: Browser, tmp_path: Path) -> None:
    page = Shown(browser, report(tmp_path, "en"), viewport=PHONE).page
    box = page.get_by_role("heading", name="Your next step").bounding_box()
    assert box is not None and box["y"] < PHONE["height"] / 2
    assert page.locator("section").first.get_attribute("aria-labelledby") == "next"


# ---------------------------------------------------------------- without scripts


def test_everything_can_be_read_without_scripts(browser: Browser, file: Path) -> None:
    shown = Shown(browser, file, java_script_enabled=False)
    text = shown.text()
    for told in ("How did it go?", "王伟0", "the mistake m1", "A sign that is a link leads to"):
        assert told in text
    assert not shown.page.locator("#controls").is_visible()
    link = shown.page.locator("#map tbody a[href^='#f']").first
    place = link.get_attribute("href")
    link.click()
    reason = shown.page.locator(str(place))
    assert reason.is_visible() and "your code raised ValueError" in reason.inner_text()


# ---------------------------------------------------------------- names


@pytest.mark.parametrize("scripts", [True, False])
def test_names_are_hidden_everywhere(browser: Browser, file: Path, scripts: bool) -> None:
    shown = Shown(browser, file, java_script_enabled=scripts)
    page = shown.page
    assert NAMES.search(shown.text()) and "#1\t" not in shown.text()
    page.check("#anon")
    for summary in page.locator("details:not([open]) > summary").all():
        if summary.is_visible():
            summary.click()
    assert not NAMES.search(shown.text()) and "#1" in shown.text()
    # Nothing under the pointer, or at the tab key, tells a name: neither a link nor a title.
    seen = page.locator(":is(a, [title], [aria-label]):visible").evaluate_all(
        "(all) => all.map((one) => one.outerHTML)"
    ) if scripts else []  # fmt: skip
    assert not [one for one in seen if "report.html" in one or NAMES.search(one)]


def test_names_never_appear_with_anonymous_in_the_address(browser: Browser, file: Path) -> None:
    shown = Shown(browser, file)
    shown.page.goto(file.as_uri() + "#anonymous")
    shown.page.reload()
    assert shown.page.is_checked("#anon") and not NAMES.search(shown.text())


def test_hiding_names_leaves_neither_their_order_nor_what_was_typed(
    browser: Browser, file: Path
) -> None:
    page = Shown(browser, file).page
    page.select_option("#order", "name")
    page.fill("#find", "Alice")
    assert page.locator("#map tbody tr:visible").count() == 15
    page.check("#anon")
    assert page.input_value("#find") == "" and page.input_value("#order") == "human"
    assert page.locator("#map tbody tr:visible").count() == 60
    page.select_option("#order", "name")
    first = page.locator("#map tbody th .k").all_inner_texts()
    assert first[:3] == ["#1", "#2", "#3"]
    page.fill("#find", "alice")
    assert page.locator("#map tbody tr:visible").count() == 0


# ---------------------------------------------------------------- sort, filter, reasons


def earned(page: Page) -> list[int]:
    cells = page.locator("#map tbody tr:visible td:nth-of-type(1)").all_inner_texts()
    return [int(cell.split()[0].rstrip("?")) for cell in cells]


def test_rows_are_sorted_and_filtered(browser: Browser, file: Path) -> None:
    page = Shown(browser, file).page
    page.select_option("#order", "low")
    low = earned(page)
    page.select_option("#order", "high")
    assert earned(page) == sorted(low, reverse=True) and low == sorted(low) and len(low) == 60
    page.select_option("#show", "late")
    assert page.inner_text("#count") == "7 of 60 rows" and len(earned(page)) == 7
    page.select_option("#show", "all")
    number = next(
        n
        for n in range(1, 61)
        if page.locator(f"#map tbody td:nth-child({n + 3}) [href^='#f']").count()
    )
    page.click(f"#map [data-check='{number}']")
    column = page.locator(f"#map tbody td:nth-child({number + 3})").all_inner_texts()
    assert column[0] == "✗" and column == sorted(column, key="✗!∞?○—✓".index)
    head = page.locator(f"#map [data-check='{number}']")
    assert head.get_attribute("aria-sort") == "ascending"


def test_a_reason_shows_at_the_pointer_and_goes_with_escape(browser: Browser, file: Path) -> None:
    page = Shown(browser, file).page
    panel = page.locator("#panel")
    cell = page.locator("#map tbody [href^='#f']").first
    cell.scroll_into_view_if_needed()
    cell.hover()
    assert panel.is_visible() and "your code raised ValueError: text" in panel.inner_text()
    box = panel.bounding_box()
    assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= DESK["width"]
    page.keyboard.press("Escape")
    assert not panel.is_visible()


def test_reasons_are_reached_by_keyboard(browser: Browser, file: Path) -> None:
    page = Shown(browser, file).page
    stops = page.locator("#map tbody :is(a, td)").evaluate_all(
        "(all) => all.filter((one) => one.tabIndex >= 0 && !one.matches('.w')).length"
    )
    assert stops == 1
    page.locator("#map tbody td[tabindex='0']").focus()
    panel = page.locator("#panel")
    before = panel.inner_text()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert panel.is_visible() and panel.inner_text() != before
    place = page.evaluate(
        "[document.activeElement.cellIndex, document.activeElement.parentElement.rowIndex]"
    )
    assert place == [4, 3]  # three columns, and two rows of heads, stand before


def test_reasons_are_reached_by_touch(browser: Browser, file: Path) -> None:
    shown = Shown(browser, file, viewport=PHONE, has_touch=True, is_mobile=True)
    page = shown.page
    cell = page.locator("#map tbody [href^='#f']").first
    cell.scroll_into_view_if_needed()
    size = cell.bounding_box()
    assert size is not None and size["width"] >= 24 and size["height"] >= 24
    cell.tap()
    panel = page.locator("#panel")
    assert "your code raised ValueError" in panel.inner_text()
    box = panel.bounding_box()
    assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= PHONE["width"]
    assert overflow(page) <= 0 and not shown.wrong


def test_the_colours_can_be_turned(browser: Browser, file: Path) -> None:
    page = Shown(browser, file, color_scheme="dark").page
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.click("#theme")
    light = page.evaluate(ground)
    assert dark != light
    assert Shown(browser, file, color_scheme="light").page.evaluate(ground) == light
    page.click("#theme")
    assert page.evaluate(ground) == dark
