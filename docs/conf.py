"""How Sphinx builds the site: ``make docs``."""

import sys
from importlib.metadata import version as installed
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent)]

project = "kvtheory"
author = "The kvtheory developers"
copyright = "The kvtheory developers, Apache-2.0"
version = release = installed("kvtheory")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_proof",
    "sphinxcontrib.bibtex",
    "catalogue",
    "checked_by",
    "docstrings",
]
exclude_patterns = ["_build", "_ext", "howto/skeletons"]
nitpicky = True
# names in single backquotes of docstrings: links where there is something to link to
default_role = "py:obj"
nitpick_ignore_regex = [("py:.*", ".*")]

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

bibtex_bibfiles = ["../kvtheory/references.bib"]
bibtex_default_style = "alpha"
bibtex_reference_style = "author_year"

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
python_maximum_signature_line_length = 88
napoleon_google_docstring = False
# fields are documented where they are defined; a list of them is only read
napoleon_custom_sections = [
    ("Attributes", "params_style"),
    ("Class attributes", "params_style"),
    "Guarantee",
    "Cost",
]
napoleon_use_rtype = False

# two hyphens are an option of a command
smartquotes = False
html_theme = "furo"
html_title = f"kvtheory {release}"
html_show_sphinx = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
