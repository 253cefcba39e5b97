#include "trireme/plan/compile/cheapest_choice.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

namespace trireme::plan {
namespace {

using Things = std::vector<std::vector<Choice>>;
using Vector = std::vector<double>;

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kNoGain = 1e-9;  // of a cost, that is not worth a search
constexpr std::size_t kOpen = 256;

double dot(const Vector& a, const Vector& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// Choices of the first things.
struct Partial {
  double cost = 0;
  Vector held{};
  std::size_t before = 0;  // the partial choice that this one adds to
  std::size_t option = 0;
};

class Solver {
 public:
  Solver(const Things& things, const Vector& limits)
      : things_(things), limits_(limits), prices_(limits.size(), 0.0) {}

  std::vector<std::size_t> solve() {
    least_.assign(things_.size() + 1, Vector(limits_.size(), 0.0));
    for (std::size_t i = things_.size(); i-- > 0;)
      for (std::size_t k = 0; k < limits_.size(); ++k) {
        double least = kNever;
        for (const Choice& option : things_[i]) least = std::min(least, option.held[k]);
        least_[i][k] = least_[i + 1][k] + least;
      }
    if (!fits(least_[0])) return {};
    find_prices();
    bounds_.assign(things_.size() + 1, 0.0);
    for (std::size_t i = things_.size(); i-- > 0;)
      bounds_[i] = bounds_[i + 1] + priced(i, cheapest(i));
    guess();
    return search();
  }

 private:
  double priced(std::size_t i, std::size_t option) const {
    const Choice& one = things_[i][option];
    return one.cost + dot(prices_, one.held);
  }
  std::size_t cheapest(std::size_t i) const {
    std::size_t best = 0;
    for (std::size_t o = 1; o < things_[i].size(); ++o)
      if (priced(i, o) < priced(i, best)) best = o;
    return best;
  }
  bool fits(const Vector& held) const {
    for (std::size_t k = 0; k < limits_.size(); ++k)
      if (held[k] > limits_[k]) return false;
    return true;
  }
  // How far what is cheapest at these prices is above a limit.
  double excess(std::size_t k) const {
    double held = -limits_[k];
    for (std::size_t i = 0; i < things_.size(); ++i) held += things_[i][cheapest(i)].held[k];
    return held;
  }

  // Of the limits, so that the bound is highest: one after the other, as all others stand.
  void find_prices() {
    constexpr int kRounds = 6, kSteps = 60;
    for (int round = 0; round < (limits_.size() > 1 ? kRounds : 1); ++round)
      for (std::size_t k = 0; k < limits_.size(); ++k) {
        double& price = prices_[k] = 0;
        if (excess(k) <= 0) continue;
        double low = 0, high = 1e-15;
        for (price = high; excess(k) > 0 && high < 1e60; price = high *= 2) low = high;
        for (int step = 0; step < kSteps; ++step) {
          price = (low + high) / 2;
          (excess(k) > 0 ? low : high) = price;
        }
        price = high;
      }
  }

  // A choice that fits, if the cheapest at these prices can be mended step by step.
  void guess() {
    std::vector<std::size_t> choice(things_.size());
    Vector held(limits_.size(), 0.0);
    for (std::size_t i = 0; i < things_.size(); ++i) {
      choice[i] = cheapest(i);
      add(held, things_[i][choice[i]].held, 1);
    }
    // Steps for one limit may undo those for another.
    for (std::size_t steps = 0; !fits(held); ++steps) {
      if (steps > 4 * things_.size()) return;
      std::size_t k = 0;
      while (held[k] <= limits_[k]) ++k;
      const auto [i, option] = best_step(choice, k);
      if (i == things_.size()) return;
      add(held, things_[i][choice[i]].held, -1);
      add(held, things_[i][option].held, 1);
      choice[i] = option;
    }
    best_ = choice;
    best_cost_ = 0;
    for (std::size_t i = 0; i < things_.size(); ++i) best_cost_ += things_[i][choice[i]].cost;
  }

  // The change of one thing that costs least for what it gives back of limit k.
  std::pair<std::size_t, std::size_t> best_step(const std::vector<std::size_t>& choice,
                                                std::size_t k) const {
    std::pair best{things_.size(), std::size_t{0}};
    double least = kNever;
    for (std::size_t i = 0; i < things_.size(); ++i)
      for (std::size_t o = 0; o < things_[i].size(); ++o) {
        const Choice &now = things_[i][choice[i]], &then = things_[i][o];
        const double given = now.held[k] - then.held[k];
        if (given <= 0 || (then.cost - now.cost) / given >= least) continue;
        least = (then.cost - now.cost) / given;
        best = {i, o};
      }
    return best;
  }

  std::vector<std::size_t> search() {
    std::vector<std::vector<Partial>> layers = {{{.held = Vector(limits_.size(), 0.0)}}};
    for (std::size_t i = 0; i < things_.size(); ++i) {
      std::vector<Partial> next;
      for (std::size_t from = 0; from < layers[i].size(); ++from)
        for (std::size_t o = 0; o < things_[i].size(); ++o) {
          Partial one = layers[i][from];
          one.cost += things_[i][o].cost;
          add(one.held, things_[i][o].held, 1);
          one.before = from;
          one.option = o;
          if (promises(one, i + 1)) next.push_back(std::move(one));
        }
      layers.push_back(undominated(std::move(next), i + 1));
    }
    if (layers.back().empty()) return best_;
    std::size_t at = 0;  // cheapest first
    std::vector<std::size_t> choice(things_.size());
    for (std::size_t i = things_.size(); i-- > 0;) {
      choice[i] = layers[i + 1][at].option;
      at = layers[i + 1][at].before;
    }
    return choice;
  }

  // Lower bound of all choices of the rest.
  double bound(const Partial& one, std::size_t rest) const {
    return one.cost + dot(prices_, one.held) - dot(prices_, limits_) + bounds_[rest];
  }
  bool promises(const Partial& one, std::size_t rest) const {
    Vector least = one.held;
    add(least, least_[rest], 1);
    return fits(least) && bound(one, rest) < best_cost_ * (1 - kNoGain);
  }

  // Cheapest first. Where they are too many, those with the lowest bounds: the cheapest alone would hold too much.
  std::vector<Partial> undominated(std::vector<Partial> all, std::size_t rest) const {
    keep_promising(all, rest, 2 * kOpen);
    std::ranges::stable_sort(all, [](const Partial& a, const Partial& b) {
      return std::tie(a.cost, a.held) < std::tie(b.cost, b.held);
    });
    std::vector<Partial> kept;
    for (Partial& one : all) {
      const bool worse = std::ranges::any_of(kept, [&](const Partial& other) {
        for (std::size_t k = 0; k < one.held.size(); ++k)
          if (other.held[k] > one.held[k]) return false;
        return true;
      });
      if (!worse) kept.push_back(std::move(one));
    }
    keep_promising(kept, rest, kOpen);
    return kept;
  }

  // In their order.
  void keep_promising(std::vector<Partial>& all, std::size_t rest, std::size_t count) const {
    if (all.size() <= count) return;
    std::vector<double> bounds;
    for (const Partial& one : all) bounds.push_back(bound(one, rest));
    const auto last = bounds.begin() + static_cast<std::ptrdiff_t>(count) - 1;
    std::ranges::nth_element(bounds, last);
    std::erase_if(all, [&, most = *last](const Partial& one) { return bound(one, rest) > most; });
    if (all.size() > count) all.resize(count);
  }

  static void add(Vector& to, const Vector& what, double factor) {
    for (std::size_t k = 0; k < to.size(); ++k) to[k] += factor * what[k];
  }

  const Things& things_;
  const Vector& limits_;
  Vector prices_;
  std::vector<Vector> least_;  // that things from here on hold
  Vector bounds_;              // on their cost, prices included
  std::vector<std::size_t> best_;
  double best_cost_ = kNever;
};

}  // namespace

std::vector<std::size_t> cheapest_choice(const Things& things, const Vector& limits) {
  return Solver(things, limits).solve();
}

}  // namespace trireme::plan
