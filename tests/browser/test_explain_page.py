"""The page of `amp-lessons explain --html` in a browser: accessible in both themes, and whole."""

from __future__ import annotations

import pytest
import torch
from pages import faults
from torch import nn

from amp_lessons.amp.explain import explain_autocast
from amp_lessons.amp.training import models

pytestmark = pytest.mark.browser


class Risky(nn.Module):
    """Blocks to fold, a hazard, an FP32 island and a size to pad."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(models.Block(64, 4) for _ in range(3)))
        self.a_name_that_is_longer_than_most_of_the_others = nn.Linear(64, 257)

    def forward(self, x):
        x = self.a_name_that_is_longer_than_most_of_the_others(self.blocks(x))
        return x.masked_fill(x > 0, -1e9).float().exp()


LOOKS = [
    ("light", 1200),
    *(pytest.param(*look, marks=pytest.mark.slow) for look in [("dark", 1200), ("light", 420)]),
]


@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_the_page_is_accessible_and_fetches_nothing(chromium, tmp_path, scheme, width):
    file = tmp_path / "page.html"
    file.write_text(explain_autocast(Risky(), torch.randn(2, 8, 64)).to_html(), encoding="utf-8")
    context = chromium.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    try:
        page.goto(file.as_uri())
        assert page.get_by_text("By module").is_visible()
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        assert faults(page, "html") == []
        wide = page.evaluate("document.documentElement.scrollWidth > innerWidth")
        assert not wide, "the page itself scrolls sideways"
        page.screenshot(path=str(tmp_path / "page.png"), full_page=True)
    finally:
        context.close()
    assert asked == [file.as_uri()]
