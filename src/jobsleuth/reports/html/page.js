"use strict";
// Filters, searches and pages the findings. Text reaches the page as text only, never as markup.
(() => {
  const get = (id) => document.getElementById(id);
  const data = JSON.parse(get("data").textContent);
  const PAGE = 50;

  // A button's new word is not read out: this is.
  const spoken = document.createElement("p");
  spoken.className = "hidden";
  spoken.setAttribute("role", "status");
  document.querySelector("main").append(spoken);
  for (const button of document.querySelectorAll(".copy")) {
    const code = button.previousElementSibling;
    button.hidden = false;
    button.setAttribute("aria-label", "Copy the command " + code.textContent);
    button.addEventListener("click", () => {
      const said = (word) => {
        button.textContent = word;
        spoken.textContent = word + ": " + code.textContent;
        setTimeout(() => { button.textContent = "Copy"; spoken.textContent = ""; }, 1500);
      };
      const select = () => {
        const range = document.createRange();
        range.selectNodeContents(code);
        getSelection().removeAllRanges();
        getSelection().addRange(range);
        said("Selected");
      };
      if (navigator.clipboard) navigator.clipboard.writeText(code.textContent).then(() => said("Copied"), select);
      else select();
    });
  }

  const open = () => {
    // Sections' names are plain: an address that was cut within an escape names none, and must not stop the rest.
    const target = location.hash.length > 1 && get(location.hash.slice(1));
    if (target && target.tagName === "DETAILS") {
      target.open = true;
      target.scrollIntoView();
      target.querySelector("summary").focus({ preventScroll: true });
    }
  };
  addEventListener("hashchange", open);
  open();
  addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details.job, .card details")) details.open = true;
  });

  if (!data.message || !data.message.length) return;
  const fields = ["text", "severity", "certainty", "check", "queue"];
  const control = Object.fromEntries(fields.map((name) => [name, get("f-" + name)]));
  const total = data.message.length;
  // One lower-case text a finding, made when somebody first searches.
  let haystack = null;
  let found = [];
  let page = 0;

  const element = (tag, text, css) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (css) made.className = css;
    return made;
  };
  const cell = (label, css) => {
    const made = element("td", undefined, css);
    made.dataset.label = label;
    return made;
  };
  const row = (n) => {
    const tr = element("tr");
    const severity = data.severities[data.severity[n]];
    const check = data.checks[data.check[n]];
    const first = cell("severity");
    const both = element("span");
    both.append(element("span", severity, "badge " + severity), " ", element("span", data.certainties[data.certainty[n]], "note"));
    first.append(both);
    const second = cell("check");
    const short = element("abbr", check[0]);
    short.title = check[1];
    second.append(short);
    const third = cell("queue", "wrap");
    third.textContent = data.places[data.queue[n]];
    const fourth = cell("job or key", "id wrap");
    const anchor = data.anchors[n];
    if (anchor) {
      const link = element("a", data.subject[n]);
      link.href = "#" + anchor;
      fourth.append(link);
    } else fourth.textContent = data.subject[n];
    const fifth = cell("what", "what wrap");
    fifth.textContent = data.message[n];
    tr.append(first, second, third, fourth, fifth);
    return tr;
  };
  const show = () => {
    const pages = Math.max(1, Math.ceil(found.length / PAGE));
    page = Math.min(Math.max(page, 0), pages - 1);
    get("f-rows").replaceChildren(...found.slice(page * PAGE, (page + 1) * PAGE).map(row));
    get("f-count").textContent = found.length.toLocaleString("en") + " of " + total.toLocaleString("en") + " findings" + (data.left ? " on this page" : "");
    get("f-page").textContent = "Page " + (page + 1).toLocaleString("en") + " of " + pages.toLocaleString("en");
    get("f-previous").disabled = page === 0;
    get("f-next").disabled = page === pages - 1;
    get("f-pages").hidden = pages === 1;
  };
  const filter = () => {
    const words = control.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length && !haystack) {
      haystack = data.message.map((text, n) =>
        [text, data.subject[n], data.places[data.queue[n]], ...data.checks[data.check[n]]].join("\n").toLowerCase());
    }
    const wanted = fields.slice(1).filter((name) => control[name].value !== "")
      .map((name) => [data[name], Number(control[name].value)]);
    found = [];
    for (let n = 0; n < total; n += 1) {
      if (wanted.every(([column, value]) => column[n] === value) && words.every((word) => haystack[n].includes(word))) found.push(n);
    }
    page = 0;
    show();
  };
  let waiting = 0;
  control.text.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(filter, 120);
  });
  // Leaving the field filters at once: done later, it would take the row away that the next Tab has just reached.
  control.text.addEventListener("change", () => { clearTimeout(waiting); filter(); });
  for (const name of fields.slice(1)) control[name].addEventListener("change", filter);
  get("filters").addEventListener("submit", (event) => { event.preventDefault(); filter(); });
  get("filters").addEventListener("reset", () => setTimeout(filter, 0));
  get("f-previous").addEventListener("click", () => { page -= 1; show(); });
  get("f-next").addEventListener("click", () => { page += 1; show(); });
  // A card's or a queue's own findings.
  for (const link of document.querySelectorAll("a[data-queue]")) {
    link.addEventListener("click", () => {
      get("filters").reset();
      const check = data.checks.findIndex(([id]) => id === link.dataset.check);
      const queue = data.places.indexOf(link.dataset.queue);
      control.check.value = check < 0 ? "" : String(check);
      control.queue.value = queue < 0 ? "" : String(queue);
      setTimeout(filter, 0);
    });
  }
  get("filters").hidden = false;
  filter();
})();
