// A line chart as inline SVG, coloured by the page's CSS so that it fits light and dark.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace trireme::train {

struct Series {
  std::string name;                                 // legend
  std::string css_class;                            // "faint", "strong" or "marked" (with dots)
  std::vector<std::pair<double, double>> points{};  // x ascending; not finite: left out
};

struct Chart {
  std::string title{};
  std::string y_label{};
  std::vector<Series> series{};
};

// The chart at 760 x 300 units, scaling with the page. Long series are thinned to means of
// neighbours. Without a finite point it says so in a sentence.
std::string draw(const Chart& chart);

// Text for HTML: & < > " ' escaped, control characters other than newline and tab replaced.
std::string escape_html(const std::string& text);

}  // namespace trireme::train
