"""Workshop plans of 2, 4 and 8 hours: what to show, ask and set, minute by minute.

A plan is data in ``plans/``, put together from the blocks in ``blocks/``. `reading` loads both and
holds them against the course, `page` writes a plan as Markdown, `commands` prints it. No torch.
"""
