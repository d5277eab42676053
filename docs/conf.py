"""Sphinx's settings for the documentation: ``make docs`` builds it, with warnings as errors and without the network."""

from __future__ import annotations

import re
import sys
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent
sys.path.insert(0, str(_HERE))
from plots import write_plots  # noqa: E402

project = "TriJoin SQL"
author = "the authors of TriJoin SQL"
copyright = author
release = version = version_of("trijoin-sql")

extensions = ["myst_nb", "sphinx.ext.autodoc", "numpydoc", "sphinx_copybutton"]
exclude_patterns = ["README.md", "changes", "_build"]
nitpicky = True  # a reference that leads nowhere is a warning, and `make docs` makes warnings errors
#: Types in signatures, which may be internal or of other packages: their documentation would have to be fetched.
nitpick_ignore_regex = [("py:class", ".*"), ("py:.*", r"(?!trijoin_sql\.).*")]

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # tests/docs/test_notebook.py runs the notebook and compares its outputs

default_role = "code"  # what docstrings write as `name`
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_theme = "furo"
html_title = f"TriJoin SQL {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def _leave_out_links(app: object, page: str, source: list[str]) -> None:
    """Make plain text of links to folders and READMEs of the repository, which are no pages of the site.

    Where the repository is browsed, these links work. tests/docs/test_pages.py checks that they lead somewhere.
    """
    del app, page
    source[0] = re.sub(r"\[([^\]]+)\]\(\.\./[^)]*(?:\.md(?:#[^)]*)?|/[a-z_]+)\)", r"\1", source[0])


def setup(app: Any) -> None:
    """Draw the plots of the page on performance, from the committed figures."""
    write_plots(_HERE / "performance.json", _HERE / "_plots")
    app.connect("source-read", _leave_out_links)
