"""Sphinx settings of the documentation."""

from __future__ import annotations

import importlib.metadata

project = "Foreword"
author = "The Foreword authors"
project_copyright = author
release = importlib.metadata.version("foreword")
version = release

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"Foreword {release}"
