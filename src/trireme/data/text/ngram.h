// A byte n-gram model: the baseline that a trained language model has to beat.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

namespace trireme::text {

// Counts of every byte after every context of 0 to `context_bytes` bytes. They are interpolated from the longest known
// context down to the uniform distribution with Witten-Bell weights (Witten & Bell 1991, method C):
//   p_k(b | c) = (count(c b) + types(c) * p_{k-1}(b | c')) / (count(c) + types(c)),  p_{-1} = 1/256.
// context_bytes 2 is the byte trigram model, often called order 3. Memory grows with the distinct
// contexts: about 70 MB for 2, about 100 MB for 3 on 20 MB of source text.
class NgramModel {
 public:
  // 0 <= context_bytes <= 6, else Error{kUsage}.
  explicit NgramModel(int context_bytes);
  ~NgramModel();
  NgramModel(NgramModel&&) noexcept;

  // Learns one document; contexts do not reach across documents.
  void add(std::string_view text);

  // Bits that the model needs for one document.
  double bits(std::string_view text) const;

 private:
  struct Tables;
  std::unique_ptr<Tables> tables_;
};

// Fits on `train` and returns the bits per byte on `held_out`, each taken as one document. An empty
// held-out text is Error{kData}.
double bits_per_byte(std::string_view train, std::string_view held_out, int context_bytes);

}  // namespace trireme::text
