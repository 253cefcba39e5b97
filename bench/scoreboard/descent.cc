#include "bench/scoreboard/descent.h"

#include <algorithm>
#include <cmath>

namespace trireme::scoreboard {
namespace {

constexpr double kSmall = 0.01;  // errors below count as squares
constexpr double kPrior = 0.07;  // what a distance of a spread weighs, twice

using Rows = std::vector<std::vector<double>>;

// Of a positive definite matrix, by elimination.
std::vector<double> solved(Rows a, std::vector<double> b) {
  const std::size_t n = b.size();
  for (std::size_t k = 0; k < n; ++k)
    for (std::size_t i = k + 1; i < n; ++i) {
      const double factor = a[i][k] / a[k][k];
      for (std::size_t j = k; j < n; ++j) a[i][j] -= factor * a[k][j];
      b[i] -= factor * b[k];
    }
  for (std::size_t k = n; k-- > 0;) {
    for (std::size_t j = k + 1; j < n; ++j) b[k] -= a[k][j] * b[j];
    b[k] /= a[k][k];
  }
  return b;
}

class Descent {
 public:
  Descent(std::vector<Unknown>& unknowns, const std::vector<double>& weights, const Errors& errors)
      : unknowns_(unknowns), weights_(weights), errors_(errors) {
    for (const Unknown& one : unknowns) at_.push_back(one.at);
    now_ = errors(at_, std::nullopt);
    least_ = sum(at_, now_);
  }

  void run(int trials) {
    constexpr int kRetries = 6;
    constexpr double kEnough = 1e-5;
    const int each = static_cast<int>(at_.size()) + 1;
    for (int left = trials; left >= each;) {
      differ();
      left -= each - 1;
      const double before = least_;
      bool better = false;
      for (int retry = 0; retry < kRetries && left > 0 && !better; ++retry, --left) {
        better = step();
        damping_ = std::clamp(damping_ * (better ? 0.3 : 4), 1e-6, 1e6);
      }
      if (!better || before - least_ < kEnough * before) break;
    }
    for (std::size_t i = 0; i < at_.size(); ++i) unknowns_[i].at = at_[i];
  }

 private:
  double sum(const std::vector<double>& at, const std::vector<double>& errors) const {
    double sum = 0;
    for (std::size_t row = 0; row < errors.size(); ++row) sum += weights_[row] * loss(errors[row]);
    for (std::size_t i = 0; i < at.size(); ++i)
      sum += kPrior / 2 * std::pow((at[i] - unknowns_[i].expected) / unknowns_[i].spread, 2);
    return sum;
  }

  // One unknown after the other a little up, or down where it ends.
  void differ() {
    constexpr double kStep = 0.02;
    errors_(at_, std::nullopt);
    slopes_.assign(at_.size(), {});
    for (std::size_t i = 0; i < at_.size(); ++i) {
      std::vector<double> there = at_;
      there[i] += at_[i] + kStep > unknowns_[i].high ? -kStep : kStep;
      slopes_[i] = errors_(there, i);
      for (std::size_t row = 0; row < now_.size(); ++row)
        slopes_[i][row] = (slopes_[i][row] - now_[row]) / (there[i] - at_[i]);
    }
  }

  bool step() {
    const std::size_t n = at_.size();
    Rows normal(n, std::vector<double>(n));
    std::vector<double> down(n);
    for (std::size_t row = 0; row < now_.size(); ++row) {
      const double weight = weights_[row] / std::hypot(now_[row], kSmall);
      for (std::size_t i = 0; i < n; ++i) {
        if (slopes_[i][row] == 0) continue;
        down[i] -= weight * slopes_[i][row] * now_[row];
        for (std::size_t j = 0; j < n; ++j)
          normal[i][j] += weight * slopes_[i][row] * slopes_[j][row];
      }
    }
    for (std::size_t i = 0; i < n; ++i) {
      const Unknown& one = unknowns_[i];
      const double precision = kPrior / (one.spread * one.spread);
      normal[i][i] += precision;
      down[i] -= precision * (at_[i] - one.expected);
    }
    for (std::size_t i = 0; i < n; ++i)
      if (down[i] > 0 ? at_[i] >= unknowns_[i].high : at_[i] <= unknowns_[i].low) {
        for (std::size_t j = 0; j < n; ++j) normal[i][j] = normal[j][i] = 0;  // it stays at its end
        normal[i][i] = 1;
        down[i] = 0;
      }
    for (std::size_t i = 0; i < n; ++i) normal[i][i] *= 1 + damping_;
    return move(solved(std::move(normal), std::move(down)));
  }

  bool move(const std::vector<double>& by) {
    constexpr double kFarthest = 0.5;
    std::vector<double> there = at_;
    for (std::size_t i = 0; i < at_.size(); ++i)
      there[i] = std::clamp(at_[i] + std::clamp(by[i], -kFarthest, kFarthest), unknowns_[i].low,
                            unknowns_[i].high);
    std::vector<double> errors = errors_(there, std::nullopt);
    const double reached = sum(there, errors);
    if (reached >= least_) return false;
    least_ = reached;
    at_ = std::move(there);
    now_ = std::move(errors);
    return true;
  }

  std::vector<Unknown>& unknowns_;
  const std::vector<double>& weights_;
  const Errors& errors_;
  std::vector<double> at_;
  std::vector<double> now_;  // errors there
  Rows slopes_;              // of each unknown, of each error
  double least_ = 0, damping_ = 1e-2;
};

}  // namespace

double loss(double error) { return std::hypot(error, kSmall) - kSmall; }

void descend(std::vector<Unknown>& unknowns, const std::vector<double>& weights,
             const Errors& errors, int trials) {
  if (!unknowns.empty()) Descent(unknowns, weights, errors).run(trials);
}

}  // namespace trireme::scoreboard
