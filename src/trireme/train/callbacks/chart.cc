#include "trireme/train/callbacks/chart.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "trireme/train/callbacks/text.h"

namespace trireme::train {
namespace {

using Points = std::vector<std::pair<double, double>>;

constexpr double kWidth = 760, kHeight = 300, kLeft = 58, kRight = 12, kTop = 28, kBottom = 40;
constexpr std::size_t kMostPoints = 600;

struct Extent {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void take(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  // Room for a line even when all values are equal.
  void widen() {
    if (high - low > 1e-12 * std::max(1.0, std::abs(high))) return;
    low -= 0.5;
    high += 0.5;
  }
  double at(double value) const { return (value - low) / (high - low); }
};

Points finite(const Points& points) {
  Points kept;
  for (const auto& p : points)
    if (std::isfinite(p.first) && std::isfinite(p.second)) kept.push_back(p);
  return kept;
}

Points thinned(const Points& points) {
  if (points.size() <= kMostPoints) return points;
  Points means;
  for (std::size_t k = 0; k < kMostPoints; ++k) {
    const std::size_t begin = k * points.size() / kMostPoints,
                      end = (k + 1) * points.size() / kMostPoints;
    double x = 0, y = 0;
    for (std::size_t i = begin; i < end; ++i) {
      x += points[i].first;
      y += points[i].second;
    }
    const auto n = static_cast<double>(end - begin);
    means.emplace_back(x / n, y / n);
  }
  return means;
}

// 1, 2 or 5 times a power of ten, for about `count` ticks.
double tick_step(const Extent& extent, int count) {
  const double raw = (extent.high - extent.low) / count;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (double factor : {1.0, 2.0, 5.0})
    if (raw <= factor * power) return factor * power;
  return 10 * power;
}

double x_of(const Extent& x, double value) {
  return kLeft + x.at(value) * (kWidth - kLeft - kRight);
}
double y_of(const Extent& y, double value) {
  return kHeight - kBottom - y.at(value) * (kHeight - kTop - kBottom);
}

std::string grid(const Extent& x, const Extent& y) {
  std::string svg;
  const double dy = tick_step(y, 5);
  for (double value = std::ceil(y.low / dy) * dy; value <= y.high + 1e-9 * dy; value += dy)
    svg += fmt::format(R"(<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>)"
                       R"(<text x="{}" y="{:.1f}" text-anchor="end">{:g}</text>)",
                       kLeft, kWidth - kRight, y_of(y, value), y_of(y, value), kLeft - 8,
                       y_of(y, value) + 4, std::abs(value) < 1e-9 * dy ? 0.0 : value);
  const double dx = std::max(1.0, tick_step(x, 7));
  for (double value = std::ceil(x.low / dx) * dx; value <= x.high + 1e-9 * dx; value += dx)
    svg += fmt::format(R"(<text x="{:.1f}" y="{}" text-anchor="middle">{}</text>)", x_of(x, value),
                       kHeight - kBottom + 18, short_count(value));
  return svg;
}

std::string line(const Points& points, const Series& series, const Extent& x, const Extent& y) {
  std::string path, dots;
  for (const auto& [px, py] : points) {
    path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "" : " ", x_of(x, px), y_of(y, py));
    if (series.css_class == "marked")
      dots += fmt::format(
          R"(<circle class="dot" cx="{:.1f}" cy="{:.1f}" r="3"><title>step {:g}: {:.4f}</title></circle>)",
          x_of(x, px), y_of(y, py), px, py);
  }
  return fmt::format(R"(<polyline class="line {}" points="{}"/>{})", series.css_class, path, dots);
}

}  // namespace

std::string draw(const Chart& chart) {
  Extent x, y;
  std::vector<Points> lines;
  for (const Series& series : chart.series) {
    lines.push_back(thinned(finite(series.points)));
    for (const auto& [px, py] : lines.back()) {
      x.take(px);
      y.take(py);
    }
  }
  if (!(x.low <= x.high)) return "<p>There are no points to draw yet.</p>\n";
  x.widen();
  y.widen();
  std::string svg = fmt::format(R"(<svg viewBox="0 0 {} {}" role="img" aria-label="{}">)", kWidth,
                                kHeight, escape_html(chart.title));
  svg += grid(x, y);
  std::string legend;
  double at = kWidth - kRight;
  for (std::size_t k = chart.series.size(); k-- > 0;) {
    const Series& series = chart.series[k];
    if (lines[k].empty()) continue;
    legend += fmt::format(R"(<text x="{}" y="{}" text-anchor="end" class="legend {}">{}</text>)",
                          at, kTop - 14, series.css_class, escape_html(series.name));
    at -= 16 + 6.6 * static_cast<double>(series.name.size());
  }
  for (std::size_t k = 0; k < lines.size(); ++k)
    if (!lines[k].empty()) svg += line(lines[k], chart.series[k], x, y);
  svg += fmt::format(
      R"(<text x="{}" y="{}" text-anchor="middle">step</text><text x="{}" y="{}">{}</text>)",
      (kLeft + kWidth - kRight) / 2, kHeight - 6, kLeft + 4, kTop - 14, escape_html(chart.y_label));
  return svg + legend + "</svg>\n";
}

std::string escape_html(const std::string& text) {
  std::string safe;
  for (const char c : text) switch (c) {
      case '&': safe += "&amp;"; break;
      case '<': safe += "&lt;"; break;
      case '>': safe += "&gt;"; break;
      case '"': safe += "&quot;"; break;
      case '\'': safe += "&#39;"; break;
      default:
        safe += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? "?"
                                                                               : std::string(1, c);
    }
  return safe;
}

}  // namespace trireme::train
