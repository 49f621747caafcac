"""The security page names files that exist, and the audit looks at what is installed."""

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
    from s2d_tf.serving.limits import Limits
    from s2d_tf.zoo.web import TOTAL_SECONDS

    text = (project_root / "docs" / "security.md").read_text(encoding="utf-8")
    limits = Limits()
    assert f"{limits.header_seconds:g} s for a request's head" in text
    assert f"{limits.request_seconds:g} s for its body" in text
    assert f"{limits.connections} at once" in text
    assert f"one deadline of {TOTAL_SECONDS} s" in text


def test_how_to_report_and_the_audit(project_root):
    policy = (project_root / "SECURITY.md").read_text(encoding="utf-8")
    assert "Report a vulnerability" in policy
    assert "docs/security.md" in policy
    workflow = (project_root / ".github" / "workflows" / "audit.yml").read_text(encoding="utf-8")
    assert "pip_audit" in workflow
    assert "schedule:" in workflow
    assert "contents: read" in workflow
