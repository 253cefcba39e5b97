#include "bench/scoreboard/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/base/fs.h"

namespace trireme::scoreboard {
namespace {

// Walks the text, record by record.
class Reader {
 public:
  Reader(std::string_view text, const std::string& file) : text_(text), file_(file) {
    if (text_.starts_with("\xef\xbb\xbf")) text_.remove_prefix(3);
  }

  bool done() const { return at_ == text_.size(); }
  std::size_t line() const { return line_; }

  std::vector<std::string> record() {
    std::vector<std::string> values = {value()};
    while (!done() && !at('\n')) {
      ++at_;  // a comma: value() stops nowhere else
      values.push_back(value());
    }
    if (!done()) ++at_;
    ++line_;
    return values;
  }

 private:
  bool at(char c) const { return at_ < text_.size() && text_[at_] == c; }
  bool at_end_of_value() const {
    return done() || at(',') || at('\n') || text_.substr(at_).starts_with("\r\n");
  }

  [[noreturn]] void refuse(std::size_t line, const char* reason) const {
    fail(ErrorKind::kData, "{}:{}: {}", file_, line, reason);
  }

  std::string value() {
    std::string value;
    if (at('"')) {
      value = quoted();
      if (!at_end_of_value()) refuse(line_, "text after the closing quote of a value");
    } else {
      while (!at_end_of_value()) {
        if (at('"')) refuse(line_, "a quote inside a value; quote the whole and write \"\"");
        value += text_[at_++];
      }
    }
    if (at('\r')) ++at_;
    return value;
  }

  std::string quoted() {
    const std::size_t first = line_;
    std::string value;
    for (++at_;; ++at_) {
      if (done()) refuse(first, "a quote that never closes");
      if (at('"') && text_.substr(at_).starts_with("\"\"")) {
        ++at_;
      } else if (at('"')) {
        ++at_;
        return value;
      }
      line_ += at('\n');
      value += text_[at_];
    }
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
};

}  // namespace

std::optional<double> number_of(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(number)) return {};
  return number;
}

double as_printed(double number, std::string_view printed) {
  const std::size_t point = printed.find('.');
  const std::size_t decimals =
      point == std::string_view::npos
          ? 0
          : std::min(printed.find_first_not_of("0123456789", point + 1), printed.size()) - point -
                1;
  const double unit = std::pow(10.0, static_cast<double>(decimals));
  return std::round(number * unit) / unit;
}

Csv Csv::read(const std::string& path) {
  return parse(read_file(path, std::size_t{1} << 28), path);
}

Csv Csv::parse(std::string_view text, std::string file) {
  Csv csv;
  csv.file_ = std::move(file);
  Reader reader(text, csv.file_);
  if (reader.done())
    fail(ErrorKind::kData, "{}: empty; its first line names the columns", csv.file_);
  csv.columns_ = reader.record();
  for (auto name = csv.columns_.begin(); name != csv.columns_.end(); ++name)
    if (std::find(csv.columns_.begin(), name, *name) != name)
      fail(ErrorKind::kData, "{}:1: two columns are named '{}'", csv.file_, *name);
  while (!reader.done()) {
    const std::size_t line = reader.line();
    std::vector<std::string> values = reader.record();
    if (values.size() == 1 && values.front().empty() && csv.columns_.size() > 1) continue;  // blank
    if (values.size() != csv.columns_.size())
      fail(ErrorKind::kData, "{}:{}: {} values, where line 1 names {} columns", csv.file_, line,
           values.size(), csv.columns_.size());
    csv.rows_.push_back({line, std::move(values)});
  }
  return csv;
}

bool Csv::has(const std::string& column) const { return std::ranges::count(columns_, column) > 0; }

const std::string& Csv::text(std::size_t row, const std::string& column) const {
  const auto at = std::ranges::find(columns_, column);
  if (at == columns_.end()) fail(ErrorKind::kData, "{}: no column '{}'", file_, column);
  return rows_[row].values[static_cast<std::size_t>(at - columns_.begin())];
}

std::optional<double> Csv::number(std::size_t row, const std::string& column) const {
  const std::string& value = text(row, column);
  if (value.empty()) return {};
  const auto number = number_of(value);
  if (!number)
    fail(ErrorKind::kData, "{}:{}: {} '{}' is no number", file_, line(row), column, value);
  return number;
}

double Csv::need(std::size_t row, const std::string& column) const {
  const auto value = number(row, column);
  if (!value) fail(ErrorKind::kData, "{}:{}: {} is empty", file_, line(row), column);
  return *value;
}

int Csv::count(std::size_t row, const std::string& column) const {
  const double number = need(row, column);
  if (number < 1 || number > 1e6 || number != std::floor(number))
    fail(ErrorKind::kData, "{}:{}: {} {:g} is no whole number from 1 to a million", file_,
         line(row), column, number);
  return static_cast<int>(number);
}

bool Csv::flag(std::size_t row, const std::string& column) const {
  const std::string& value = text(row, column);
  if (value == "True" || value == "true" || value == "1") return true;
  if (value == "False" || value == "false" || value == "0") return false;
  unknown(row, column);
}

void Csv::unknown(std::size_t row, const std::string& column) const {
  fail(ErrorKind::kData, "{}:{}: {} '{}' is not known here", file_, line(row), column,
       text(row, column));
}

Csv Csv::only(const std::vector<std::size_t>& rows) const {
  Csv some;
  some.file_ = file_;
  some.columns_ = columns_;
  for (const std::size_t row : rows) some.rows_.push_back(rows_[row]);
  return some;
}

}  // namespace trireme::scoreboard
