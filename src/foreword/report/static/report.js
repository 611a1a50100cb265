"use strict";
(() => {
  const options = JSON.parse(document.getElementById("options").textContent);
  const drawn = [];

  // Options name colours by the style sheet's variables ("$designed").
  const painted = (value, style) => {
    if (typeof value === "string" && value.startsWith("$")) return style.getPropertyValue("--" + value.slice(1)).trim();
    if (Array.isArray(value)) return value.map((item) => painted(item, style));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, painted(item, style)]));
  };

  const tooltip = (style) => ({
    confine: true,
    backgroundColor: style.getPropertyValue("--paper").trim(),
    borderColor: style.getPropertyValue("--line").trim(),
    textStyle: { color: style.getPropertyValue("--ink").trim(), fontSize: 12 },
  });

  // A view box lets print scale a chart to its column without drawing it again.
  const framed = (chart) => {
    const svg = chart.getDom().querySelector("svg");
    svg.setAttribute("viewBox", `0 0 ${chart.getWidth()} ${chart.getHeight()}`);
  };

  const printing = matchMedia("print");

  const draw = () => {
    const size = printing.matches ? { width: 560, height: 292 } : {};
    const style = getComputedStyle(document.documentElement);
    const font = getComputedStyle(document.body).fontFamily;
    for (const chart of drawn.splice(0)) chart.dispose();
    for (const box of document.querySelectorAll("[data-chart]")) {
      const chart = echarts.init(box, null, { renderer: "svg", ...size });
      const option = painted(options[box.dataset.chart], style);
      option.textStyle = { fontFamily: font };
      option.tooltip = { ...tooltip(style), ...option.tooltip };
      chart.setOption(option);
      framed(chart);
      drawn.push(chart);
    }
  };

  const resize = () => {
    if (printing.matches) return;
    for (const chart of drawn) {
      chart.resize();
      framed(chart);
    }
  };
  draw();
  addEventListener("resize", resize);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  printing.addEventListener("change", draw);
})();
