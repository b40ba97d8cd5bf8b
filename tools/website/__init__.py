"""The course as a website: `make site` calls `tools/build_site.py`, and the work is done here.

Everything is read from what the repository stores: notebooks with their outputs, the question bank,
the catalogue of errors, records. Nothing is executed. (The package isn't called `site`, because
Python's own module of that name would hide it.)
"""
