"""What all other wings stand on: the catalogue, progress, notebook files, boxes, the terminal,
errors and messages. Nothing here imports torch.
"""
