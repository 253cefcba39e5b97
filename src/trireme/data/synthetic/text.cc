#include "trireme/data/synthetic/text.h"

#include "trireme/base/error.h"
#include "trireme/data/synthetic/draws.h"
#include "trireme/data/synthetic/make.h"
#include "trireme/data/synthetic/writing.h"

namespace trireme::synthetic {
namespace {

enum Stream : std::uint64_t { kVocabulary = 1, kWords = 2, kAffine = 3, kRepeat = 4 };

char letter(Draws& draws) { return static_cast<char>('a' + draws.below(26)); }

std::string words(std::uint64_t seed, std::int64_t i, std::int64_t length) {
  const std::vector<std::string> all = vocabulary(seed);
  Draws draws{kWords, seed, static_cast<std::uint64_t>(i)};
  std::string text;
  while (static_cast<std::int64_t>(text.size()) < length)
    text += all[draws.below(static_cast<int>(all.size()))] + ' ';
  return text;
}

std::string affine(std::uint64_t seed, std::int64_t i, std::int64_t length) {
  constexpr int kFactors[] = {3, 5, 7, 11, 13, 17, 19, 23};
  Draws draws{kAffine, seed, static_cast<std::uint64_t>(i)};
  const int factor = kFactors[draws.below(8)];
  int x = draws.below(251);
  std::string text;
  for (std::int64_t k = 0; k < length; ++k) {
    text += static_cast<char>(x);
    x = (factor * x + 1) % 251;
  }
  return text;
}

std::string repeat(std::uint64_t seed, std::int64_t i, std::int64_t length) {
  Draws draws{kRepeat, seed, static_cast<std::uint64_t>(i)};
  std::string text;
  while (static_cast<std::int64_t>(text.size()) < length) {
    std::string letters;
    for (int k = draws.from(8, 24); k > 0; --k) letters += letter(draws);
    text += letters + ':' + letters + '\n';
  }
  return text;
}

}  // namespace

std::vector<std::string> vocabulary(std::uint64_t seed) {
  Draws draws{kVocabulary, seed};
  std::vector<std::string> words(32);
  for (std::string& word : words)
    for (int k = draws.from(2, 6); k > 0; --k) word += letter(draws);
  return words;
}

std::string text_sample(const std::string& task, std::uint64_t seed, std::int64_t i,
                        std::int64_t length) {
  if (task == "words") return words(seed, i, length);
  if (task == "affine") return affine(seed, i, length);
  if (task == "repeat") return repeat(seed, i, length);
  fail(ErrorKind::kUsage, "no text task '{}'; there are words, affine, repeat", task);
}

void make_text(const TextOptions& options) {
  const Common& common = options.common;
  if (common.validation > 0)
    fail(ErrorKind::kUsage,
         "synthetic texts have no held-out part; use trireme data prepare --validation");
  if (options.length < 1 || options.length > (1 << 24))
    fail(ErrorKind::kUsage, "a length of {} bytes; 1 to 16777216", options.length);
  text_sample(options.task, 0, 0, 1);  // refuses an unknown task before anything is made
  Writing writing(common, 0);
  os::NewFile file(os::real_file_system(),
                   writing.path() / (options.task + (options.task == "affine" ? ".bin" : ".txt")));
  for (std::int64_t i = 0; i < common.count; ++i) {
    const std::string text = text_sample(options.task, common.seed, i, options.length);
    file.write(std::as_bytes(std::span(text)));
    writing.step();
  }
  file.finish();
  writing.publish();
}

}  // namespace trireme::synthetic
