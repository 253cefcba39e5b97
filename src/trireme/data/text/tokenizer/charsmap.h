// The table of character replacements of SentencePiece ("precompiled_charsmap").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::text {

// A double-array trie of darts-clone and the texts that its entries become. Layout: its size in bytes as little-endian
// uint32, the array of uint32, then texts that end with a zero byte.
class Charsmap {
 public:
  struct Match {
    std::size_t size = 0;  // bytes that are replaced
    std::string_view text;
  };

  Charsmap() = default;
  // From untrusted bytes; none: no replacements. Throws Error{kData} beginning with `what`.
  Charsmap(std::string_view bytes, const std::string& what);

  bool empty() const { return units_.empty(); }
  // The shortest and the longest replaceable beginning of `text`.
  std::optional<Match> shortest(std::string_view text) const { return find(text, true); }
  std::optional<Match> longest(std::string_view text) const { return find(text, false); }

 private:
  std::optional<Match> find(std::string_view text, bool shortest) const;

  std::vector<std::uint32_t> units_;
  std::string texts_;
};

}  // namespace trireme::text
