// Draws the charts of the case that is chosen, and again when theme or width change.

const data = JSON.parse(document.getElementById("data").textContent);
const place = document.getElementById("charts");
const choose = document.getElementById("choose");
const label = document.getElementById("label");
let charts = [];

/** The case that is chosen. */
function chosen() {
  return data.cells[choose ? +choose.value : 0];
}

/** Offers the labels of the case; one label alone is all requests. */
function offerLabels() {
  const labels = chosen()?.labels ?? [];
  label.replaceChildren(...labels.map((found, at) => new Option(at === 0 ? "all" : found.name, at)));
  document.getElementById("labels").hidden = labels.length < 3;
}

function draw() {
  for (const chart of charts) chart.destroy();
  place.replaceChildren();
  const cell = chosen();
  charts = cell && cell.time.length > 0 ? drawCell(place, cell, +label.value, data.observed) : [];
  if (charts.length === 0) {
    const note = document.createElement("p");
    note.className = "notice";
    note.textContent = "Nothing was recorded over time.";
    place.append(note);
  }
  place.dataset.drawn = String(charts.length);
}

let resized = 0;
addEventListener("resize", () => {
  clearTimeout(resized);
  resized = setTimeout(() => {
    for (const chart of charts) chart.setSize({ width: chart.root.parentElement.clientWidth, height: chart.height });
  }, 100);
});
if (choose) choose.addEventListener("change", () => { offerLabels(); draw(); });
label.addEventListener("change", draw);
offerLabels();
initTheme(draw);
draw();
