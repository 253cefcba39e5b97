#include "trireme/plan/simulate/pictures/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "trireme/base/text.h"

namespace trireme::simulate::pictures {
namespace {

using plan::Instr;
using plan::Lane;
using plan::PlanSet;

// In pixels.
constexpr double kLeft = 110;
constexpr double kPlot = 1440;
constexpr double kRight = 20;
constexpr double kTop = 70;
constexpr double kBox = 22;
constexpr double kStrip = 4;
constexpr double kMemory = 28;
constexpr double kGap = 12;
constexpr double kDigit = 5.2;
constexpr double kSeen = 0.25;  // what is narrower joins its neighbour

constexpr const char* kBoxClasses[kBoxKinds] = {"f", "b", "i", "w", "r", "s", "o"};

struct StripLane {
  Lane lane;
  const char* style;
  const char* name;
};
constexpr StripLane kStrips[] = {{Lane::kDp, "ld", "data-parallel collectives"},
                                 {Lane::kDown, "ln", "to the next stage"},
                                 {Lane::kUp, "lu", "to the stage before"}};

constexpr const char* kStyle =
    "text{font:10px sans-serif;fill:#222}.h{font-size:14px;font-weight:bold}"
    ".n{font-size:8.5px;text-anchor:middle;fill:#fff;pointer-events:none}.d .n{fill:#222}"
    ".t{text-anchor:middle}.e{text-anchor:end}.g{stroke:#ddd}.m{fill:#cfd8e3;stroke:#7a8899;"
    "stroke-width:.6}.k{fill:#f4f4f4}"
    ".f{fill:#3f6fb5}.b{fill:#3a8f5c}.i{fill:#2a9d9a}.w{fill:#c9822b}.r{fill:#8a5fb0}"
    ".s{fill:#7a4b3a}.o{fill:#999}.c{fill-opacity:.68}"
    ".ld{fill:#b03a48}.ln{fill:#5a6acf}.lu{fill:#cf5ab4}";

std::string escaped(std::string_view text) {
  std::string result;
  for (char c : text) {
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else
      result += c;
  }
  return result;
}

// At most two decimals, none where they are zero.
std::string px(double value) {
  std::string text = fmt::format("{:.2f}", value);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

class Drawing {
 public:
  Drawing(const PlanSet& plan, const std::vector<Timeline>& timelines)
      : plan_(plan), timelines_(timelines), step_(duration(timelines)) {
    for (const Timeline& one : timelines)
      for (std::int64_t live : one.live) most_ = std::max(most_, live);
    for (const StripLane& strip : kStrips)
      for (const plan::List& list : plan.lists)
        if (std::ranges::any_of(list, [&](const Instr& line) { return line.lane == strip.lane; })) {
          strips_.push_back(&strip);
          break;
        }
    row_ = kBox + kStrip * static_cast<double>(strips_.size()) + (most_ > 0 ? kMemory : 0);
  }

  std::string run(const SvgText& text) && {
    const double bottom = kTop + static_cast<double>(timelines_.size()) * (row_ + kGap);
    axis(bottom);
    double y = kTop;
    for (const Timeline& one : timelines_) {
      row(one, y);
      y += row_ + kGap;
    }
    const std::string legend = legend_text();
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
               "height=\"{1}\">\n<style>{2}</style>\n<rect width=\"{0}\" height=\"{1}\" "
               "fill=\"#fff\"/>\n<text class=\"h\" x=\"10\" y=\"20\">{3}</text>\n<text x=\"10\" "
               "y=\"36\">{4}</text>\n",
               px(kLeft + kPlot + kRight), px(bottom + 26), kStyle, escaped(text.title),
               escaped(text.subtitle)) +
           legend + body_ + "</svg>\n";
  }

 private:
  double x(double seconds) const { return step_ > 0 ? seconds / step_ * kPlot : 0; }

  void axis(double bottom) {
    const double per_tick = 1e3 * step_ / 12;
    if (per_tick <= 0) return;
    double tick = std::pow(10, std::floor(std::log10(per_tick)));
    for (const double factor : {2.0, 2.5, 2.0})
      if (tick < per_tick) tick *= factor;
    for (int i = 0; i * tick <= 1e3 * step_ * (1 + 1e-9); ++i) {
      const double at = kLeft + x(i * tick / 1e3);
      body_ += fmt::format(
          "<path class=\"g\" d=\"M{0} {1}V{2}\"/><text class=\"t\" x=\"{0}\" "
          "y=\"{3}\">{4:.6g}{5}</text>\n",
          px(at), px(kTop - 4), px(bottom - 4), px(bottom + 10), i * tick, i == 0 ? " ms" : "");
    }
  }

  void row(const Timeline& one, double y) {
    body_ += fmt::format("<text class=\"e\" x=\"{}\" y=\"{}\">{}</text>\n", px(kLeft - 8),
                         px(y + 15), escaped(one.label));
    if (!one.live.empty())
      body_ += fmt::format("<text class=\"e\" x=\"{}\" y=\"{}\">{}</text>\n", px(kLeft - 8),
                           px(y + row_ - 8),
                           bytes_text(static_cast<double>(std::ranges::max(one.live))));
    body_ += fmt::format(
        "<g transform=\"translate({} {})\">\n<rect class=\"k\" width=\"{}\" "
        "height=\"{}\"/>\n",
        px(kLeft), px(y), px(kPlot), px(kBox));
    for (const Box& box : boxes(plan_, one, step_ * kSeen / kPlot)) draw(box);
    double at = kBox;
    for (const StripLane* strip : strips_) {
      lane(one, *strip, at);
      at += kStrip;
    }
    memory(one, at);
    body_ += "</g>\n";
  }

  void draw(const Box& box) {
    const double left = x(box.start), width = std::max(x(box.end) - left, kSeen);
    if (width >= 1) kinds_.insert(box.kind);
    std::string what(name(box.kind));
    if (box.mb >= 0) what += fmt::format(" of micro-batch {}", box.mb);
    if (box.chunk > 0) what += fmt::format(", chunk {}", box.chunk);
    body_ += fmt::format(
        "<rect class=\"{}{}\" x=\"{}\" width=\"{}\" height=\"{}\"><title>{}: {:.6g} to {:.6g} "
        "ms</title></rect>",
        kBoxClasses[static_cast<int>(box.kind)], box.chunk > 0 ? " c" : "", px(left),
        px(std::max(width - 0.4, kSeen)), px(kBox), what, 1e3 * box.start, 1e3 * box.end);
    const std::string number = box.mb < 0 ? "" : std::to_string(box.mb);
    if (!number.empty() && kDigit * static_cast<double>(number.size()) + 1 <= width)
      body_ += fmt::format("<text class=\"n\" x=\"{}\" y=\"{}\">{}</text>", px(left + width / 2),
                           px(kBox / 2 + 3), number);
    body_ += '\n';
  }

  void lane(const Timeline& one, const StripLane& strip, double y) {
    const plan::List& list = plan_.list(one.rank);
    std::vector<std::pair<double, double>> spans;
    for (std::size_t i = 0; i < list.size(); ++i)
      if (list[i].lane == strip.lane && one.times[i].end > one.times[i].start)
        spans.emplace_back(x(one.times[i].start), x(one.times[i].end));
    std::ranges::sort(spans);
    std::size_t joined = 0;
    for (const auto& span : spans) {
      if (joined > 0 && span.first - spans[joined - 1].second < kSeen)
        spans[joined - 1].second = std::max(spans[joined - 1].second, span.second);
      else
        spans[joined++] = span;
    }
    if (joined == 0) return;
    body_ += fmt::format("<path class=\"{}\" d=\"", strip.style);
    for (std::size_t i = 0; i < joined; ++i)
      body_ += fmt::format("M{} {}h{}v{}H{}z", px(spans[i].first), px(y + 0.5),
                           px(std::max(spans[i].second - spans[i].first, kSeen)), px(kStrip - 1),
                           px(spans[i].first));
    body_ += "\"/>\n";
  }

  void memory(const Timeline& one, double y) {
    if (one.live.empty() || most_ == 0) return;
    const double base = y + kMemory;
    std::vector<std::pair<double, std::int64_t>> seen;  // highest where several would be one pixel
    for (const MemoryPointInTime& point : memory_curve(plan_, one)) {
      if (!seen.empty() && x(point.at) - seen.back().first < 2 * kSeen)
        seen.back().second = std::max(seen.back().second, point.bytes);
      else
        seen.emplace_back(x(point.at), point.bytes);
    }
    body_ += fmt::format("<path class=\"m\" d=\"M0 {}", px(base));
    for (const auto& [at, bytes] : seen)
      body_ += fmt::format(
          "H{}V{}", px(at),
          px(base - (kMemory - 3) * static_cast<double>(bytes) / static_cast<double>(most_)));
    body_ += fmt::format("H{}V{}z\"/>\n", px(kPlot), px(base));
  }

  std::string legend_text() const {
    std::string text;
    double at = kLeft;
    const auto entry = [&](const char* style, std::string_view what) {
      text += fmt::format(
          "<rect class=\"{}\" x=\"{}\" y=\"46\" width=\"10\" height=\"10\"/><text "
          "x=\"{}\" y=\"55\">{}</text>\n",
          style, px(at), px(at + 14), what);
      at += 30 + kDigit * static_cast<double>(what.size());
    };
    for (BoxKind kind : kinds_) entry(kBoxClasses[static_cast<int>(kind)], name(kind));
    for (const StripLane* strip : strips_) entry(strip->style, strip->name);
    if (most_ > 0) entry("m", "memory, up to " + bytes_text(static_cast<double>(most_)));
    return text;
  }

  const PlanSet& plan_;
  const std::vector<Timeline>& timelines_;
  double step_;
  std::int64_t most_ = 0;
  std::vector<const StripLane*> strips_;
  double row_ = 0;
  std::set<BoxKind> kinds_;
  std::string body_;
};

}  // namespace

std::string svg(const PlanSet& plan, const std::vector<Timeline>& timelines, const SvgText& text) {
  return Drawing(plan, timelines).run(text);
}

}  // namespace trireme::simulate::pictures
