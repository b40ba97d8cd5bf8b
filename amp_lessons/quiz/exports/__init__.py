"""The bank in the forms that people practise with: an Anki deck, one HTML page, a Moodle import.

Each of `anki`, `page` and `moodle` has a `build(bank)` that gives the bytes of a file. The same
bank gives the same bytes, on any day and in any process. What a question looks like, `markup`
knows; each module here adds only what its format needs. `commands` is the command line's side of
it, and is quick to import. Nothing here imports torch.
"""
