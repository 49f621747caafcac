"""The program that builds the site, as a module."""

import importlib.util

import pytest


@pytest.fixture(scope="session")
def build(project_root):
    path = project_root / "docs" / "site" / "build.py"
    specification = importlib.util.spec_from_file_location("site_build", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def navigation(build):
    """The pages that the site's navigation names."""
    import tomllib

    config = tomllib.loads(build.CONFIG.read_text(encoding="utf-8"))
    return list(build.pages_of(config["project"]["nav"]))
