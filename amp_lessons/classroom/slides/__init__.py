"""Slides from a lesson's notebook: `amp-lessons slides LESSON` writes one HTML file.

`parts` says what each cell of the notebook is for a room, `cutting` makes slides of it, and `deck`
puts them into a page with reveal.js, which is in `static/`. Nothing here imports torch.
"""
