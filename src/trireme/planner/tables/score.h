// Score: forecasts beside published measurements, by table.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace trireme::planner::tables {

// One measured number and ours.
struct Case {
  std::string row;       // what a reader finds it by: "175B full_recompute_no_SP"
  std::string quantity;  // "step time", with unit "s"
  std::string unit;
  std::string
      group;  // a family of configurations that cross-validation leaves out together; a section of layouts to choose from
  double measured = 0;
  double forecast = 0;
  std::optional<double> low;  // the band that holds 80 of 100
  std::optional<double> high;
  std::optional<double> null;  // the stupidest model that still works
};

// Rows of a CSV file by the names of its first line. Values are as printed; no value is an empty text.
class Csv {
 public:
  // Throws Error{kData} as "FILE:LINE: ..." for rows of another length than the first line.
  static Csv read(const std::string& path);

  const std::string& file() const { return file_; }
  std::size_t size() const { return rows_.size(); }
  bool has(const std::string& column) const;
  // Throws Error{kData} naming file and column if there is none.
  const std::string& text(std::size_t row, const std::string& column) const;
  // Nothing where the value is empty; throws Error{kData} naming file, line and column where it is no number.
  std::optional<double> number(std::size_t row, const std::string& column) const;
  // Throws where it is empty, too.
  double need(std::size_t row, const std::string& column) const;

 private:
  std::string file_;
  std::vector<std::string> columns_;
  std::vector<std::vector<std::string>> rows_;
};

struct Score {
  std::size_t cases = 0;
  double mape = 0;                 // mean absolute percentage error
  double largest = 0;              // percent
  double bias = 0;                 // mean of signed percentage errors
  std::optional<double> coverage;  // share of cases within their band, in percent
  std::optional<double> null_mape;
  std::optional<double> tau;  // Kendall's, mean over groups of two and more
  std::optional<double>
      regret;  // the measured time of the group's choice over the best of it, mean, in percent
};
// `ranked`: whether a group's cases are layouts to choose from, the smaller the better.
Score score(const std::vector<Case>& cases, bool ranked = false);

}  // namespace trireme::planner::tables
