"""`amp-lessons class DIR`: where a room is, by the notebooks and progress files that arrive in DIR.

`folder` finds the files, `reading` turns each into claims, `room` joins them, `page` writes them as
HTML and `serving` serves that. No learner's code runs here. What a file says is its owner's claim
and can be edited, so nothing here is a mark.
"""
