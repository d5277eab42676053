"""What pyproject.toml cannot say: README's links, which have to work on a package index too."""

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent


def readme() -> str:
    """Return README.md with the addresses of the repository's files where it has their paths."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    address = project["urls"]["Repository"]

    def absolute(link: re.Match[str]) -> str:
        return f"{link[1]}]({address}/{'raw' if link[1].startswith('!') else 'blob'}/main/{link[2]})"

    return re.sub(r"(!?\[[^\]]*)\]\((?!https?:|#)([^)]+)\)", absolute, (ROOT / "README.md").read_text("utf-8"))


if __name__ == "__main__":
    setup(long_description=readme(), long_description_content_type="text/markdown")
