# === mutant: nan_means_underflow -> nan-from-underflow
RIGHT = dict.fromkeys("ah", "underflow") | dict.fromkeys("bej", "overflow") | {"d": "no fault"}
RIGHT |= dict.fromkeys("cg", "swamping") | dict.fromkeys("fi", "cancellation")
faults = RIGHT | {"e": "underflow"}

# === mutant: small_ones_underflow -> swamping-as-underflow
RIGHT = dict.fromkeys("ah", "underflow") | dict.fromkeys("bej", "overflow") | {"d": "no fault"}
RIGHT |= dict.fromkeys("cg", "swamping") | dict.fromkeys("fi", "cancellation")
faults = RIGHT | {"c": "underflow", "g": "underflow"}

# === mutant: sixteen_bits_are_sixteen_bits -> bf16-underflows
RIGHT = dict.fromkeys("ah", "underflow") | dict.fromkeys("bej", "overflow") | {"d": "no fault"}
RIGHT |= dict.fromkeys("cg", "swamping") | dict.fromkeys("fi", "cancellation")
faults = RIGHT | {"d": "underflow"}

# === mutant: names_the_symptom -> symptom-not-cause
RIGHT = dict.fromkeys("ah", "underflow") | dict.fromkeys("bej", "overflow") | {"d": "no fault"}
RIGHT |= dict.fromkeys("cg", "swamping") | dict.fromkeys("fi", "cancellation")
faults = RIGHT | {"h": "overflow"}

# === mutant: differences_are_swamped -> cancellation-as-swamping
RIGHT = dict.fromkeys("ah", "underflow") | dict.fromkeys("bej", "overflow") | {"d": "no fault"}
RIGHT |= dict.fromkeys("cg", "swamping") | dict.fromkeys("fi", "cancellation")
faults = RIGHT | {"f": "swamping", "i": "swamping"}

# === mutant: own_words -> not-a-fault
RIGHT = dict.fromkeys("ah", "underflow") | dict.fromkeys("bej", "overflow") | {"d": "no fault"}
RIGHT |= dict.fromkeys("cg", "swamping") | dict.fromkeys("fi", "cancellation")
faults = RIGHT | {"j": "too large"}

# === mutant: all_the_same -> some-wrong
RIGHT = dict.fromkeys("ah", "underflow") | dict.fromkeys("bej", "overflow") | {"d": "no fault"}
RIGHT |= dict.fromkeys("cg", "swamping") | dict.fromkeys("fi", "cancellation")
faults = RIGHT | {"a": "swamping", "j": "no fault"}

# === mutant: a_list -> not-a-dict
faults = ["underflow", "overflow"]

# === correct: one_by_one
faults = {}
faults["a"] = faults["h"] = "underflow"
faults["b"] = faults["e"] = faults["j"] = "overflow"
faults["c"] = faults["g"] = "swamping"
faults["f"] = faults["i"] = "cancellation"
faults["d"] = "no fault"

# === correct: capitals_and_spaces
faults = {"a": "Underflow", "b": "overflow ", "c": " Swamping", "d": "No fault", "e": "OVERFLOW"}
faults |= {"f": "cancellation", "g": "swamping", "h": "underflow", "i": "cancellation"}
faults |= {"j": "overflow"}
