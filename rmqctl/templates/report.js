"use strict";
const keyOf = (row, column) => {
  const cell = row.cells[column];
  return cell.dataset.k === undefined ? cell.textContent : Number(cell.dataset.k);
};
const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
const sortBy = (heading) => {
  const table = heading.closest("table"), body = table.tBodies[0], column = heading.cellIndex;
  const falling = heading.getAttribute("aria-sort") === "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", falling ? "descending" : "ascending");
  const rows = [...body.rows].sort((a, b) => compare(keyOf(a, column), keyOf(b, column)));
  body.append(...(falling ? rows.reverse() : rows));
};
for (const heading of document.querySelectorAll("th")) {
  heading.addEventListener("click", () => sortBy(heading));
  heading.addEventListener("keydown", (event) => { if (event.key === "Enter") sortBy(heading); });
}
for (const field of document.querySelectorAll("input[type=search]")) {
  const body = field.nextElementSibling.querySelector("tbody");
  field.addEventListener("input", () => {
    const wanted = field.value.toLowerCase();
    for (const row of body.rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
  });
}
