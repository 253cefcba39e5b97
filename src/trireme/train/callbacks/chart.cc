#include "trireme/train/callbacks/chart.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "trireme/base/json.h"
#include "trireme/train/callbacks/text.h"

namespace trireme::train {
namespace {

using Points = std::vector<std::pair<double, double>>;

constexpr double kLeft = 56, kRight = 18, kTop = 8, kBottom = 24;
constexpr std::size_t kMostPoints = 600;

struct Extent {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void take(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  // Space for a line even when all values are equal.
  void widen() {
    if (high - low > 1e-12 * std::max(1.0, std::abs(high))) return;
    const double room = high == 0 ? 0.5 : std::abs(high) / 2;
    low -= room;
    high += room;
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

std::string tick_text(double value, double step) {
  if (std::abs(value) < 1e-9 * step) return "0";
  constexpr double kLong = 10000;
  return std::abs(value) >= kLong ? short_count(value) : fmt::format("{:.6g}", value);
}

// Where points lie on the page.
struct Frame {
  Extent x, y;
  double width, height;

  double right() const { return width - kRight; }
  double bottom() const { return height - kBottom; }
  double left_of(double value) const { return kLeft + x.at(value) * (right() - kLeft); }
  double top_of(double value) const { return bottom() - y.at(value) * (bottom() - kTop); }
};

std::string grid(const Frame& frame) {
  constexpr double kTickHeight = 32, kTickWidth = 75;
  std::string svg;
  const double dy = tick_step(frame.y, std::max(2, static_cast<int>(frame.height / kTickHeight)));
  for (double value = std::ceil(frame.y.low / dy) * dy; value <= frame.y.high + 1e-9 * dy;
       value += dy)
    svg += fmt::format(R"(<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>)"
                       R"(<text x="{}" y="{:.1f}" text-anchor="end">{}</text>)",
                       kLeft, frame.right(), frame.top_of(value), frame.top_of(value), kLeft - 7,
                       frame.top_of(value) + 4, tick_text(value, dy));
  const double dx =
      std::max(1.0, tick_step(frame.x, std::max(2, static_cast<int>(frame.width / kTickWidth))));
  for (double value = std::ceil(frame.x.low / dx) * dx; value <= frame.x.high + 1e-9 * dx;
       value += dx)
    svg += fmt::format(R"(<text x="{:.1f}" y="{}" text-anchor="middle">{}</text>)",
                       frame.left_of(value), frame.bottom() + 17, tick_text(value, dx));
  return svg;
}

std::string line(const Points& points, const Series& series, const Frame& frame) {
  std::string path, dots;
  for (const auto& [px, py] : points) {
    path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "" : " ", frame.left_of(px),
                        frame.top_of(py));
    if (series.css_class == "marked")
      dots += fmt::format(
          R"(<circle class="dot" cx="{:.1f}" cy="{:.1f}" r="3"><title>step {:g}: {:.4f}</title></circle>)",
          frame.left_of(px), frame.top_of(py), px, py);
  }
  return fmt::format(R"(<polyline class="line {}" points="{}"/>{})", series.css_class, path, dots);
}

std::string mark(const ChartMark& mark, const Frame& frame) {
  if (mark.step < frame.x.low || mark.step > frame.x.high) return "";
  const double x = frame.left_of(mark.step);
  return fmt::format(
      R"(<line class="mark" x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}"><title>{3}</title></line>)",
      x, kTop, frame.bottom(), escape_html(mark.text));
}

std::string caption(const Chart& chart) {
  std::string html = "<figcaption><b>" + escape_html(chart.title) + "</b>";
  if (!chart.unit.empty()) html += " <span>" + escape_html(chart.unit) + "</span>";
  std::string legend;
  for (const Series& series : chart.series)
    if (!series.name.empty() && !finite(series.points).empty())
      legend += fmt::format("<span class=\"key {}\">{}</span>", series.css_class,
                            escape_html(series.name));
  return html + "<span class=\"legend\">" + legend + "</span></figcaption>\n";
}

}  // namespace

std::string draw(const Chart& chart) {
  Frame frame{.x = {}, .y = {}, .width = chart.width, .height = chart.height};
  std::vector<Points> lines;
  for (const Series& series : chart.series) {
    lines.push_back(thinned(finite(series.points)));
    for (const auto& [px, py] : lines.back()) {
      frame.x.take(px);
      frame.y.take(py);
    }
  }
  const std::string head = "<figure>\n" + caption(chart);
  if (!(frame.x.low <= frame.x.high))
    return head + "<p>There are no points to draw yet.</p>\n</figure>\n";
  if (chart.from_zero) frame.y.take(0);
  frame.x.widen();
  frame.y.widen();
  std::string svg = fmt::format(R"(<svg viewBox="0 0 {} {}" role="img" aria-label="{}">)",
                                chart.width, chart.height, escape_html(chart.title));
  svg += grid(frame);
  for (const ChartMark& one : chart.marks) svg += mark(one, frame);
  for (std::size_t k = 0; k < lines.size(); ++k)
    if (!lines[k].empty()) svg += line(lines[k], chart.series[k], frame);
  return head + svg + "</svg>\n</figure>\n";
}

std::string escape_html(const std::string& text) {
  // Generated text may contain bytes that are not UTF-8.
  const std::string valid =
      Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace));
  std::string safe;
  for (const char c : valid) switch (c) {
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
