"""Build the website of the course into build/site/: `make site`.

Reads stored notebooks, records and data, and executes nothing. The pages request nothing from
another host. To look at them, serve the folder: `python -m http.server --directory build/site`.

Links to Colab, Binder and Codespaces need to know the repository on GitHub: give ``--repository``,
or set GITHUB_REPOSITORY, as GitHub's workflows do.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from pathlib import Path

from website import api, assets, lessons, lookup, places, policies, quizpage, reference, search
from website.pages import Writer
from website.places import Places

from amp_lessons import __version__

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "build/site"


def build(folder: Path, repository: str = "", ref: str = "main") -> Places:
    """Write the whole site into an empty folder. Gives where its links lead to."""
    docs = sorted((ROOT / "docs").glob("*.md"))
    pages = places.of_course([path.stem for path in docs])
    to = Places(pages, reference.home_anchors(), repository, ref)
    to.pages |= {f"docs/{path.name}": f"docs/{path.name}" for path in (ROOT / "docs").glob("*.png")}
    writer = Writer(folder, __version__)
    guides = [reference.doc(path, to) for path in docs]
    every = [
        reference.front(to),
        *(lessons.page_of(source, to) for source in lessons.sources()),
        quizpage.page(),
        lookup.page(to),
        policies.page(),
        reference.myths(to),
        reference.numbers(to),
        reference.glossary(to),
        api.page(to),
        reference.guides((guide.title, guide.path) for guide in guides),
        *guides,
        search.page(),
    ]
    for page in every:
        writer.write(page)
    assets.copy(folder, to)
    writer.put("data/search.json", search.index(every).encode())
    return to


def holds_something_else(folder: Path) -> bool:
    """Whether a folder, or a file in its place, is neither empty nor an earlier site."""
    if not folder.is_dir():
        return folder.exists()
    return any(folder.iterdir()) and not (folder / "modules" / "site.mjs").is_file()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    known = os.environ.get("GITHUB_REPOSITORY", "")
    parser.add_argument("--repository", default=known, help="owner/name on GitHub")
    parser.add_argument("--ref", default="main", help="the branch or tag that links lead to")
    parser.add_argument(
        "--into", type=Path, default=SITE, help="a new folder, or an earlier site's"
    )
    chosen = parser.parse_args(arguments)
    if chosen.into != SITE and holds_something_else(chosen.into):  # SITE is only ever ours
        print(f"{chosen.into} holds something else than a site; name another folder")
        return 2
    begun = time.perf_counter()
    shutil.rmtree(chosen.into, ignore_errors=True)
    to = build(chosen.into, chosen.repository, chosen.ref)
    files = [path for path in chosen.into.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files) / 1e6
    seconds = time.perf_counter() - begun
    pages = sum(path.suffix == ".html" for path in files)
    print(f"{pages} pages, {len(files)} files, {size:.1f} MB in {seconds:.1f} s: {chosen.into}")
    if to.lost:
        print(f"shown as text, since no repository is named: {', '.join(sorted(to.lost))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
