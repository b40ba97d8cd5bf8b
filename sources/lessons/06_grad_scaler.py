# %% [markdown]
# # Lesson 06: GradScaler
