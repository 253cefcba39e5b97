#include "trireme/train/recording/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/ulps.h"

namespace trireme::train {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double epsilon(DType type) {
  return type == DType::kF64 ? 0x1p-52 : type == DType::kF32 ? 0x1p-23 : 0x1p-7;
}

// What rounding explains of the updates of one parameter.
class Noise {
 public:
  Noise(const RecordedTensor& parameter, double tolerance)
      : tolerance_(tolerance),
        ulp_(epsilon(parameter.type)),
        parameter_(parameter.values),
        gradient_(parameter.values.size()),
        difference_(parameter.values.size()) {}

  void see_gradients(const RecordedTensor& a, const RecordedTensor& b) {
    if (a.values.empty() || a.shape != b.shape) return;
    for (std::size_t i = 0; i < gradient_.size(); ++i)
      gradient_[i] = std::max(gradient_[i], std::abs(a.values[i]));
    const auto see = [&](std::size_t i, double other) {
      difference_[i] = std::max(difference_[i], std::abs(a.values[i] - other));
    };
    for (std::size_t i = 0; i < b.values.size(); ++i) see(i, b.values[i]);
    for (const RecordedTensor* run : {&a, &b})
      for (const Part& part : run->strays)
        for (const model::Extent& extent : part.extents)
          for (std::int64_t i = 0; i < extent.count; ++i)
            see(static_cast<std::size_t>(extent.global + i),
                part.values.data_ptr<double>()[extent.local + i]);
  }
  void see_update(const RecordedTensor& a) {
    for (std::size_t i = 0; i < a.values.size(); ++i) parameter_[i] += a.values[i];
  }

  // Of the update that follows the gradients seen last, which are those of `followed`, this one's or another's.
  bool explains(const Noise& followed, std::int64_t element, double mine, double other) const {
    const auto i = static_cast<std::size_t>(element);
    const double rounding = 2 * ulp_ * (std::abs(parameter_[i]) + std::abs(mine));
    return followed.is_noise(i) || std::abs(mine - other) <= rounding;
  }

 private:
  bool is_noise(std::size_t i) const { return difference_[i] > tolerance_ * gradient_[i]; }

  double tolerance_;
  double ulp_;
  std::vector<double> parameter_;   // the first run's
  std::vector<double> gradient_;    // the largest so far
  std::vector<double> difference_;  // the largest so far
};

// What leaves out elements of an update.
struct Explained {
  const Noise* own = nullptr;  // null: nothing is left out
  const Noise* followed = nullptr;

  bool operator()(std::int64_t element, double mine, double other) const {
    return own != nullptr && own->explains(*followed, element, mine, other);
  }
};

// The difference of elements looked at, and the worst of them.
struct Difference {
  Explained noise{};
  double squares = 0;
  double largest = 0;
  bool counts = false;  // whether the worst does
  std::int64_t element = 0;
  double b = 0;

