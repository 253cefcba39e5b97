#include "trireme/data/text/bpe_train.h"

#include <nlohmann/json.hpp>
#include <queue>
#include <utility>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/data/text/tokenizer_json.h"

namespace trireme::text {
namespace {

constexpr std::int64_t kMinOccurrences = 2;

struct Pair {
  std::int32_t left = 0;
  std::int32_t right = 0;

  bool operator==(const Pair&) const = default;
};

struct PairHash {
  std::size_t operator()(const Pair& pair) const {
    return static_cast<std::size_t>(pair.left) << 32 | static_cast<std::uint32_t>(pair.right);
  }
};

// The words as sequences of tokens, merged pair by pair, with exact counts of neighbours throughout.
class Trainer {
 public:
  explicit Trainer(const WordCounts& words) : queue_(Later{tokens_}) {
    for (int byte = 0; byte < 256; ++byte) tokens_.emplace_back(1, static_cast<char>(byte));
    words_.reserve(words.counts().size());
    for (const auto& [text, count] : words.counts()) {
      Word word{.tokens = {}, .count = count};
      for (const char c : text) word.tokens.push_back(static_cast<unsigned char>(c));
      for (std::size_t i = 1; i < word.tokens.size(); ++i)
        gain({word.tokens[i - 1], word.tokens[i]}, count, words_.size());
      words_.push_back(std::move(word));
    }
    for (const auto& [pair, found] : found_) consider(pair, found.count);
  }

  // One more token; false when no pair is left.
  bool grow() {
    while (!queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      const std::int64_t count = found_.at(best.pair).count;
      if (count != best.count) {
        consider(best.pair, count);
        continue;
      }
      // The bytes are new: a range that no merge crossed was merged as it would be alone. Equal bytes would have been
      // joined by an earlier pair.
      tokens_.push_back(tokens_[index(best.pair.left)] + tokens_[index(best.pair.right)]);
      merges_.push_back(best.pair);
      merge(best.pair, static_cast<std::int32_t>(tokens_.size()) - 1);
      return true;
    }
    return false;
  }

  std::int32_t vocab_size() const { return static_cast<std::int32_t>(tokens_.size()); }

  std::string tokenizer_json(const std::vector<std::string>& special) const {
    ByteLevelBpe bpe{.tokens = tokens_, .special = special};
    for (const Pair& pair : merges_) bpe.merges.emplace_back(pair.left, pair.right);
    return print_tokenizer_json(bpe);
  }

 private:
  struct Word {
    std::vector<std::int32_t> tokens;
    std::int64_t count = 0;
  };
  struct Found {
    std::int64_t count = 0;
    std::vector<std::size_t> words;  // where the pair was at some time
  };
  // A count may have fallen since it was queued, but never risen. Pairs only gain while their newer token is being
  // made, and are queued after that.
  struct Candidate {
    std::int64_t count = 0;
    Pair pair;
  };
  struct Later {
    const std::vector<std::string>& tokens;

    bool operator()(const Candidate& a, const Candidate& b) const {
      if (a.count != b.count) return a.count < b.count;
      const int left = tokens[index(a.pair.left)].compare(tokens[index(b.pair.left)]);
      return left != 0 ? left > 0 : tokens[index(a.pair.right)] > tokens[index(b.pair.right)];
    }
  };

  static std::size_t index(std::int32_t id) { return static_cast<std::size_t>(id); }

  void consider(const Pair& pair, std::int64_t count) {
    if (count >= kMinOccurrences) queue_.push({count, pair});
  }

  void gain(const Pair& pair, std::int64_t count, std::size_t word) {
    Found& found = found_[pair];
    found.count += count;
    if (found.words.empty() || found.words.back() != word) found.words.push_back(word);
  }

  void lose(const Pair& pair, std::int64_t count) { found_.at(pair).count -= count; }

  void merge(const Pair& pair, std::int32_t result) {
    gained_.clear();
    for (const std::size_t word : std::exchange(found_.at(pair).words, {}))
      merge_in(word, pair, result);
    TRIREME_CHECK(found_.at(pair).count == 0, "{} occurrences of pair {} {} are left",
                  found_.at(pair).count, pair.left, pair.right);
    found_.erase(pair);
    for (const Pair& fresh : gained_) consider(fresh, found_.at(fresh).count);
  }

  // Each join is one step from one sequence to the next, so that runs such as "aaaa" count exactly.
  void merge_in(std::size_t at, const Pair& pair, std::int32_t result) {
    const std::int64_t count = words_[at].count;
    std::vector<std::int32_t>& tokens = words_[at].tokens;
    const auto replace = [&](const Pair& before, const Pair& after) {
      lose(before, count);
      if (!found_.contains(after)) gained_.push_back(after);
      gain(after, count, at);
    };
    std::size_t kept = 0;
    for (std::size_t i = 0; i < tokens.size();) {
      if (i + 1 == tokens.size() || Pair{tokens[i], tokens[i + 1]} != pair) {
        tokens[kept++] = tokens[i++];
        continue;
      }
      lose(pair, count);
      if (kept > 0) replace({tokens[kept - 1], pair.left}, {tokens[kept - 1], result});
      if (i + 2 < tokens.size()) replace({pair.right, tokens[i + 2]}, {result, tokens[i + 2]});
      tokens[kept++] = result;
      i += 2;
    }
    tokens.resize(kept);
  }

  std::vector<std::string> tokens_;  // bytes of each id
  std::vector<Pair> merges_;
  std::vector<Word> words_;
  std::unordered_map<Pair, Found, PairHash> found_;
  std::priority_queue<Candidate, std::vector<Candidate>, Later> queue_;
  std::vector<Pair> gained_;
};

}  // namespace

WordCounts::WordCounts()
    : pre_tokenizers_(read_pre_tokenizers(byte_level_pieces(), "byte level")) {}

void WordCounts::add(std::string_view document) {
  Words words{.text = Aligned(document, 0, false), .ranges = {{0, document.size()}}};
  for (const PreTokenizer& step : pre_tokenizers_.steps) step(words);
  for (const Range& range : words.ranges) {
    const std::string_view word = slice(document, range);
    const auto known = counts_.find(word);
    if (known != counts_.end())
      ++known->second;
    else
      counts_.emplace(word, 1);
  }
}

std::string train_bpe(const WordCounts& words, std::int32_t vocab_size,
                      const std::vector<std::string>& special) {
  const auto added = static_cast<std::int32_t>(special.size());
  const std::int32_t least = kMinTrainedVocabulary + added;
  if (vocab_size < least || vocab_size > kMaxTrainedVocabulary)
    fail(ErrorKind::kUsage, "tokenizer bpe:{}: a vocabulary of {} to {} is needed{}", vocab_size,
         least, kMaxTrainedVocabulary,
         added > 0 ? fmt::format(", which includes {} special tokens", added) : "");
  Trainer trainer(words);
  while (trainer.vocab_size() < vocab_size - added)
    if (!trainer.grow()) {
      if (trainer.vocab_size() < kMinTrainedVocabulary)
        fail(ErrorKind::kUsage,
             "tokenizer bpe:{}: no two neighbouring bytes occur twice in the training text; give "
             "more text or use bytes",
             vocab_size);
      const std::int32_t most = trainer.vocab_size() + added;
      fail(ErrorKind::kUsage,
           "tokenizer bpe:{}: the training text has repeated pairs for {} tokens only; use bpe:{} "
           "or less, or give more text",
           vocab_size, most, most);
    }
  return trainer.tokenizer_json(special);
}

}  // namespace trireme::text
