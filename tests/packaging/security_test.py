"""The security page names files that exist and numbers that hold."""

import re


def test_the_page_names_modules_and_tests_that_exist(project_root):
    text = (project_root / "docs" / "security.md").read_text(encoding="utf-8")
    modules = re.findall(r"`(\w+/(?:\w+\.py)?)`", text)
    assert len(modules) > 8
    for name in modules:
        assert (project_root / "s2d_tf" / name).exists(), name
    tests = re.findall(r"`(tests/[\w/.]+)`", text)
    assert len(tests) > 3
    for name in tests:
        assert (project_root / name).exists(), name
