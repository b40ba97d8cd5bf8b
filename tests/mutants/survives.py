# === mutant: positive_only -> sign-forgotten
def survives(x):
    return torch.tensor(x).half() > 0


# === mutant: compares_x_itself -> sign-forgotten
def survives(x):
    return x > 0


# === mutant: half_of_the_smallest -> tie-survives
def survives(x):
    return abs(x) >= 2**-25


# === mutant: never_stored -> not-stored
def survives(x):
    return x != 0.0


# === mutant: stored_in_the_default_dtype -> not-stored
def survives(x):
    return torch.tensor(x).item() != 0


# === mutant: below_eps -> wrong-value
def survives(x):
    return abs(x) > torch.finfo(torch.float16).eps


# === mutant: smallest_number_from_the_table -> smallest-is-the-limit
def survives(x):
    return abs(x) >= 5.960464477539063e-08


# === mutant: finfo_smallest_normal -> smallest-normal-is-the-limit
def survives(x):
    return abs(x) >= torch.finfo(torch.float16).smallest_normal


# === mutant: finfo_tiny -> smallest-normal-is-the-limit
def survives(x):
    limit = torch.finfo(torch.half).tiny
    if x < 0:
        x = -x
    return not x < limit


# === mutant: wrong_sixteen_bits -> bfloat16
def survives(x):
    return bool(torch.tensor(x, dtype=torch.bfloat16) != 0)


# === mutant: returns_the_number -> wrong-type
def survives(x):
    return torch.tensor(x, dtype=torch.float16).item()


# === mutant: forgot_to_return -> returned-none
def survives(x):
    torch.tensor(x, dtype=torch.float16).item() != 0


# === mutant: always -> wrong-value
def survives(x):
    return True


# === correct: by_the_limit
def survives(x):
    return abs(x) > 2**-25


# === correct: zero_dimensional_tensor
def survives(x):
    return torch.tensor(x).half().abs() > 0
