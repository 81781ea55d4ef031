// Draws charts when they scroll into view and connects the controls. Computes no numbers.
"use strict";
(() => {
  const parsed = (element) => JSON.parse(element.textContent);
  const shared = parsed(document.getElementById("shared"));
  const charts = shared.charts.map((text) => ({ text, spec: null }));
  const chartOf = (k) => (charts[k].spec ??= JSON.parse(charts[k].text));
  const make = (tag, text) => Object.assign(document.createElement(tag), text === undefined ? {} : { textContent: text });
  const formatted = (value) => {
    if (value === null || value === undefined) return "";
    if (typeof value !== "number") return String(value);
    return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)));
  };

  // ------------------------------------------------------------------------------------------------ figures
  const figures = new Map();
  const NARROW = 440;

  const stateOf = (figure) => {
    if (!figures.has(figure)) {
      const data = parsed(document.getElementById(figure.id + "-data"));
      figures.set(figure, { data, drawn: null, view: null });
    }
    return figures.get(figure);
  };
  const chosen = (figure) => {
    const { data } = stateOf(figure);
    const key = [...figure.querySelectorAll(".controls select")].map((select) => select.value).join("|");
    return key in data.data ? key : Object.keys(data.data)[0];
  };
  const rowsOf = (columns) => {
    const names = Object.keys(columns);
    const size = names.length ? columns[names[0]].length : 0;
    return Array.from({ length: size }, (_, k) => Object.fromEntries(names.map((name) => [name, columns[name][k]])));
  };
  const specOf = (figure, colours) => {
    const { data } = stateOf(figure);
    let spec = structuredClone(chartOf(data.chart));
    const room = figure.querySelector(".canvas").clientWidth;
    if (!colours && room > 0 && room < NARROW) {  // leave room for the marks
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
    spec.description = data.description;
    const rows = rowsOf(data.data[chosen(figure)]);
    spec.datasets = { ...spec.datasets, rows };
    if (spec.height?.step) {  // a step for each name; Vega-Lite cannot fit steps to a container
      const field = spec.layer.find((layer) => layer.encoding?.y?.field).encoding.y.field;
      const names = new Set(rows.filter((row) => row.drawn !== false).map((row) => row[field]));
      spec.height = spec.height.step * Math.max(names.size, 1);
    }
    return spec;
  };

  // The tooltip without missing values, which Vega shows as null.
  const tooltipOf = (fields, escaped) => {
    const lines = Object.entries(fields).filter(([, value]) => value !== null && value !== "null");
    return "<table>" + lines.map(([name, value]) =>
      `<tr><td class="key">${escaped(name)}</td><td class="value">${escaped(value)}</td></tr>`).join("") + "</table>";
  };

  const draw = async (figure) => {
    const state = stateOf(figure);
    const key = chosen(figure);
    if (state.drawn === key) return;
    state.drawn = key;
    const place = figure.querySelector(".canvas");
    try {
      // Readers of the page need no warnings from Vega, for example of a column without values.
      const options = { actions: false, renderer: "svg", ast: false, logLevel: 1, tooltip: { formatTooltip: tooltipOf } };
      const done = await vegaEmbed(place, specOf(figure), options);
      state.view?.finalize();
      state.view = done.view;
      for (const mark of place.querySelectorAll('[aria-label*=": null"]'))
        mark.setAttribute("aria-label", mark.getAttribute("aria-label").replace(/(; )?[^;]*: null(?=;|$)/g, "").replace(/^; /, ""));
      // Screen readers skip marks without a description and empty layers.
      for (const silent of place.querySelectorAll('[role="graphics-symbol"]:not([aria-label])'))
        silent.setAttribute("aria-hidden", "true");
      figure.dataset.drawn = key || "yes";
    } catch (error) {
      place.replaceChildren(Object.assign(make("p", "This chart could not be drawn; its data are below."), { className: "failed" }));
      figure.dataset.drawn = "failed";
      console.error(error);
    }
  };

  const tableData = (figure) => {
    const { data } = stateOf(figure);
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
        const cell = make("td", formatted(row[name]));
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
  const fillTable = (figure) => {
    const details = figure.querySelector(".numbers");
    if (!details.open) return;
    const { columns, names, heads } = tableData(figure);
    const place = Object.assign(make("div"), { className: "scroll", tabIndex: 0 });
    place.setAttribute("role", "region");
    place.setAttribute("aria-label", figure.querySelector("h3").textContent + ", data");
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
    const { columns, names, heads } = tableData(figure);
    const lines = [names.map((name) => quoted(heads[name]))];
    for (const row of rowsOf(columns)) lines.push(names.map((name) => quoted(row[name])));
    return lines.map((line) => line.join(",") + "\n").join("");
  };
  const lightView = async (figure) => {
    const spec = specOf(figure, shared.light);
    if (spec.width === "container") spec.width = 560;
    return (await vegaEmbed(make("div"), spec, { actions: false, renderer: "svg" })).view;
  };
  const download = async (figure, form) => {
    const name = stateOf(figure).data.name;
    if (form === "csv") return saveText(name + ".csv", csvOf(figure), "text/csv");
    const view = await lightView(figure);
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
    const { heads, rows } = (block.parsed ??= parsed(block.querySelector("script")));
    const sliders = [...block.querySelectorAll("input[type=range]")];
    const selected = rows.filter((row) => sliders.every((slider) => {
      const value = row[slider.dataset.column];
      return typeof value !== "number" || value >= Number(slider.value) - 1e-9;  // text is never filtered out
    }));
    for (const slider of sliders) slider.parentElement.querySelector("output").textContent = formatted(Number(slider.value));
    block.querySelector(".note").textContent = `${selected.length} of the ${rows.length} worst rows`;
    const titles = Object.fromEntries(heads);
    block.querySelector(".scroll").replaceChildren(tableOf(heads.map(([name]) => name), titles, selected));
  };

  // -------------------------------------------------------------------------------------------------- start
  const every = [...document.querySelectorAll("figure.chart")];
  const visible = (element) => element.offsetParent !== null;
  const waiting = () => every.filter((figure) => visible(figure) && !stateOf(figure).drawn && stateOf(figure).drawn !== "");
  const idle = window.requestIdleCallback ?? ((work) => setTimeout(work, 50));
  // Charts out of view are drawn when the browser is idle, so that printing includes them.
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
    figure.querySelector(".controls")?.addEventListener("change", () => { draw(figure); fillTable(figure); });
    figure.querySelector(".numbers").addEventListener("toggle", () => fillTable(figure));
    for (const button of figure.querySelectorAll("[data-download]"))
      button.addEventListener("click", () => download(figure, button.dataset.download));
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
