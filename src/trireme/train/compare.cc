#include "trireme/train/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
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
        for (const arch::Extent& extent : part.extents)
          for (std::int64_t i = 0; i < extent.count; ++i)
            see(static_cast<std::size_t>(extent.global + i),
                part.values.data_ptr<double>()[extent.local + i]);
  }
  void see_update(const RecordedTensor& a) {
    for (std::size_t i = 0; i < a.values.size(); ++i) parameter_[i] += a.values[i];
  }

  // Of the update that follows the gradients seen last.
  bool explains(std::int64_t element, double mine, double other) const {
    const auto i = static_cast<std::size_t>(element);
    const double rounding = 2 * ulp_ * (std::abs(parameter_[i]) + std::abs(mine));
    return difference_[i] > tolerance_ * gradient_[i] || std::abs(mine - other) <= rounding;
  }

 private:
  double tolerance_;
  double ulp_;
  std::vector<double> parameter_;   // the first run's
  std::vector<double> gradient_;    // the largest so far
  std::vector<double> difference_;  // the largest so far
};

// The difference of elements looked at, and the worst of them.
struct Difference {
  const Noise* noise = nullptr;  // leaves out what it explains; null: explains nothing
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
    const bool count = noise == nullptr || !noise->explains(at, mine, other);
    if (count) squares += apart * apart;
    if (std::pair(count, apart) <= std::pair(counts, largest)) return;
    counts = count;
    largest = apart;
    element = at;
    b = other;
  }
};

Difference between(const std::vector<double>& a, const std::vector<double>& b, const Noise* noise) {
  Difference apart{.noise = noise, .b = b[0]};
  for (std::size_t i = 0; i < a.size(); ++i) apart.look(static_cast<std::int64_t>(i), a[i], b[i]);
  return apart;
}

Difference between(const std::vector<double>& a, const Part& part, const Noise* noise) {
  const double* const values = part.values.data_ptr<double>();
  Difference apart{.noise = noise};
  for (const arch::Extent& extent : part.extents)
    for (std::int64_t i = 0; i < extent.count; ++i)
      apart.look(extent.global + i, a[static_cast<std::size_t>(extent.global + i)],
                 values[extent.local + i]);
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

// `small`: the least norm that differences are measured by.
Comparison compare_tensor(const RecordedTensor& a, const RecordedTensor& b, double small,
                          std::int64_t micro_batch, const Noise* noise) {
  Comparison row{.step = a.step, .kind = a.kind, .name = a.name, .type = a.type};
  row.strays = static_cast<int>(a.strays.size() + b.strays.size());
  row.compared = a.shape == b.shape && !a.values.empty() && !b.values.empty();
  if (!row.compared) return row;
  const double scale = std::max(std::sqrt(square_norm(a)), small);
  Difference worst = between(a.values, b.values, noise);
  const Part* stray = nullptr;
  for (const RecordedTensor* run : {&b, &a})
    for (const Part& part : run->strays) {
      const Difference apart = between(a.values, part, noise);
      if (apart.squares < worst.squares || apart.largest == 0) continue;
      worst = apart;
      stray = &part;
      row.first_run = run == &a;
    }
  const double apart = std::sqrt(worst.squares);
  row.relative = apart == 0 ? 0 : std::isfinite(apart / scale) ? apart / scale : kInfinity;
  row.at = coordinates(worst.element, a.shape);
  row.a = a.values[static_cast<std::size_t>(worst.element)];
  row.b = worst.b;
  row.ulps = ulps_between(row.a, row.b, row.type);
  row.rank = stray != nullptr ? stray->rank : b.rank_of(worst.element);
  if (stray != nullptr) row.peer = (row.first_run ? a : b).rank_of(worst.element);
  if (row.kind == Kind::kActivation)
    row.micro_batch = row.at.size() == 1 ? row.at[0] : row.at[0] / micro_batch;
  return row;
}

}  // namespace

std::vector<Comparison> compare(const Recording& a, const Recording& b) {
  TRIREME_CHECK(a.tensors.size() == b.tensors.size(), "{} tensors against {}", a.tensors.size(),
                b.tensors.size());
  std::map<std::pair<int, Kind>, double> squares;
  for (const RecordedTensor& tensor : a.tensors)
    if (tensor.shape.size() != 1 || tensor.kind != Kind::kActivation)
      squares[{tensor.step, tensor.kind}] += square_norm(tensor);
  std::map<std::string, Noise> noise;  // by parameter
  std::vector<Comparison> rows;
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    const RecordedTensor &mine = a.tensors[i], &other = b.tensors[i];
    TRIREME_CHECK(mine.name == other.name && mine.kind == other.kind && mine.step == other.step,
                  "{} of step {} against {} of step {}", mine.name, mine.step, other.name,
                  other.step);
    if (mine.values.empty() && other.values.empty()) continue;
    const double small = kSmallNorm * std::sqrt(squares[{mine.step, mine.kind}]);
    const auto of_param = noise.find(mine.name);
    const bool update = mine.kind == Kind::kUpdate && of_param != noise.end();
    rows.push_back(
        compare_tensor(mine, other, small, b.micro_batch, update ? &of_param->second : nullptr));
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
