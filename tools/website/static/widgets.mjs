// Widgets on a page without Python. Each place names its module, its values and the files of its
// data. A module is loaded when its place comes near the screen.

const NEAR = "600px";

// What stands in for Python, where a widget asks it: made from the widget's data.
const STANDS_IN = {
  autocast_steps: (data) => import("./autocast_view.mjs").then(({ answering }) => answering(data)),
  order_calls: (data) => import("./recorded_orders.mjs").then(({ answering }) => answering(data)),
  error_lookup: (data) => import("./error_answer.mjs").then(({ answering }) => answering(data)),
};

export function mountAll() {
  const watcher = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting) continue;
        watcher.unobserve(target);
        mountOne(target);
      }
    },
    { rootMargin: NEAR },
  );
  for (const place of document.querySelectorAll("[data-widget]")) watcher.observe(place);
}

async function mountOne(place) {
  const name = place.dataset.widget;
  const { values, data: files } = JSON.parse(place.dataset.given);
  try {
    const [{ mount }, ...loaded] = await Promise.all([
      import(`./${name}.mjs`),
      ...files.map((file) => fetch(file).then((answer) => answer.json())),
    ]);
    const { first, python, attach } = (await STANDS_IN[name]?.(loaded[0])) ?? {};
    const start = first ?? (loaded.length ? { data: loaded[0] } : {});
    place.replaceChildren();
    const model = mount(place, { ...start, ...values }, python);
    attach?.(model);
    place.dataset.there = "";
  } catch (fault) {
    place.textContent = `This widget could not be loaded: ${fault.message}`;
  }
}
