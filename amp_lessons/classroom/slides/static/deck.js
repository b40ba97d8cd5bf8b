// Starts reveal.js, makes the type smaller where a slide is too full, and changes light and dark.
(() => {
  const LEAST = 0.5; // of the usual size. With usual fonts the lessons need no less than 0.74.
  const STEP = 0.02;
  const LARGEST = 1.4; // how much larger code and output get where there is room: 26 pixels

  function tooFull(body) {
    const wide = [body, ...body.querySelectorAll("pre, table")];
    return (
      body.scrollHeight > body.clientHeight + 1 ||
      wide.some((part) => part.scrollWidth > part.clientWidth + 1 || part.offsetWidth > body.clientWidth + 1)
    );
  }

  function fit(body) {
    let code = body.querySelector("pre") ? LARGEST : 1;
    body.style.setProperty("--code", code);
    while (tooFull(body) && code > 1) {
      code = Math.max(1, code - 2 * STEP);
      body.style.setProperty("--code", code);
    }
    let size = 1;
    while (tooFull(body) && size > LEAST) {
      size = Math.max(LEAST, size - STEP);
      body.style.setProperty("--fit", size);
    }
    body.classList.toggle("scrolls", tooFull(body));
  }

  function fitAll() {
    const slides = document.querySelector(".slides");
    slides.classList.add("measured");
    slides.querySelectorAll(".body").forEach(fit);
    slides.classList.remove("measured");
  }

  function changeTheme() {
    const root = document.documentElement;
    const dark = getComputedStyle(root).colorScheme === "dark" ||
      (!root.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
    root.dataset.theme = dark ? "light" : "dark";
  }

  fitAll();
  Reveal.initialize({
    width: 1280,
    height: 720,
    margin: 0,
    center: false,
    hash: true,
    navigationMode: "linear", // the arrows then show every slide, none is below another
    slideNumber: "c/t",
    transition: "none",
    controlsTutorial: false,
    pdfMaxPagesPerSlide: 1,
    plugins: [RevealNotes],
  }).then(() => {
    Reveal.addKeyBinding({ keyCode: 84, key: "T", description: "Light or dark" }, changeTheme);
    document.documentElement.dataset.ready = "true";
  });
})();
