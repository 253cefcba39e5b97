// Csv: rows of a file of comma-separated values, looked up by the names of its first line.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::scoreboard {

// The whole text as a finite number, such as 1.5e3; nothing where it is none.
std::optional<double> number_of(std::string_view text);

// A number as `printed` would show it: rounded to as many decimals.
double as_printed(double number, std::string_view printed);

// Values are as printed; no value is an empty text. Quotes as in RFC 4180.
class Csv {
 public:
  // Throws Error{kData} as "FILE:LINE: ..." for rows of another length than the first line, quotes that do not close
  // or stand inside a value, and names that come twice.
  static Csv read(const std::string& path);
  static Csv parse(std::string_view text, std::string file);

  // Those of its rows, in this order.
  Csv only(const std::vector<std::size_t>& rows) const;

  const std::string& file() const { return file_; }
  std::size_t size() const { return rows_.size(); }
  std::size_t line(std::size_t row) const { return rows_[row].line; }  // where it begins, from 1
  bool has(const std::string& column) const;
  // Throws Error{kData} naming file and column if there is none.
  const std::string& text(std::size_t row, const std::string& column) const;
  // Nothing where the value is empty; throws Error{kData} naming file, line and column where it is no number.
  std::optional<double> number(std::size_t row, const std::string& column) const;
  // Throws where it is empty, too.
  double need(std::size_t row, const std::string& column) const;
  // Throws where it is no whole number from 1 to a million, too.
  int count(std::size_t row, const std::string& column) const;

  // True, true or 1; False, false or 0; throws for anything else.
  bool flag(std::size_t row, const std::string& column) const;
  // Refuses a value that nothing is known of, as "FILE:LINE: COLUMN 'VALUE' is not known here".
  [[noreturn]] void unknown(std::size_t row, const std::string& column) const;

 private:
  struct Row {
    std::size_t line = 0;
    std::vector<std::string> values;
  };
  std::string file_;
  std::vector<std::string> columns_;
  std::vector<Row> rows_;
};

}  // namespace trireme::scoreboard