  void look(std::int64_t at, double mine, double other) {
    const double difference = std::abs(mine - other);
    const bool equal = mine == other || (std::isnan(mine) && std::isnan(other));
    const double apart = equal ? 0 : std::isfinite(difference) ? difference : kInfinity;
    if (apart == 0) return;
    const bool count = !noise(at, mine, other);
    if (count) squares += apart * apart;
    if (std::pair(count, apart) <= std::pair(counts, largest)) return;
    counts = count;
    largest = apart;
    element = at;
    b = other;
  }
};

Difference between(const std::vector<double>& a, const std::vector<double>& b,
                   const Explained& noise) {
  Difference apart{.noise = noise, .b = b[0]};
  for (std::size_t i = 0; i < a.size(); ++i) apart.look(static_cast<std::int64_t>(i), a[i], b[i]);
  return apart;
}

Difference between(const std::vector<double>& a, const Part& part, const Explained& noise) {
  const double* const values = part.values.data_ptr<double>();
  Difference apart{.noise = noise};
  for (const model::Extent& extent : part.extents)
    for (std::int64_t i = 0; i < extent.count; ++i)
      apart.look(extent.global + i, a[extent.global + i], values[extent.local + i]);
  return apart;
}

double square_norm(const RecordedTensor& tensor) {
  double sum = 0;
  for (double value : tensor.values) sum += value * value;
  return sum;
}

std::vector<std::int64_t> coordinates(std::int64_t element,
                                      const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> at(shape.size());
  for (std::size_t dim = shape.size(); dim-- > 0; element /= shape[dim])
    at[dim] = element % shape[dim];
  return at;
}

// A loss of the whole global batch.
RecordedTensor summed(const RecordedTensor& loss) {
  double sum = 0;
  for (const double value : loss.values) sum += value;
  RecordedTensor total = loss;
  total.shape = {1};
  total.values = {sum};
  total.holders = {{.rank = loss.holders.front().rank, .extents = {{.count = 1}}}};
  for (Part& stray : total.strays) {
    double other = sum;
    for (const model::Extent& extent : stray.extents)
      for (std::int64_t i = 0; i < extent.count; ++i)
        other += stray.values.data_ptr<double>()[extent.local + i] - loss.values[extent.global + i];
    stray.extents = {{.count = 1}};
    stray.values = stray.values.new_full({1}, other);
  }
  return total;
}

// Rows of each of `groups` ranges of the global batch.
std::vector<std::int64_t> grouped(const std::vector<std::int64_t>& rows, std::size_t groups) {
  std::vector<std::int64_t> sums(groups);
  for (std::size_t i = 0; i < rows.size(); ++i) sums[i * groups / rows.size()] += rows[i];
  return sums;
}

// Rows of the first samples that both runs have in whole micro-batches, and as many more, and so on.
bool same_rows(const RecordedTensor& a, const RecordedTensor& b) {
  const std::size_t groups = std::gcd(a.rows.size(), b.rows.size());
  return groups == 0 || grouped(a.rows, groups) == grouped(b.rows, groups);
}

// Says where the copies of a run, or the runs, have other numbers of rows of the same samples.
bool rows_differ(const RecordedTensor& a, const RecordedTensor& b, Comparison& row) {
  for (const RecordedTensor* run : {&b, &a}) {
    if (run->miscounts.empty()) continue;
    const Miscount& first = run->miscounts.front();
    row.rows = {.a = first.peer_rows, .b = first.rows};
    row.micro_batch = first.micro_batch;
    row.rank = first.rank;
    row.peer = first.peer;
    row.first_run = run == &a;
    return true;
  }
  if (a.rows.empty() || b.rows.empty()) return false;
  const std::size_t groups = std::gcd(a.rows.size(), b.rows.size());
  const std::vector<std::int64_t> mine = grouped(a.rows, groups), other = grouped(b.rows, groups);
  const auto [first, second] = std::ranges::mismatch(mine, other);
  if (first == mine.end()) return false;
  row.rows = {.a = *first, .b = *second};
  const std::size_t micro_batch =
      static_cast<std::size_t>(first - mine.begin()) * (b.rows.size() / groups);
  row.micro_batch = static_cast<std::int64_t>(micro_batch);
  row.rank = b.holders.front().rank;
  return true;
}

// Why a tensor is not compared; empty: it is.
std::string why_not(const RecordedTensor& a, const RecordedTensor& b) {
  if (!a.recorded()) return "the first layout ended before it";
  if (!b.recorded()) return "this layout ended before it";
  if (a.within && a.rows.size() != b.rows.size())
    return "its rows are numbered or ordered within micro-batches, which have other sizes";
  if (a.blanks && a.rows.size() != b.rows.size() && !same_rows(a, b))
    return "micro-batches without pictures have a blank one, and they have other sizes";
  const auto tail = [](const RecordedTensor& tensor) {
    const bool rows = !tensor.rows.empty();
    return std::vector(tensor.shape.begin() + rows, tensor.shape.end());
  };
  return tail(a) == tail(b) ? "" : "other shapes";
}

// The difference of everything that ranks of both runs hold; `stray` is the copy that it is of, if it is of one.
Difference worst_of(const RecordedTensor& a, const RecordedTensor& b, const Explained& noise,
                    const Part*& stray, bool& first_run) {
  Difference worst = between(a.values, b.values, noise);
  for (const RecordedTensor* run : {&b, &a})
    for (const Part& part : run->strays) {
      const Difference apart = between(a.values, part, noise);
      if (apart.squares < worst.squares || apart.largest == 0) continue;
      worst = apart;
      stray = &part;
      first_run = run == &a;
    }
  return worst;
}

// The micro-batch of b that an element of an activation is of; of one with other rows than samples the row counts from its
// first.
void locate(const RecordedTensor& b, Comparison& row) {
  if (b.loss) {
    row.micro_batch = b.shape[0] == 1 ? -1 : row.at[0];
    return;
  }
  std::int64_t first = 0;
  row.micro_batch = 0;
  for (const std::int64_t rows : b.rows) {
    if (row.at[0] < first + rows) break;
    first += rows;
    ++row.micro_batch;
  }
  if (!b.by_sample) row.at[0] -= first;
}

// `small`: the least norm that differences are measured by.
Comparison compare_tensor(const RecordedTensor& a, const RecordedTensor& b, double small,
                          const Explained& noise) {
  if (a.loss && a.shape != b.shape && a.recorded() && b.recorded())
    return compare_tensor(summed(a), summed(b), small, noise);
  Comparison row{.step = a.step, .kind = a.kind, .name = a.name, .type = a.type};
  row.loss = a.loss;
  row.by_sample = a.by_sample;
  row.strays = static_cast<int>(a.strays.size() + b.strays.size());
  row.why_not = why_not(a, b);
  row.compared = row.why_not.empty();
  if (!row.compared) return row;
  if (rows_differ(a, b, row)) {
    row.relative = kInfinity;
    row.ulps = kMostUlps;
    return row;
  }
  if (a.values.empty()) return row;
  const double scale = std::max(std::sqrt(square_norm(a)), small);
  const Part* stray = nullptr;
  const Difference worst = worst_of(a, b, noise, stray, row.first_run);
  const double apart = std::sqrt(worst.squares);
  row.relative = apart == 0 ? 0 : std::isfinite(apart / scale) ? apart / scale : kInfinity;
  row.at = coordinates(worst.element, a.shape);
  row.a = a.values[worst.element];
  row.b = worst.b;
  row.ulps = ulps_between(row.a, row.b, row.type);
  row.rank = stray != nullptr ? stray->rank : b.rank_of(worst.element);
  if (stray != nullptr) row.peer = (row.first_run ? a : b).rank_of(worst.element);
  if (row.kind == Kind::kActivation) locate(b, row);
  return row;
}

}  // namespace

