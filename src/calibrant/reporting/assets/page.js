// Draws the charts of the page when they are seen, and does what its controls say. No number is made here.
"use strict";
(() => {
  const parsed = (element) => JSON.parse(element.textContent);
  const shared = parsed(document.getElementById("shared"));
  const charts = shared.charts.map((text) => ({ text, spec: null }));
  const chartOf = (k) => (charts[k].spec ??= JSON.parse(charts[k].text));
  const make = (tag, text) => Object.assign(document.createElement(tag), text === undefined ? {} : { textContent: text });
  const shown = (value) => {
    if (value === null || value === undefined) return "";
    if (typeof value !== "number") return String(value);
    return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)));
  };

  // ------------------------------------------------------------------------------------------------ figures
  const figures = new Map();
  const NARROW = 440;

  const known = (figure) => {
    if (!figures.has(figure)) {
      const data = parsed(document.getElementById(figure.id + "-data"));
      figures.set(figure, { data, drawn: null, view: null });
    }
    return figures.get(figure);
  };
  const chosen = (figure) => {
    const { data } = known(figure);
    const key = [...figure.querySelectorAll(".controls select")].map((select) => select.value).join("|");
    return key in data.data ? key : Object.keys(data.data)[0];
  };
  const rowsOf = (columns) => {
    const names = Object.keys(columns);
    const size = names.length ? columns[names[0]].length : 0;
    return Array.from({ length: size }, (_, k) => Object.fromEntries(names.map((name) => [name, columns[name][k]])));
  };
  const specOf = (figure, colours) => {
    const { data } = known(figure);
    let spec = structuredClone(chartOf(data.chart));
    const room = figure.querySelector(".canvas").clientWidth;
    if (!colours && room > 0 && room < NARROW) {  // names give way to what they stand beside
      spec = JSON.parse(JSON.stringify(spec), (key, value) => {
        if (key === "axis" && value?.labelLimit) value.labelLimit = Math.min(value.labelLimit, 100);
        return value;
      });
    }
    if (colours) {
      const text = JSON.stringify(spec).replace(/var\(--([a-z]+)\)/g, (all, name) => colours[name] ?? all);
      spec = JSON.parse(text);
      spec.background = colours.paper;
    }
    spec.description = data.said;
    const rows = rowsOf(data.data[chosen(figure)]);
    spec.datasets = { ...spec.datasets, rows };
    if (spec.height?.step) {  // so high for each name of a list; Vega-Lite would say that it cannot fit it
      const field = spec.layer.find((layer) => layer.encoding?.y?.field).encoding.y.field;
      const names = new Set(rows.filter((row) => row.drawn !== false).map((row) => row[field]));
      spec.height = spec.height.step * Math.max(names.size, 1);
    }
    return spec;
  };

  // What is shown where one points: what is not known, which Vega calls null, is left out.
  const pointedAt = (told, escaped) => {
    const lines = Object.entries(told).filter(([, value]) => value !== null && value !== "null");
    return "<table>" + lines.map(([name, value]) =>
      `<tr><td class="key">${escaped(name)}</td><td class="value">${escaped(value)}</td></tr>`).join("") + "</table>";
  };

  const draw = async (figure) => {
    const state = known(figure);
    const key = chosen(figure);
    if (state.drawn === key) return;
    state.drawn = key;
    const place = figure.querySelector(".canvas");
    try {
      // Vega's warnings, as of a chart in which nothing is known of one column, are not for those who read the page.
      const options = { actions: false, renderer: "svg", ast: false, logLevel: 1, tooltip: { formatTooltip: pointedAt } };
      const done = await vegaEmbed(place, specOf(figure), options);
      state.view?.finalize();
      state.view = done.view;
      for (const mark of place.querySelectorAll('[aria-label*=": null"]'))
        mark.setAttribute("aria-label", mark.getAttribute("aria-label").replace(/(; )?[^;]*: null(?=;|$)/g, "").replace(/^; /, ""));
      // Marks that nothing is said of, and layers without any, are not read out.
      for (const mute of place.querySelectorAll('[role="graphics-symbol"]:not([aria-label])'))
        mute.setAttribute("aria-hidden", "true");
      figure.dataset.drawn = key || "yes";
    } catch (error) {
      place.replaceChildren(Object.assign(make("p", "This chart could not be drawn; its numbers are below."), { className: "failed" }));
      figure.dataset.drawn = "failed";
      console.error(error);
    }
  };

  const headed = (figure) => {
    const { data } = known(figure);
    const columns = data.data[chosen(figure)];
    return { columns, names: Object.keys(data.heads).filter((name) => name in columns), heads: data.heads };
  };
  const tableOf = (names, heads, rows) => {
    const table = make("table"), head = make("tr"), body = make("tbody");
    const isText = (name) => rows.some((row) => typeof row[name] === "string");
    for (const name of names)
      head.append(Object.assign(make("th", heads[name]), { scope: "col", className: isText(name) ? "text" : "" }));
    for (const row of rows) {
      const line = make("tr");
      for (const name of names) {
        const cell = make("td", shown(row[name]));
        if (typeof row[name] === "string") cell.className = row[name].length > 40 ? "text" : "text short";
        line.append(cell);
      }
      body.append(line);
    }
    const top = make("thead");
    top.append(head);
    table.append(top, body);
    return table;
  };
  const number = (figure) => {
    const details = figure.querySelector(".numbers");
    if (!details.open) return;
    const { columns, names, heads } = headed(figure);
    const place = Object.assign(make("div"), { className: "scroll", tabIndex: 0 });
    place.setAttribute("role", "region");
    place.setAttribute("aria-label", figure.querySelector("h3").textContent + ", numbers");
    place.append(tableOf(names, heads, rowsOf(columns)));
    details.querySelector(".scroll")?.remove();
    details.append(place);
  };

  // ---------------------------------------------------------------------------------------------- downloads
  const save = (name, url) => {
    const link = Object.assign(make("a"), { href: url, download: name });
    document.body.append(link);
    link.click();
    link.remove();
  };
  const saveText = (name, text, type) => {
    const url = URL.createObjectURL(new Blob([text], { type }));
    save(name, url);
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  };
  const quoted = (value) => {
    if (typeof value === "number") return String(value);
    let text = value === null || value === undefined ? "" : String(value);
    if (/^\s*[=+\-@\t\r]/.test(text)) text = "'" + text;
    return /[",\n\r]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  };
  const csvOf = (figure) => {
    const { columns, names, heads } = headed(figure);
    const lines = [names.map((name) => quoted(heads[name]))];
    for (const row of rowsOf(columns)) lines.push(names.map((name) => quoted(row[name])));
    return lines.map((line) => line.join(",") + "\n").join("");
  };
  const drawnApart = async (figure) => {
    const spec = specOf(figure, shared.light);
    if (spec.width === "container") spec.width = 560;
    return (await vegaEmbed(make("div"), spec, { actions: false, renderer: "svg" })).view;
  };
  const take = async (figure, form) => {
    const name = known(figure).data.name;
    if (form === "csv") return saveText(name + ".csv", csvOf(figure), "text/csv");
    const view = await drawnApart(figure);
    if (form === "svg") saveText(name + ".svg", await view.toSVG(), "image/svg+xml");
    else save(name + ".png", (await view.toCanvas(2)).toDataURL("image/png"));
    view.finalize();
  };

  // ------------------------------------------------------------------------------------------------- panels
  const panels = [...document.querySelectorAll(".panel")];
  const sections = [...document.querySelectorAll("main section")];
  const choose = (subject) => {
    for (const panel of panels) panel.hidden = panel.dataset.subject !== String(subject);
    for (const section of sections) {
      const own = [...section.querySelectorAll(".panel")];
      const empty = own.length > 0 && own.every((panel) => panel.hidden) && ![...section.children].some(
        (child) => !child.matches(".panel, h2, .lead"));
      section.hidden = empty;
      const link = document.querySelector(`nav a[href="#${section.id}"]`);
      if (link) link.parentElement.hidden = empty;
    }
    fill();
  };

  // --------------------------------------------------------------------------------------------------- rows
  const list = (block) => {
    const { heads, rows } = (block.known ??= parsed(block.querySelector("script")));
    const sliders = [...block.querySelectorAll("input[type=range]")];
    const kept = rows.filter((row) => sliders.every((slider) => {
      const value = row[slider.dataset.column];
      return typeof value !== "number" || value >= Number(slider.value) - 1e-9;  // what is no number is never left out
    }));
    for (const slider of sliders) slider.parentElement.querySelector("output").textContent = shown(Number(slider.value));
    block.querySelector(".note").textContent = `${kept.length} of the ${rows.length} worst rows`;
    const titles = Object.fromEntries(heads);
    block.querySelector(".scroll").replaceChildren(tableOf(heads.map(([name]) => name), titles, kept));
  };

  // -------------------------------------------------------------------------------------------------- start
  const every = [...document.querySelectorAll("figure.chart")];
  const visible = (element) => element.offsetParent !== null;
  const waiting = () => every.filter((figure) => visible(figure) && !known(figure).drawn && known(figure).drawn !== "");
  const idle = window.requestIdleCallback ?? ((work) => setTimeout(work, 50));
  // What is not seen yet is drawn when there is nothing else to do, so that print finds all of it.
  const fill = () => idle(() => {
    const next = waiting()[0];
    if (next) draw(next).then(fill);
    else document.documentElement.dataset.ready = "yes";
  });
  const watch = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) draw(entry.target);
  }, { rootMargin: "300px" });

  for (const figure of every) {
    watch.observe(figure);
    figure.querySelector(".controls")?.addEventListener("change", () => { draw(figure); number(figure); });
    figure.querySelector(".numbers").addEventListener("toggle", () => number(figure));
    for (const button of figure.querySelectorAll("[data-take]"))
      button.addEventListener("click", () => take(figure, button.dataset.take));
  }
  for (const block of document.querySelectorAll(".rows")) {
    block.addEventListener("input", () => list(block));
    list(block);
  }
  for (const button of document.querySelectorAll("[data-copy]"))
    button.addEventListener("click", async () => {
      const text = button.parentElement.querySelector("pre").textContent;
      try {
        await navigator.clipboard.writeText(text);
      } catch {
        const range = document.createRange();
        range.selectNodeContents(button.parentElement.querySelector("pre"));
        getSelection().removeAllRanges();
        getSelection().addRange(range);
        document.execCommand("copy");
      }
      button.dataset.label ??= button.textContent;
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = button.dataset.label; }, 1500);
    });

  const theme = document.getElementById("theme"), dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
  const labelled = () => theme.setAttribute("aria-pressed", String(isDark()));
  theme.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    labelled();
  });
  dark.addEventListener("change", labelled);
  labelled();

  const chooser = document.getElementById("subject");
  chooser?.addEventListener("change", () => choose(chooser.value));
  choose(chooser ? chooser.value : 0);
})();
