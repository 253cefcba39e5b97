#include <algorithm>
#include <cmath>
#include <optional>

#include "trireme/base/error.h"
#include "trireme/planner/hardware/calibrate.h"

namespace trireme::planner {
namespace {

using Rows = std::vector<std::vector<double>>;

// Of the normal equations over some columns, by elimination with the largest pivot; nothing if they are singular.
std::optional<std::vector<double>> solve(const Rows& a, const std::vector<double>& b,
                                         const std::vector<std::size_t>& columns) {
  const std::size_t n = columns.size();
  Rows normal(n, std::vector<double>(n + 1));
  for (std::size_t row = 0; row < a.size(); ++row)
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) normal[i][j] += a[row][columns[i]] * a[row][columns[j]];
      normal[i][n] += a[row][columns[i]] * b[row];
    }
  std::vector<double> scale(n);  // columns differ by many powers of ten
  for (std::size_t i = 0; i < n; ++i) {
    if (normal[i][i] <= 0) return std::nullopt;
    scale[i] = 1 / std::sqrt(normal[i][i]);
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) normal[i][j] *= scale[i] * scale[j];
    normal[i][n] *= scale[i];
  }
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t pivot = i;
    for (std::size_t row = i + 1; row < n; ++row)
      if (std::abs(normal[row][i]) > std::abs(normal[pivot][i])) pivot = row;
    if (std::abs(normal[pivot][i]) < 1e-12) return std::nullopt;
    std::swap(normal[i], normal[pivot]);
    for (std::size_t row = 0; row < n; ++row) {
      if (row == i) continue;
      const double factor = normal[row][i] / normal[i][i];
      for (std::size_t j = i; j <= n; ++j) normal[row][j] -= factor * normal[i][j];
    }
  }
  std::vector<double> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = scale[i] * normal[i][n] / normal[i][i];
  return x;
}

}  // namespace

// There are few columns: the best of all sets of them whose solution is positive.
std::vector<double> least_squares(const Rows& a, const std::vector<double>& b) {
  TRIREME_CHECK(!a.empty() && a.size() == b.size() && a[0].size() < 16, "{} rows for {}", a.size(),
                b.size());
  const std::size_t all = a[0].size();
  std::vector<double> best(all);
  double least = INFINITY;
  for (unsigned set = 1; set < 1u << all; ++set) {
    std::vector<std::size_t> columns;
    for (std::size_t i = 0; i < all; ++i)
      if ((set >> i & 1u) != 0) columns.push_back(i);
    const auto found = solve(a, b, columns);
    if (!found || std::ranges::any_of(*found, [](double x) { return x < 0; })) continue;
    double error = 0;
    for (std::size_t row = 0; row < a.size(); ++row) {
      double sum = -b[row];
      for (std::size_t i = 0; i < columns.size(); ++i) sum += a[row][columns[i]] * (*found)[i];
      error += sum * sum;
    }
    if (error >= least) continue;
    least = error;
    std::ranges::fill(best, 0);
    for (std::size_t i = 0; i < columns.size(); ++i) best[columns[i]] = (*found)[i];
  }
  return best;
}

}  // namespace trireme::planner
