"""The built documentation: every link resolves, the search finds what people ask, a copy button gives what is typed."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.browser.conftest import Page
from tools.site import build, dead_links

pytestmark = [pytest.mark.slow, pytest.mark.browser]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="the site is built with the extra docs (make docs)")
    folder = tmp_path_factory.mktemp("site")
    assert build(folder) == []
    return folder


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *values: object) -> None:  # noqa: A002
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def test_every_link_of_the_built_site_resolves(site: Path) -> None:
    assert dead_links(site) == []


def test_the_api_stands_under_the_names_that_are_typed(site: Path) -> None:
    headings = re.findall(r'<h3 id="[^"]+" class="doc doc-heading">\s*(\S+)', (site / "api/index.html").read_text())
    assert len(headings) > 100 and "ss.machine" in headings
    assert [name for name in headings if not name.startswith("ss.")] == []


@pytest.mark.parametrize(
    ("asked", "pages"),
    [("tokens per second", {"glossary", "serving"}), ("GPU memory", {"glossary", "howto", "own-network"})],
)
def test_the_search_finds_what_people_ask(
    asked: str, pages: set[str], address: str, browser: Callable[[], Page]
) -> None:
    page = browser()
    page.call("Page.navigate", url=f"{address}/?q={asked.replace(' ', '+')}")
    page.until("document.querySelectorAll('.md-search-result__link').length > 2")
    found = page.evaluate("[...document.querySelectorAll('.md-search-result__link')].slice(0, 10).map(a => a.pathname)")
    assert {path.strip("/") for path in found} & pages, found


def test_a_copy_button_gives_what_is_typed(address: str, browser: Callable[[], Page]) -> None:
    page = browser()
    page.call("Page.navigate", url=f"{address}/")
    page.until("document.querySelectorAll('.language-console code').length > 0")
    copied = page.evaluate(
        "(() => { const code = document.querySelector('.language-console code');"
        "code.setAttribute('data-md-copying', ''); return code.innerText.trim() })()"
    )
    assert copied.startswith("slipstick whatif") and "ratio" not in copied and "$" not in copied, copied
