#include "baseline.h"

#include <charconv>
#include <filesystem>
#include <vector>

#include "apps/trireme/environment.h"
#include "trireme/base/error.h"
#include "trireme/data/text/ngram.h"

namespace trireme::app {
namespace {

constexpr int kContextBytes = 3;

template <typename Use>
void each_document(const text::Dataset& dataset, const text::TokenFile& split, Use&& use) {
  std::vector<std::int32_t> ids;
  for (std::int64_t k = 0; k < split.documents(); ++k) {
    const text::TokenRange range = split.document(k);
    ids.resize(static_cast<std::size_t>(range.count));
    split.read(range.first, std::span(ids));
    use(dataset.tokenizer.decode(ids));
  }
}

double fitted(const text::Dataset& dataset) {
  text::NgramModel model(kContextBytes);
  each_document(dataset, dataset.train, [&](const std::string& text) { model.add(text); });
  double bits = 0, bytes = 0;
  each_document(dataset, dataset.val, [&](const std::string& text) {
    bits += model.bits(text);
    bytes += static_cast<double>(text.size());
  });
  if (bytes == 0)
    fail(ErrorKind::kData, "{}: no validation text to fit a baseline for",
         dataset.directory.string());
  return bits / bytes;
}

}  // namespace

double baseline_bits(const text::Dataset& dataset,
                     const std::function<void(const std::string&)>& say) {
  const Path kept =
      cache_directory() / "baselines" / fmt::format("{}.order{}", dataset.digest, kContextBytes);
  if (std::filesystem::exists(kept)) {
    const std::string text = read_file(kept, 64);
    double bits = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bits);
    if (error == std::errc() && bits > 0) return bits;
  }
  say("fitting the order-3 byte n-gram baseline (once)");
  const double bits = fitted(dataset);
  make_in_cache(kept.parent_path());
  replace_file(kept, fmt::format("{:.17g}\n", bits));
  return bits;
}

}  // namespace trireme::app
