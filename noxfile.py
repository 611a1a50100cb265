"""The tasks of the Makefile on every Python that is there, each in an environment of its own."""

from __future__ import annotations

import nox

nox.options.default_venv_backend = "venv"
nox.options.error_on_missing_interpreters = False
nox.options.sessions = ["lint", "tests", "docs"]


@nox.session(python=["3.11", "3.12", "3.13"])
def tests(session: nox.Session) -> None:
    """All tests against the built wheel; arguments go to pytest."""
    session.install(".[dev,docs]")
    session.run("python", "-m", "pytest", "-n", "2", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Format, rules, types and import contracts."""
    session.install(".[dev]")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("mypy")
    session.run("lint-imports", env={"PYTHONPATH": "src"})


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation, with warnings as errors."""
    session.install(".[docs]")
    session.run("python", "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "docs", "docs/_build")
