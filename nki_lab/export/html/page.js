// Puts the drawings into the page, in the colours of its style sheet, also when the reader's preference changes.
(function () {
  const place = document.getElementById("drawing");
  const figures = document.getElementById("figures");
  if (!place || !figures) return;
  const kinds = ["tensor", "vector", "scalar", "gpsimd", "sync", "dma", "cc"];
  const token = (name) => getComputedStyle(document.documentElement).getPropertyValue("--nki-" + name).trim();
  const is_value = (current) => typeof current === "object" && current !== null;

  function paint(model) {
    for (const tag of model.tags) {
      if (tag === "palette") model.palette = kinds.map(token);
      else if (typeof tag === "string" && tag.includes("=")) {
        const [property, name] = tag.split("=");
        model[property] = is_value(model[property]) ? { value: token(name) } : token(name);
      }
    }
  }

  Bokeh.embed.embed_item(JSON.parse(figures.textContent)).then((views) => {
    const [view] = views.roots ?? views;
    const documents = [view.model.document];
    const paint_all = () => documents.forEach((one) => one.all_models.forEach(paint));
    paint_all();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint_all);
    const time = view.model.document.get_model_by_name("time");
    place.addEventListener("dblclick", () => { time.start = time.bounds[0]; time.end = time.bounds[1]; });
    place.dataset.state = "drawn";
  }).catch((error) => {
    place.textContent = "The timeline could not be drawn: " + error.message;
    console.error(error);
  });
})();
