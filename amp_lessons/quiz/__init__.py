"""The interview room: a bank of questions with proofs, and what asks them.

`items` says what a question is, `bank` reads them, `proofs` runs what proves them and `marking`
marks an answer. `generators` make questions without end, `log` and `schedule` remember what was
answered, and `exports` turns the bank into decks and pages. Importing any of these leaves torch
alone; only a proof that runs needs it.
"""