std::vector<Comparison> compare(const Recording& a, const Recording& b) {
  TRIREME_CHECK(a.tensors.size() == b.tensors.size(), "{} tensors against {}", a.tensors.size(),
                b.tensors.size());
  std::map<std::pair<int, Kind>, double> squares;
  for (const RecordedTensor& tensor : a.tensors)
    if (!tensor.loss) squares[{tensor.step, tensor.kind}] += square_norm(tensor);
  std::map<std::string, Noise> noise;  // by parameter
  std::vector<Comparison> rows;
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    const RecordedTensor &mine = a.tensors[i], &other = b.tensors[i];
    TRIREME_CHECK(mine.name == other.name && mine.kind == other.kind && mine.step == other.step,
                  "{} of step {} against {} of step {}", mine.name, mine.step, other.name,
                  other.step);
    if (!mine.recorded() && !other.recorded()) continue;
    const double small = kSmallNorm * std::sqrt(squares[{mine.step, mine.kind}]);
    const auto of_param = noise.find(mine.name);
    const bool update = mine.kind == Kind::kUpdate && of_param != noise.end();
    Explained explained;
    if (update)
      explained = {.own = &of_param->second,
                   .followed = mine.follows.empty() ? &of_param->second : &noise.at(mine.follows)};
    rows.push_back(compare_tensor(mine, other, small, explained));
    if (mine.kind == Kind::kParameter)
      noise.emplace(mine.name, Noise(mine, default_tolerance(a.compute)));
    if (mine.kind == Kind::kGradient && of_param != noise.end())
      of_param->second.see_gradients(mine, other);
    if (update) of_param->second.see_update(mine);
  }
  return rows;
}

double default_tolerance(DType compute) {
  switch (compute) {
    case DType::kF64: return 1e-11;
    case DType::kF32: return 1e-4;
    case DType::kBF16: return 0.05;
    case DType::kF16: return 0.01;
    default: TRIREME_CHECK(false, "no tolerance for {}", name(compute));
  }
}

}  // namespace trireme::train
