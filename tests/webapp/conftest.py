"""The browser and its pages, for the tests of the app that need them."""

import pytest


@pytest.fixture(scope="module")
def browser():
    from browsing import launched

    with launched() as found:
        yield found


@pytest.fixture
def open_page(browser):
    """Open pages; at the end none may have said an error or asked another machine for anything."""
    from browsing import opening

    with opening(browser) as open_at:
        yield open_at
