# %% wrong another-precision
# Your loop left FP16. Its forward pass runs in float32, or in BF16, which is what
# `torch.autocast("cpu")` means without a dtype. Both have a wider range, so nothing overflows any
# more. The task asks for FP16: fix the loop and keep `dtype=torch.float16`.
unwrap("with torch.autocast")
swap(", dtype=torch.float16", "")
