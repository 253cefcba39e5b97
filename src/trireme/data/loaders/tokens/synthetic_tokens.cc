#include "trireme/data/loaders/tokens/synthetic_tokens.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <string>

#include "trireme/base/hash.h"
#include "trireme/base/held_out.h"
#include "trireme/config/synthetic.h"
#include "trireme/data/text/tokenizer.h"

namespace trireme::loaders {
namespace {

constexpr std::size_t kWords = 32;
constexpr std::int64_t kModulus = 251;
constexpr std::array<std::int64_t, 8> kFactors = {3, 5, 7, 11, 13, 17, 19, 23};
// Numbers of held-out samples begin after those of any run.
constexpr std::int64_t kHeldOut = std::int64_t{1} << 48;

using Random = std::mt19937_64;

Random stream(std::uint64_t seed, std::uint64_t what, std::int64_t number) {
  return Random(mix(mix(seed, what), static_cast<std::uint64_t>(number)));
}

std::int64_t below(Random& random, std::int64_t count) {
  return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(count));
}

std::vector<std::string> draw_words(std::uint64_t seed) {
  Random random = stream(seed, hash64("words"), -1);
  std::vector<std::string> words;
  std::set<std::string> known;
  while (words.size() < kWords) {
    std::string word;
    for (std::int64_t left = 2 + below(random, 5); left > 0; --left)
      word += static_cast<char>('a' + below(random, 26));
    if (known.insert(word).second) words.push_back(std::move(word));
  }
  return words;
}

class SyntheticTokens final : public Source {
 public:
  SyntheticTokens(const config::Job& job, std::int64_t first, std::int64_t samples)
      : source_(job.data.source),
        seed_(static_cast<std::uint64_t>(job.data.seed)),
        seq_len_(job.model.seq_len),
        first_(first),
        samples_(samples) {}

  std::int64_t samples() const override { return samples_; }

  std::vector<at::Tensor> batch(std::int64_t first, std::int64_t count) const override {
    const at::Tensor windows =
        at::empty({count, seq_len_ + 1}, at::TensorOptions().dtype(at::kLong));
    const auto make = source_ == config::DataSource::kWords ? words_sample : affine_sample;
    for (std::int64_t row = 0; row < count; ++row) {
      const std::vector<std::int64_t> sample = make(seed_, first_ + first + row, seq_len_ + 1);
      std::copy(sample.begin(), sample.end(), windows[row].data_ptr<std::int64_t>());
    }
    return {windows.narrow(1, 0, seq_len_).contiguous(),
            windows.narrow(1, 1, seq_len_).contiguous()};
  }

  double weight(std::int64_t, std::int64_t count) const override {
    return static_cast<double>(count * seq_len_);
  }

 private:
  config::DataSource source_;
  std::uint64_t seed_;
  std::int64_t seq_len_;
  std::int64_t first_;
  std::int64_t samples_;
};

}  // namespace

std::vector<std::int64_t> words_sample(std::uint64_t seed, std::int64_t number,
                                       std::int64_t count) {
  const std::vector<std::string> words = draw_words(seed);
  Random random = stream(seed, hash64("words"), number);
  std::vector<std::int64_t> bytes;
  while (static_cast<std::int64_t>(bytes.size()) < count) {
    for (const char letter : words[below(random, kWords)])
      bytes.push_back(static_cast<unsigned char>(letter));
    bytes.push_back(' ');
  }
  bytes.resize(static_cast<std::size_t>(count));
  return bytes;
}

std::vector<std::int64_t> affine_sample(std::uint64_t seed, std::int64_t number,
                                        std::int64_t count) {
  Random random = stream(seed, hash64("affine"), number);
  const std::int64_t factor = kFactors[below(random, kFactors.size())];
  std::vector<std::int64_t> terms;
  for (std::int64_t x = below(random, kModulus); static_cast<std::int64_t>(terms.size()) < count;
       x = (factor * x + 1) % kModulus)
    terms.push_back(x);
  return terms;
}

Sources open_synthetic_tokens(const config::Job& job) {
  const bool words = job.data.source == config::DataSource::kWords;
  const double validation = job.data.validation;
  const auto held_out = static_cast<std::int64_t>(
      is_count(validation) ? validation : validation * static_cast<double>(job.data.samples));
  return {.train = std::make_unique<SyntheticTokens>(job, 0, job.data.samples),
          .held_out = std::make_unique<SyntheticTokens>(job, kHeldOut, held_out),
          .digest = config::digest(*config::synthetic_source(job.data.source)),
          .vocabulary = words ? text::Tokenizer::bytes().digest() : std::string(),
          .bytes_per_token = words ? 1.0 : 0.0};
}

}  // namespace trireme::loaders
