// A line chart as inline SVG, coloured by the page's CSS so that it fits light and dark.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace trireme::train {

struct Series {
  std::string name;                                 // legend; empty: not in it
  std::string css_class;                            // "faint", "strong", "marked" (with dots), ...
  std::vector<std::pair<double, double>> points{};  // x ascending; not finite: left out
};

// A vertical line at a step, with what happened there.
struct ChartMark {
  double step = 0;
  std::string text{};
};

struct Chart {
  std::string title{};
  std::string unit{};  // of the vertical axis; empty: none
  std::vector<Series> series{};
  std::vector<ChartMark> marks{};
  bool from_zero = false;            // the vertical axis has 0
  double width = 860, height = 300;  // units, which scale with the page
};

// A <figure> with caption, legend and the chart. Long series are thinned to means of neighbours. Without a finite point it
// says so in a sentence.
std::string draw(const Chart& chart);

// Text for HTML: & < > " ' escaped; control characters other than newline and tab, and invalid UTF-8, replaced.
std::string escape_html(const std::string& text);

}  // namespace trireme::train
