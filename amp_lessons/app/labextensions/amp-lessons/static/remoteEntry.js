// What AMP Lessons adds to JupyterLab: the home page runs by itself, and the cells that are yours to
// edit are marked.
//
// JupyterLab loads this file as it is, with no build: it's written in the form that a bundler would
// give to a "federated extension". `init` gets the modules that JupyterLab shares, and `get` gives
// the plugin. `lab.py` tells JupyterLab where the file lies.

(() => {
  const HOME = "notebooks/home.ipynb";
  const STYLE = `
    .amp-lessons-home .jp-CodeCell.amp-lessons-part > .jp-Cell-inputWrapper,
    .amp-lessons-home .jp-CodeCell.amp-lessons-part .jp-OutputPrompt { display: none; }
    .amp-lessons-yours > .jp-Cell-inputWrapper .jp-InputArea-editor {
      border-left: 4px solid #3f7fbf;
    }
  `;
  let shared; // the modules of JupyterLab: { name: { version: { get, loaded } } }

  // A module of JupyterLab. It shares one version of each of its own; another extension may bring
  // a second one, which is not in use.
  async function load(name) {
    const versions = Object.values(shared[name]);
    const used = versions.find((version) => version.loaded) ?? versions[0];
    return (await used.get())();
  }

  const tagsOf = (cell) => cell.model.getMetadata("tags") ?? [];
  const isPart = (cell) =>
    cell.model.type === "code" && ["drawn", "live"].some((tag) => tagsOf(cell).includes(tag));

  // Run the parts of the home page that nobody has changed or added since the course wrote them:
  // Jupyter trusts their outputs.
  function runParts(panel, CodeCell) {
    for (const cell of panel.content.widgets) {
      if (isPart(cell) && cell.model.trusted) void CodeCell.execute(cell, panel.sessionContext);
    }
  }

  async function openHome(panel, CodeCell) {
    panel.addClass("amp-lessons-home");
    for (const cell of panel.content.widgets) if (isPart(cell)) cell.addClass("amp-lessons-part");
    const { sessionContext } = panel;
    await sessionContext.ready;
    // `info` comes with the kernel's first answer. Who stopped it, or chose none, gets the page as
    // it was stored.
    const run = async () => {
      const kernel = sessionContext.session?.kernel;
      if (!kernel) return;
      await kernel.info;
      if (!panel.isDisposed) runParts(panel, CodeCell);
    };
    await run();
    // A new kernel knows nothing of what the page shows.
    sessionContext.kernelChanged.connect(run);
    let restarting = false;
    sessionContext.statusChanged.connect((_, status) => {
      if (status === "restarting") restarting = true;
      else if (restarting && status === "idle") {
        restarting = false;
        void run();
      }
    });
  }

  // nbgrader's name for a cell that holds an answer.
  function markAnswers(notebook) {
    for (const cell of notebook.widgets) {
      if (cell.model.getMetadata("nbgrader")?.solution) cell.addClass("amp-lessons-yours");
    }
  }

  async function opened(panel, CodeCell) {
    await panel.context.ready;
    if (panel.isDisposed) return;
    if (panel.context.path === HOME) await openHome(panel, CodeCell);
    markAnswers(panel.content);
    panel.content.model.cells.changed.connect(() => markAnswers(panel.content));
  }

  async function plugin() {
    const { INotebookTracker } = await load("@jupyterlab/notebook");
    const { CodeCell } = await load("@jupyterlab/cells");
    return {
      id: "amp-lessons:learner",
      description: "Runs the home page of AMP Lessons, and marks the cells to edit.",
      autoStart: true,
      requires: [INotebookTracker],
      activate: (app, tracker) => {
        const style = document.createElement("style");
        style.textContent = STYLE;
        document.head.append(style);
        tracker.widgetAdded.connect((_, panel) => void opened(panel, CodeCell));
        tracker.forEach((panel) => void opened(panel, CodeCell));
      },
    };
  }

  const container = {
    init: (modules) => {
      shared = modules;
    },
    get: async () => {
      const extension = { __esModule: true, default: await plugin() };
      return () => extension;
    },
  };
  (window._JUPYTERLAB ??= {})["amp-lessons"] = container;
})();
