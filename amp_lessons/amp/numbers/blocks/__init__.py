"""Block-scaled formats by hand: MXFP8, MXFP6, MXFP4 and NVFP4, and FP8 with scales in FP32."""
