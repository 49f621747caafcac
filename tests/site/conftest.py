"""The program that builds the site, as a module."""

import pytest


@pytest.fixture(scope="session")
def build(load_script):
    return load_script("docs/site/build.py")


@pytest.fixture(scope="session")
def navigation(build):
    """The pages that the site's navigation names."""
    import tomllib

    config = tomllib.loads(build.CONFIG.read_text(encoding="utf-8"))
    return list(build.pages_of(config["project"]["nav"]))
