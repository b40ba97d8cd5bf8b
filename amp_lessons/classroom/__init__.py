"""Other people's notebooks, safely and fast: grading, the class view, slides and workshops."""
