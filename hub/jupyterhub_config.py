"""JupyterHub for a class on one machine: `jupyterhub -f hub/jupyterhub_config.py`.

Each learner logs in with a name and the password of the class, and gets a copy of the course and
JupyterLab on its home page. This is the try-out: all learners share one account of the machine, and
the page opens on this machine only. `docs/jupyterhub.md` says what to change for a real class.
"""

import os
import secrets
import shutil
import sys
from pathlib import Path

from amp_lessons.app.lab import EXTENSIONS, settings
from amp_lessons.app.workspace import START_PAGE

c = get_config()  # noqa: F821 - Jupyter's loader brings it

# All that the hub keeps: its database, its password and the learners' homes.
CLASS = Path(os.environ.get("AMP_LESSONS_CLASS", "amp-class")).resolve()
CLASS.mkdir(mode=0o700, parents=True, exist_ok=True)

# ---- the hub and its proxy ----------------------------------------------------------------------

c.JupyterHub.bind_url = "http://127.0.0.1:8000"
c.JupyterHub.db_url = f"sqlite:///{CLASS / 'jupyterhub.sqlite'}"
c.JupyterHub.cookie_secret_file = str(CLASS / "cookie_secret")
c.ConfigurableHTTPProxy.pid_file = str(CLASS / "proxy.pid")

# `npm install --prefix .venv` puts the proxy here; elsewhere it is looked for on the PATH.
proxy = Path(sys.prefix, "node_modules/.bin/configurable-http-proxy")
if proxy.exists():
    c.ConfigurableHTTPProxy.command = str(proxy)
elif shutil.which("configurable-http-proxy") is None:
    sys.exit(
        "configurable-http-proxy is not installed: npm install --prefix "
        f"{sys.prefix} configurable-http-proxy@5.1.0"
    )

# ---- who may log in -----------------------------------------------------------------------------

password = CLASS / "password"
if not password.exists():
    password.touch(mode=0o600)
    password.write_text(secrets.token_urlsafe(9) + "\n")
print(f"Learners log in with a name of their own and the password in {password}", file=sys.stderr)

# Anyone with the password can log in under every name. To swap: docs/jupyterhub.md, "Accounts".
c.JupyterHub.authenticator_class = "shared-password"
c.SharedPasswordAuthenticator.user_password = password.read_text().strip()
c.Authenticator.allow_all = True
c.Authenticator.username_pattern = r"[a-z0-9][a-z0-9._-]{0,40}\Z"  # it names the learner's folder

# ---- what a learner gets ------------------------------------------------------------------------

# No accounts on the machine are needed, and nothing keeps learners apart. To swap: "Spawners".
c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = str(CLASS / "homes" / "{username}")

# The script brings the learner's copy of the course up to date, then starts JupyterLab there.
c.Spawner.cmd = [sys.executable, str(Path(__file__).resolve().parent / "learner_server.py")]
c.Spawner.default_url = f"/lab/tree/{START_PAGE}"
# JupyterLab keeps a kernel when its tab is closed. After an hour that memory goes back to the room.
c.Spawner.args = ["--MappingKernelManager.cull_idle_timeout=3600"]
c.Spawner.args += [f"--LabApp.extra_labextensions_path={EXTENSIONS}"]  # the home page runs itself
c.Spawner.environment = {
    "JUPYTER_CONFIG_PATH": settings(),  # no question about news, and no menus of nbgrader
    "OMP_NUM_THREADS": "1",  # else each learner's PyTorch takes all cores
}
# Seconds. When a room logs in at once, the last server starts when the cores are free for it.
c.Spawner.start_timeout = 300
c.Spawner.http_timeout = 300
