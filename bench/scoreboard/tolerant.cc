#include "bench/scoreboard/tolerant.h"

#include <fmt/core.h>

#include <optional>
#include <utility>

#include "trireme/base/error.h"

namespace trireme::scoreboard {
namespace {

// What `use` says against the rows, if it does.
std::optional<std::string> complaint(const Csv& csv, const std::function<void(const Csv&)>& use) {
  try {
    use(csv);
    return std::nullopt;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    return error.what();
  }
}

}  // namespace

Sifted sift(const Csv& csv, const std::function<void(const Csv&)>& use) {
  if (!complaint(csv, use)) return {.rows = csv};
  Sifted sifted;
  std::vector<std::size_t> taken;
  for (std::size_t row = 0; row < csv.size(); ++row)
    if (auto why = complaint(csv.only({row}), use))
      sifted.refused.push_back({row, std::move(*why)});
    else
      taken.push_back(row);
  sifted.rows = csv.only(taken);
  return sifted;
}

Scorer tolerant(Scorer cases, std::string quantity) {
  return [cases = std::move(cases), quantity = std::move(quantity)](const Csv& csv) {
    std::vector<Case> all;
    const Sifted sifted = sift(csv, [&](const Csv& rows) { all = cases(rows); });
    if (sifted.refused.empty()) return all;
    all = cases(sifted.rows);
    for (const Refusal& one : sifted.refused)
      all.push_back({.row = fmt::format("row {}", one.row + 1),
                     .quantity = quantity,
                     .unscored = one.why,
                     .lines = {csv.line(one.row)}});
    return all;
  };
}

}  // namespace trireme::scoreboard
