"""One front end for all tests of the text stage: it is immutable, and loading it takes a second."""

from __future__ import annotations

import pytest

from deployments.normalization.text.frontend import FrontEnd


@pytest.fixture(scope="session")
def frontend() -> FrontEnd:
    return FrontEnd()
