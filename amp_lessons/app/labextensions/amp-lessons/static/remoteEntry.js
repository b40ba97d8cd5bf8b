// What AMP Lessons adds to JupyterLab: the home page runs by itself, and the cells that are yours to
// edit are marked.
//
// JupyterLab loads this file as it is, with no build: it's written in the form that a bundler would
// give to a "federated extension". `init` gets the modules that JupyterLab shares, and `get` gives
// the plugin. `lab.py` tells JupyterLab where the file lies.

(() => {
  const HOME = "notebooks/home.ipynb";
  // The home page reads like a page: without the code of its parts, and without prompts.
  const STYLE = `
    .amp-lessons-home .amp-lessons-part > .jp-Cell-inputWrapper,
    .amp-lessons-home .amp-lessons-set-up,
    .amp-lessons-home .jp-OutputPrompt,
    .amp-lessons-home .jp-MarkdownCell .jp-InputPrompt,
    .amp-lessons-home .jp-cell-toolbar { display: none; }
    .amp-lessons-home .jp-Collapser { visibility: hidden; }
    .amp-lessons-home .jp-Notebook .jp-MarkdownOutput { padding-left: 0; border-color: transparent; }
    .amp-lessons-yours > .jp-Cell-inputWrapper .jp-InputArea-editor { border-left: 4px solid #3f7fbf; }
  `;
  let shared; // the modules of JupyterLab: { name: { version: { get, loaded } } }

  // A module of JupyterLab. It shares one version of each of its own; another extension may bring
  // a second one, which is not in use.
  async function load(name) {
    const versions = Object.values(shared[name]);
    const used = versions.find((version) => version.loaded) ?? versions[0];
    return (await used.get())();
  }

  const hasTag = (cell, ...tags) =>
    cell.model.type === "code" && (cell.model.getMetadata("tags") ?? []).some((tag) => tags.includes(tag));
  const isPart = (cell) => hasTag(cell, "drawn", "live");

  // Run the parts of the home page, if Jupyter trusts them: the course wrote them, or they ran here
  // before.
  async function runParts({ content, sessionContext }, CodeCell) {
    const parts = content.widgets.filter((cell) => isPart(cell) && cell.model.trusted);
    await Promise.all(parts.map((cell) => CodeCell.execute(cell, sessionContext)));
    return parts.length > 0;
  }

  async function openHome(panel, CodeCell) {
    const { content, context, sessionContext } = panel;
    panel.addClass("amp-lessons-home");
    for (const cell of content.widgets) {
      if (isPart(cell)) cell.addClass("amp-lessons-part");
      if (hasTag(cell, "setup")) cell.addClass("amp-lessons-set-up");
    }
    if (content.activeCellIndex === 0) content.activeCellIndex = 1; // the first is the set-up
    const run = async () => {
      const kernel = sessionContext.session?.kernel;
      if (!kernel) return false; // who stopped it, or chose none, keeps the page as it was stored
      await kernel.info; // its first answer: it's ready
      return !panel.isDisposed && runParts(panel, CodeCell);
    };
    await sessionContext.ready;
    const ran = await run();
    // Nobody has edited anything yet. Unsaved, the page would ask whether to save it when it closes.
    if (ran && context.contentsModel?.writable && !context.isDisposed) await context.save();
    // A new kernel knows nothing of what the page shows.
    sessionContext.kernelChanged.connect(() => void run());
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
