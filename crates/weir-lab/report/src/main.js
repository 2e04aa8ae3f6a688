// Draws the charts of the case that is chosen, and again when theme or width change.

const data = JSON.parse(document.getElementById("data").textContent);
const place = document.getElementById("charts");
const choose = document.getElementById("choose");
let charts = [];

function draw() {
  for (const chart of charts) chart.destroy();
  place.replaceChildren();
  const cell = data.cells[choose ? +choose.value : 0];
  charts = cell && cell.time.length > 0 ? drawCell(place, cell, data.observed) : [];
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
if (choose) choose.addEventListener("change", draw);
initTheme(draw);
draw();
