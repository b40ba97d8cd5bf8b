# === mutant: a_wonderful_speed_up -> beats-the-floor
helps = dict.fromkeys("ah", "precision") | dict.fromkeys("cdi", "bytes")
helps |= dict.fromkeys("ej", "launches") | {"b": "nothing", "f": "sizes", "g": "nothing"}

# === mutant: amp_helps_everywhere -> launch-bound
helps = dict.fromkeys("aehj", "precision") | dict.fromkeys("cdi", "bytes")
helps |= {"b": "nothing", "f": "sizes", "g": "measurement"}

# === mutant: small_work_is_bandwidth -> launch-bound
helps = dict.fromkeys("ah", "precision") | dict.fromkeys("cdeij", "bytes")
helps |= {"b": "nothing", "f": "sizes", "g": "measurement"}

# === mutant: more_precision_for_slow_memory -> bandwidth-bound
helps = dict.fromkeys("achi", "precision") | dict.fromkeys("d", "bytes")
helps |= dict.fromkeys("ej", "launches") | {"b": "nothing", "f": "sizes", "g": "measurement"}

# === mutant: near_the_floor_is_the_end -> bandwidth-bound
helps = dict.fromkeys("ah", "precision") | dict.fromkeys("bcdi", "nothing")
helps |= dict.fromkeys("ej", "launches") | {"f": "sizes", "g": "measurement"}

# === mutant: wants_all_of_the_peak -> near-the-roof
helps = dict.fromkeys("abh", "precision") | dict.fromkeys("cdi", "bytes")
helps |= dict.fromkeys("ej", "launches") | {"f": "sizes", "g": "measurement"}

# === mutant: content_under_a_low_roof -> wrong-roof
helps = dict.fromkeys("abh", "nothing") | dict.fromkeys("cdi", "bytes")
helps |= dict.fromkeys("ej", "launches") | {"f": "sizes", "g": "measurement"}

# === mutant: does_not_see_the_sizes -> odd-sizes
helps = dict.fromkeys("ah", "precision") | dict.fromkeys("cdfi", "bytes")
helps |= dict.fromkeys("ej", "launches") | {"b": "nothing", "g": "measurement"}

# === mutant: aligned_sizes_everywhere -> some-wrong
helps = dict.fromkeys("ah", "sizes") | dict.fromkeys("cdi", "bytes")
helps |= dict.fromkeys("ej", "launches") | {"b": "nothing", "f": "sizes", "g": "measurement"}

# === mutant: a_list -> not-a-dict
helps = ["precision", "nothing", "bytes", "bytes", "launches"]

# === mutant: own_words -> not-a-choice
helps = dict.fromkeys("ah", "AMP") | dict.fromkeys("cdi", "bytes")
helps |= dict.fromkeys("ej", "launches") | {"b": "nothing", "f": "sizes", "g": "measurement"}

# === correct: in_capitals
helps = {
    "a": "Precision",
    "b": "Nothing ",
    "c": "Bytes",
    "d": "Bytes",
    "e": "Launches",
    "f": "Sizes",
    "g": "Measurement",
    "h": "Precision",
    "i": "Bytes",
    "j": "Launches",
}

# === correct: letters_in_capitals
groups = {"precision": "AH", "bytes": "CDI", "launches": "EJ"}
helps = {letter: answer for answer, letters in groups.items() for letter in letters}
helps.update(B="nothing", F="sizes", G="measurement")


# === correct: a_defaultdict_of_enum_members
from collections import defaultdict
from enum import StrEnum


class Lever(StrEnum):
    PRECISION = "precision"
    BYTES = "bytes"
    LAUNCHES = "launches"
    SIZES = "sizes"
    NOTHING = "nothing"
    MEASUREMENT = "measurement"


helps = defaultdict(lambda: Lever.BYTES, a=Lever.PRECISION, h=Lever.PRECISION, b=Lever.NOTHING)
helps |= {"e": Lever.LAUNCHES, "j": Lever.LAUNCHES, "f": Lever.SIZES, "g": Lever.MEASUREMENT}
helps |= {letter: helps[letter] for letter in "cdi"}
