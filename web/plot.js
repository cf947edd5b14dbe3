/* Times of steps as a plot to hover and zoom in, where the plot library is in the page (an own script before this one). */
function stepPlot() {
  const report = json("gw-report");
  const box = byId("plot");
  const times = report && report.steps && report.steps.times_ns;
  if (!box || !times || times.length < 2 || typeof uPlot === "undefined") return;
  const ms = times.map((t) => t / 1e6);
  const median = report.steps.median_ns / 1e6;
  let plot = null;
  const draw = () => {
    if (plot) plot.destroy();
    const ink = colour("ink-2"), grid = colour("rule"), font = "12px " + getComputedStyle(document.body).fontFamily;
    const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 }, font, labelFont: font };
    plot = new uPlot({
      width: box.clientWidth, height: 220, legend: { live: true },
      cursor: { drag: { x: true, y: false }, points: { size: 7 } },
      scales: { x: { time: false }, y: { range: (u, lo, hi) => [0, hi * 1.05] } },
      axes: [{ ...axis, label: say("step_number"), labelSize: 22, size: 34, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000] },
             { ...axis, label: say("step_time"), labelSize: 22, size: 52 }],
      series: [{ label: say("step_number"), value: (u, v) => (v == null ? "\u2013" : String(v)) },
               { label: say("step_time"), stroke: colour("k-compute"), width: 1.5, points: { show: times.length < 300, size: 5, fill: colour("k-compute") },
                 value: (u, v) => (v == null ? "\u2013" : v.toFixed(3)) },
               { label: say("median"), stroke: colour("ink-2"), width: 1, dash: [4, 4], points: { show: false },
                 value: (u, v) => (v == null ? "\u2013" : v.toFixed(3)) }]
    }, [ms.map((_, i) => i + 1), ms, ms.map(() => median)], box);
  };
  box.hidden = false;
  root.classList.add("js-plot");
  draw();
  themed.push(draw);
  let width = box.clientWidth;
  new ResizeObserver(() => {
    if (box.clientWidth && box.clientWidth !== width) { width = box.clientWidth; plot.setSize({ width, height: 220 }); }
  }).observe(box);
}
stepPlot();
