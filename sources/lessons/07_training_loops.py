# %% [markdown]
# # Lesson 07: Real training loops
