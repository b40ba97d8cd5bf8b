"""The command line, JupyterLab, the workspace and its home page, and the doctor."""
