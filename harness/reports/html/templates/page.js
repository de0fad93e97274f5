// Search, filters, sorting and copying.  The page is complete without this script: it only adds controls.
(() => {
  "use strict";
  const all = (selector, within = document) => Array.from(within.querySelectorAll(selector));
  const status = document.getElementById("status");

  // --- search and filters -------------------------------------------------------------------------------------------
  const form = document.getElementById("controls");
  const rows = all("#all-findings tbody tr").map(row => {
    const article = document.getElementById(row.dataset.finding)?.closest("article");  // not each row has one
    return {row, article, text: (row.textContent + " " + (article?.textContent ?? "")).toLowerCase()};
  });

  function matches({row, text}) {
    const words = form.elements.words.value.toLowerCase().split(/\s+/).filter(Boolean);
    return words.every(word => text.includes(word))
      && all("select", form).every(one => !one.value || row.dataset[one.name].split("|").includes(one.value));
  }

  function filter() {
    let shown = 0;
    for (const one of rows) {
      const visible = matches(one);
      one.row.hidden = !visible;
      if (one.article) one.article.hidden = !visible;
      shown += visible;
    }
    document.getElementById("shown").textContent = `${shown} of ${rows.length} shown`;
  }

  // A link to a finding that is filtered out shows all findings again.
  function reveal() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target || !target.closest("[hidden]")) return;
    form.reset();
    filter();
    target.scrollIntoView();
  }

  if (form) {
    form.hidden = false;
    form.addEventListener("input", filter);
    form.addEventListener("submit", event => event.preventDefault());
    form.addEventListener("reset", () => setTimeout(filter));  // after the fields are reset
    addEventListener("hashchange", reveal);
    filter();
  }

  // --- sorting ------------------------------------------------------------------------------------------------------
  const ARROWS = {none: "↕", ascending: "↑", descending: "↓"};
  const value = (row, column) => row.cells[column].dataset.sort ?? row.cells[column].textContent.trim();

  function compare(a, b) {
    const [left, right] = [a, b].map(text => Number(text.replaceAll(",", "") || NaN));
    if (!Number.isNaN(left) && !Number.isNaN(right)) return left - right;
    if (Number.isNaN(left) !== Number.isNaN(right)) return Number.isNaN(left) ? -1 : 1;
    return a.localeCompare(b, "en", {numeric: true});
  }

  function sort(table, heading) {
    const headings = all("thead th", table);
    const column = headings.indexOf(heading);
    const order = heading.ariaSort === "ascending" ? "descending" : "ascending";
    for (const one of headings) {
      one.ariaSort = one === heading ? order : "none";
      one.querySelector("button span").textContent = ARROWS[one.ariaSort];
    }
    const sign = order === "ascending" ? 1 : -1;
    const sorted = all("tbody tr", table).sort((a, b) => sign * compare(value(a, column), value(b, column)));
    table.tBodies[0].append(...sorted);
  }

  for (const table of all("table.sortable")) {
    for (const heading of all("thead th", table)) {
      const button = document.createElement("button");
      const arrow = document.createElement("span");
      arrow.ariaHidden = "true";
      arrow.textContent = ARROWS.none;
      button.type = "button";
      button.append(...heading.childNodes, " ", arrow);
      button.addEventListener("click", () => sort(table, heading));
      heading.ariaSort = "none";
      heading.replaceChildren(button);
    }
  }

  // --- copying ------------------------------------------------------------------------------------------------------
  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {  // no permission, or no clipboard outside a secure context
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      const copied = document.execCommand("copy");
      area.remove();
      return copied;
    }
  }

  for (const source of all(".command, .code.whole pre")) {
    const button = document.createElement("button");
    const name = source.dataset.copy ?? source.textContent;
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.ariaLabel = `Copy ${name}`;
    button.addEventListener("click", async () => {
      const done = await copy(source.textContent);
      status.textContent = done ? `Copied ${name}` : `${name} could not be copied: select it instead`;
      button.textContent = done ? "Copied" : "Copy";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    source.after(button);
  }

  reveal();
})();
