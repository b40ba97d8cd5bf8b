# %% wrong region-without-its-dtype
# `torch.autocast("cpu")` means bfloat16, and `region` can be float16 too. Pass `dtype=region`.
swap('torch.autocast("cpu", dtype=region)', 'torch.autocast("cpu")')
swap('torch.autocast("cpu", dtype=region)', 'torch.autocast("cpu", dtype=torch.bfloat16)')
swap('torch.autocast("cpu", dtype=region)', 'torch.autocast("cpu", dtype=torch.float16)')
