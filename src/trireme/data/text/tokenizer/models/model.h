// Finds the tokens of a word: a tokenizer.json's "model".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace trireme::text {

// A token of a word, with its bytes there.
struct WordToken {
  std::int32_t id = 0;
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

// Read-only; safe to share between threads.
class Model {
 public:
  virtual ~Model() = default;
  // Appends the tokens of a word, which is not empty.
  virtual void encode(std::string_view word, std::vector<WordToken>& out) const = 0;
  // All that decides the ids of a word beyond the texts of the tokens; for digests. `before` comes before these.
  struct Rules {
    std::string before;
    std::string after;
  };
  virtual Rules rules() const = 0;
};

struct HashText {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};

// Ids by the bytes of a token.
using TokenIds = std::unordered_map<std::string, std::int32_t, HashText, std::equal_to<>>;

}  // namespace trireme::text
