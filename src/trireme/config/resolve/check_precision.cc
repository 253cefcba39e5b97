#include "trireme/config/resolve/check_precision.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "trireme/base/cpu.h"
#include "trireme/base/error.h"
#include "trireme/config/resolve/resolve.h"

namespace trireme::config {
namespace {

void resolve_types(Precision& precision) {
  const DType wide = precision.compute == DType::kF64 ? DType::kF64 : DType::kF32;
  const bool bf16 = precision.compute == DType::kBF16;
  const auto settle = [&](const char* key, std::optional<DType>& type, DType derived,
                          bool may_be_bf16) {
    if (!type) type = derived;
    if (*type == derived || (*type == DType::kBF16 && may_be_bf16)) return;
    fail(ErrorKind::kUsage, "precision.{}={} with precision.compute={}: needs {}{} (or auto)", key,
         name(*type), name(precision.compute), name(derived), may_be_bf16 ? ", bf16" : "");
  };
  settle("master", precision.master, wide, bf16);
  settle("grads", precision.grads, wide, bf16);
  settle("reduce", precision.reduce, *precision.grads, wide == DType::kF32);
  for (const auto& [key, type] :
       {std::pair("grads", precision.grads), {"reduce", precision.reduce}})
    if (type == DType::kBF16 && precision.numerics == Numerics::kCanonical)
      fail(ErrorKind::kUsage,
           "precision.{}=bf16 with precision.numerics=canonical: sums rounded to bf16 depend on "
           "where they are added; set precision.numerics=fast, or {}=fp32",
           key, key);
}

void resolve_loss_scale(Precision& precision) {
  std::string& scale = precision.loss_scale;
  if (scale == "auto") scale = precision.compute == DType::kF16 ? "dynamic" : "off";
  if (scale != "dynamic") fixed_loss_scale(precision);
}

}  // namespace

void choose_compute(Job& job) {
  if (!job.precision.compute_auto) return;
  job.precision.compute_auto = false;
  job.precision.compute = job.run.device == Device::kCuda ? DType::kBF16 : fast_type(matrix_unit());
}

void resolve_precision(Precision& precision) {
  resolve_types(precision);
  resolve_loss_scale(precision);
}

double fixed_loss_scale(const Precision& precision) {
  const std::string& text = precision.loss_scale;
  if (text == "off") return 1;
  double scale = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), scale);
  if (error != std::errc() || end != text.data() + text.size() || !(scale > 0) ||
      !std::isfinite(scale))
    fail(ErrorKind::kUsage,
         "precision.loss_scale={}: needs auto, off, dynamic or a number above 0, such as 1024",
         text);
  return scale;
}

}  // namespace trireme::config
