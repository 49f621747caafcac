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


def test_its_numbers_are_those_of_the_code(project_root):
    from s2d_tf.serving.protocol import Limits
    from s2d_tf.zoo.sources import TOTAL_SECONDS

    text = (project_root / "docs" / "security.md").read_text(encoding="utf-8")
    limits = Limits()
    assert f"{limits.header_seconds:g} s for a request's head" in text
    assert f"{limits.request_seconds:g} s for its body" in text
    assert f"{limits.connections} at once" in text
    assert f"one deadline of {TOTAL_SECONDS} s" in text
