// The style sheet of report.html.
#pragma once

namespace trireme::train {

inline constexpr char kReportStyle[] = R"(
:root { color-scheme: light dark; --page: #f6f7f9; --card: #fff; --ink: #1b2026; --soft: #5d6772;
  --edge: #e0e4e8; --loss: #0b6e99; --faint: #a9cfdf; --val: #c2410c; --second: #7a5ab5;
  --third: #2f855a; --rule: #8a6d1a; }
@media (prefers-color-scheme: dark) { :root { --page: #12161a; --card: #1a2026; --ink: #e4e8ec;
  --soft: #9aa6b2; --edge: #2c353d; --loss: #5ab4dc; --faint: #2f6580; --val: #f08a4b;
  --second: #b197e0; --third: #6cc08f; --rule: #d1b04f; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 980px; margin: 0 auto; padding: 32px 20px 60px; }
h1 { font-size: 26px; margin: 0; overflow-wrap: anywhere; } h2 { font-size: 17px; margin: 34px 0 12px; }
.sub { color: var(--soft); margin: 4px 0 20px; } h2 + .sub { margin-top: -8px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(172px, 1fr)); gap: 12px; }
.tile, figure, pre, table, .scroll { background: var(--card); border: 1px solid var(--edge); border-radius: 8px; }
.tile { padding: 11px 14px; } .tile b { display: block; font-size: 21px; font-weight: 600; }
.tile span { color: var(--soft); font-size: 13px; display: block; line-height: 1.35; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 400px), 1fr)); gap: 12px; margin-top: 12px; }
figure { margin: 0; padding: 12px 14px; } figure svg { width: 100%; height: auto; display: block; }
figcaption { display: flex; flex-wrap: wrap; gap: 2px 8px; font-size: 14px; margin-bottom: 6px; color: var(--soft); }
figcaption b { color: var(--ink); font-weight: 600; } .legend { margin-left: auto; font-size: 13px; }
.key { margin-left: 14px; color: var(--loss); } .key::before { content: ""; display: inline-block; width: 14px;
  border-top: 2.5px solid currentColor; vertical-align: middle; margin-right: 5px; }
.key.faint { color: var(--soft); } .key.faint::before { border-color: var(--faint); }
.key.marked { color: var(--val); } .key.second { color: var(--second); } .key.third { color: var(--third); }
.key.rule { color: var(--rule); } .key.rule::before { border-top-style: dashed; }
figure svg text { fill: var(--soft); font-size: 12px; } .grid { stroke: var(--edge); }
.line { fill: none; stroke: var(--loss); stroke-width: 1.8; stroke-linejoin: round; }
.line.faint { stroke: var(--faint); stroke-width: 1; } .line.marked { stroke: var(--val); }
.line.second { stroke: var(--second); } .line.third { stroke: var(--third); }
.line.rule { stroke: var(--rule); stroke-width: 1.5; stroke-dasharray: 6 4; }
.mark { stroke: var(--val); stroke-dasharray: 2 3; } .dot { fill: var(--val); }
.scroll { overflow-x: auto; } .scroll table { border: 0; }
table { border-collapse: separate; border-spacing: 0; width: 100%; font-size: 14px; }
th, td { text-align: left; vertical-align: top; padding: 7px 14px; font-weight: 400; }
th { color: var(--soft); } tr + tr > * { border-top: 1px solid var(--edge); }
.numbers td, .numbers th { text-align: right; font-variant-numeric: tabular-nums; }
.numbers :first-child { text-align: left; } .facts th { width: 130px; white-space: nowrap; }
td { overflow-wrap: anywhere; } code { font: 13px/1.5 ui-monospace, monospace; }
pre { margin: 0; padding: 12px 14px; overflow-x: auto; font: 12.5px/1.45 ui-monospace, monospace; }
.written { white-space: pre-wrap; overflow-wrap: anywhere; margin-bottom: 10px; } .written b { color: var(--val); }
.timeline { padding: 8px; background: #fff; } .timeline svg { display: block; }
details summary { cursor: pointer; color: var(--soft); margin-bottom: 8px; }
)";

}  // namespace trireme::train
