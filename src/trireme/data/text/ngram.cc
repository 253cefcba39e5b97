#include "trireme/data/text/ngram.h"

#include <cmath>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"

namespace trireme::text {
namespace {

constexpr int kMaxContext = 6;  // a gram of 7 bytes and its length mark fit 64 bits
constexpr int kDenseBytes = 3;  // up to here a key indexes an array

// Bytes seen after a context: total and distinct.
struct Followers {
  std::uint32_t count = 0;
  std::uint32_t types = 0;
};

// A table from keys of `key_bytes` bytes to T: an array for short keys, open addressing for long ones.
template <typename T>
class Table {
 public:
  explicit Table(int key_bytes) : dense_(key_bytes <= kDenseBytes) {
    values_.resize(dense_ ? std::size_t{1} << (8 * key_bytes) : std::size_t{1} << 12);
    if (!dense_) keys_.resize(values_.size());
  }

  T& at(std::uint64_t key) {
    if (dense_) return values_[key];
    if (2 * ++used_ > keys_.size()) grow();
    const std::size_t slot = find(key + 1);
    if (keys_[slot] != 0) --used_;
    keys_[slot] = key + 1;
    return values_[slot];
  }

  T get(std::uint64_t key) const {
    if (dense_) return values_[key];
    const std::size_t slot = find(key + 1);
    return keys_[slot] == 0 ? T{} : values_[slot];
  }

 private:
  // The slot of a stored key (key + 1, so that 0 means free) or the free one where it belongs.
  std::size_t find(std::uint64_t stored) const {
    const std::size_t mask = keys_.size() - 1;
    std::size_t slot = mix(0, stored) & mask;
    while (keys_[slot] != 0 && keys_[slot] != stored) slot = (slot + 1) & mask;
    return slot;
  }

  void grow() {
    std::vector<std::uint64_t> keys(2 * keys_.size());
    std::vector<T> values(keys.size());
    keys.swap(keys_);
    values.swap(values_);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (keys[i] == 0) continue;
      const std::size_t slot = find(keys[i]);
      keys_[slot] = keys[i];
      values_[slot] = values[i];
    }
  }

  bool dense_;
  std::vector<T> values_;
  std::vector<std::uint64_t> keys_;
  std::size_t used_ = 0;
};

constexpr std::uint64_t low_bytes(std::uint64_t history, int count) {
  return history & ((std::uint64_t{1} << (8 * count)) - 1);
}

}  // namespace

struct NgramModel::Tables {
  int context_bytes;
  std::vector<Table<std::uint32_t>> grams;  // by context and byte
  std::vector<Table<Followers>> contexts;   // by context
};

NgramModel::NgramModel(int context_bytes) {
  if (context_bytes < 0 || context_bytes > kMaxContext)
    fail(ErrorKind::kUsage, "an n-gram context of {} bytes; 0 to {} is possible", context_bytes,
         kMaxContext);
  tables_ =
      std::make_unique<Tables>(Tables{.context_bytes = context_bytes, .grams = {}, .contexts = {}});
  for (int k = 0; k <= context_bytes; ++k) {
    tables_->grams.emplace_back(k + 1);
    tables_->contexts.emplace_back(k);
  }
}

NgramModel::~NgramModel() = default;
NgramModel::NgramModel(NgramModel&&) noexcept = default;

void NgramModel::add(std::string_view text) {
  std::uint64_t history = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::uint64_t gram = history << 8 | static_cast<unsigned char>(text[i]);
    for (int k = 0; k <= tables_->context_bytes && static_cast<std::size_t>(k) <= i; ++k) {
      const auto at = static_cast<std::size_t>(k);
      Followers& followers = tables_->contexts[at].at(low_bytes(history, k));
      std::uint32_t& count = tables_->grams[at].at(low_bytes(gram, k + 1));
      ++followers.count;
      if (count++ == 0) ++followers.types;
    }
    history = low_bytes(gram, kMaxContext);
  }
}

double NgramModel::bits(std::string_view text) const {
  std::uint64_t history = 0;
  double bits = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::uint64_t gram = history << 8 | static_cast<unsigned char>(text[i]);
    double p = 1.0 / 256;
    for (int k = 0; k <= tables_->context_bytes && static_cast<std::size_t>(k) <= i; ++k) {
      const auto at = static_cast<std::size_t>(k);
      const Followers followers = tables_->contexts[at].get(low_bytes(history, k));
      if (followers.count == 0) break;
      const double count = tables_->grams[at].get(low_bytes(gram, k + 1));
      p = (count + followers.types * p) / (static_cast<double>(followers.count) + followers.types);
    }
    bits -= std::log2(p);
    history = low_bytes(gram, kMaxContext);
  }
  return bits;
}

double bits_per_byte(std::string_view train, std::string_view held_out, int context_bytes) {
  if (held_out.empty()) fail(ErrorKind::kData, "no held-out text to measure bits per byte on");
  NgramModel model(context_bytes);
  model.add(train);
  return model.bits(held_out) / static_cast<double>(held_out.size());
}

}  // namespace trireme::text
