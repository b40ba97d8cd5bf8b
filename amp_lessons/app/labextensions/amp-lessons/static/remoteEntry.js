// What AMP Lessons adds to JupyterLab: the home page runs by itself, the cells that are yours to edit
// are marked, pictures follow a dark theme, a cell that takes long says so, and one that lacks a name
// from above offers to run the cells above.
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
    /* Dark where it was light and the other way round, in the same hues: white becomes #121212. */
    [data-jp-theme-light="false"] .jp-RenderedHTML img[src^="data:image/png"] {
      filter: invert(0.93) hue-rotate(180deg);
    }
    [data-amp-lessons-runs]::after {
      content: attr(data-amp-lessons-runs);
      display: block;
      padding: 2px 0 2px calc(var(--jp-cell-prompt-width) + 12px);
      color: var(--jp-ui-font-color2);
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

  // ---- cells that take long ---------------------------------------------------------------------

  const LONG = 3; // seconds
  const waiting = new Map(); // notebook: { cells, the first of which runs; since; clock }

  function scheduled(_, { notebook, cell }) {
    if (!waiting.has(notebook)) {
      const clock = setInterval(() => tellTime(notebook), 500);
      waiting.set(notebook, { cells: [], since: performance.now(), clock });
    }
    waiting.get(notebook).cells.push(cell);
  }

  function stopClock(notebook) {
    clearInterval(waiting.get(notebook).clock);
    waiting.delete(notebook);
  }

  function tellTime(notebook) {
    if (notebook.isDisposed) return stopClock(notebook); // closed while a cell ran
    const { cells: [cell], since } = waiting.get(notebook);
    const seconds = Math.floor((performance.now() - since) / 1000);
    if (seconds >= LONG) cell.node.dataset.ampLessonsRuns = `Running for ${seconds} s`;
  }

  function finished(notebook, cell) {
    const queue = waiting.get(notebook);
    if (!queue?.cells.includes(cell)) return;
    delete cell.node.dataset.ampLessonsRuns;
    if (queue.cells[0] === cell) queue.since = performance.now();
    queue.cells = queue.cells.filter((each) => each !== cell && !each.isDisposed);
    if (!queue.cells.length) stopClock(notebook);
  }

  // ---- a cell that was run alone ----------------------------------------------------------------

  // Whether code makes a name: by an assignment, an import, a function, a class or a loop.
  function makes(code, name) {
    const forms = [
      `^\\s*(?:def|class)\\s+${name}\\b`,
      `\\bimport\\s*(?:\\([^)]*|[^\\n]*)\\b${name}\\b`,
      `^\\s*(?:[\\w, ()*]*\\W)?${name}(?:\\s*,[^=\\n]*)?(?:\\s*:[^=\\n]*)?\\s*=(?!=)`,
      `^\\s*(?:for|with)\\b[^\\n]*\\b${name}\\b`,
    ];
    return new RegExp(forms.join("|"), "m").test(code);
  }

  function offerCellsAbove(commands, Notification, notebook, cell, error) {
    const [, name] = /^name '(\w+)' is not defined/.exec(error?.errorValue ?? "") ?? [];
    const place = notebook.widgets.indexOf(cell);
    const above = notebook.widgets.slice(0, Math.max(place, 0));
    if (!name || !above.some(({ model }) => model.type === "code" && makes(model.sharedModel.getSource(), name))) return;
    const run = async () => {
      notebook.activeCellIndex = place;
      await commands.execute("notebook:run-all-above");
      notebook.activeCellIndex = place;
      await commands.execute("notebook:run-cell");
    };
    const actions = [{ label: "Run them, then this one", callback: () => void run() }];
    const said = `${name} is made in a cell above. Run the cells above first: Run > Run All Above Selected Cell.`;
    Notification.warning(said, { actions, autoClose: false });
  }

  // ---- the plugin -------------------------------------------------------------------------------

  async function plugin() {
    const { INotebookTracker, NotebookActions } = await load("@jupyterlab/notebook");
    const { CodeCell } = await load("@jupyterlab/cells");
    const { Notification } = await load("@jupyterlab/apputils");
    return {
      id: "amp-lessons:learner",
      description: "Runs the home page of AMP Lessons, marks the cells to edit, and helps with running them.",
      autoStart: true,
      requires: [INotebookTracker],
      activate: (app, tracker) => {
        const style = document.createElement("style");
        style.textContent = STYLE;
        document.head.append(style);
        tracker.widgetAdded.connect((_, panel) => void opened(panel, CodeCell));
        tracker.forEach((panel) => void opened(panel, CodeCell));
        NotebookActions.executionScheduled.connect(scheduled);
        NotebookActions.executed.connect((_, { notebook, cell, error }) => {
          finished(notebook, cell);
          offerCellsAbove(app.commands, Notification, notebook, cell, error);
        });
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
