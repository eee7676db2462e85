"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  const original = [...body.rows];
  const value = (row, column) => {
    const cell = row.cells[column];
    if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
    const text = cell.textContent.trim();
    return text === "" || text === "–" ? null : text;
  };
  // numbers, then infinities and words; what is missing stays at the end in either direction
  const compare = (a, b, direction) => {
    if (a === null || b === null) return (a === null) - (b === null);
    if (typeof a !== typeof b) return direction * (typeof a === "number" ? -1 : 1);
    return direction * (typeof a === "number" ? a - b : a.localeCompare(b, "en"));
  };
  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const next = { ascending: "descending", descending: "none" };
      const order = next[head.getAttribute("aria-sort")] ?? "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      let rows = original;
      if (order !== "none") {
        head.setAttribute("aria-sort", order);
        const direction = order === "ascending" ? 1 : -1;
        rows = [...original].sort((a, b) => compare(value(a, column), value(b, column), direction));
      }
      body.append(...rows);
    });
  });
}
