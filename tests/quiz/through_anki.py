"""Run by an interpreter that has the `anki` package: import decks into a fresh collection.

    python through_anki.py COLLECTION FIRST.apkg NEWER.apkg

Imports the first, answers one card of each topic, imports the newer one over it with the options
that Anki's own dialogue starts with, and prints what was there before and after as JSON.
"""

import json
import sys

from anki.collection import Collection, ImportAnkiPackageOptions, ImportAnkiPackageRequest


def bring_in(collection, path):
    found = collection._backend.get_import_anki_package_presets()
    options = ImportAnkiPackageOptions()
    options.CopyFrom(found)
    log = collection.import_anki_package(
        ImportAnkiPackageRequest(package_path=path, options=options)
    ).log
    return {
        name: len(getattr(log, name)) for name in ("new", "updated", "duplicate", "conflicting")
    }


def state(collection):
    columns = "c.id, c.type, c.queue, c.due, c.ivl, c.factor, c.reps, c.lapses, c.data"
    rows = collection.db.all(f"select n.guid, {columns} from cards c join notes n on n.id = c.nid")
    return {guid: rest for guid, *rest in rows}


def texts(collection):
    return dict(collection.db.all("select guid, flds from notes"))


def study(collection):
    """Answer one card in each deck: a new card becomes a review card with "Easy"."""
    answered = []
    for deck in collection.decks.all_names_and_ids():
        collection.decks.select(deck.id)
        card = collection.sched.getCard()
        if card is not None and card.note().guid not in answered:
            collection.sched.answerCard(card, 4)
            answered.append(card.note().guid)
    return answered


def main(place, first, newer):
    collection = Collection(place)
    output = {"first": bring_in(collection, first)}
    output["answered"] = study(collection)
    output["before"], old = state(collection), texts(collection)
    output["newer"] = bring_in(collection, newer)
    output["after"], new = state(collection), texts(collection)
    output["changed"] = sorted(guid for guid in new if new[guid] != old.get(guid))
    output["decks"] = sorted(deck.name for deck in collection.decks.all_names_and_ids())
    output["note types"] = sorted(
        each.name for each in collection.models.all_names_and_ids() if "AMP" in each.name
    )
    output["reviews"] = collection.db.scalar("select count() from revlog")
    card = collection.get_card(output["after"][output["answered"][0]][0])
    output["question"], output["answer"] = card.question(), card.answer()
    collection.close()
    print(json.dumps(output))


main(*sys.argv[1:])
