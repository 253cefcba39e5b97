// Inputs that are wrong in the ways of damage and of malice, the same in every run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::fuzz {

class Mutator {
 public:
  explicit Mutator(const std::vector<std::string>& seeds) : seeds_(seeds) {}

  // A seed with a few edits.
  std::string next() {
    std::string text = any_seed();
    for (std::size_t edits = 1 + below(4); edits > 0; --edits) edit(text);
    return text;
  }

 private:
  // random() % count is the same on every machine; distributions are not.
  std::size_t below(std::size_t count) { return count == 0 ? 0 : random_() % count; }
  const std::string& any_seed() { return seeds_[below(seeds_.size())]; }
  template <typename T, std::size_t N>
  const T& any_of(const T (&all)[N]) {
    return all[below(N)];
  }

  void edit(std::string& text) {
    const std::size_t at = below(text.size() + 1);
    switch (below(11)) {
      case 0: return flip(text, at);
      case 1: return text.resize(at);
      case 2: text.erase(at, 1 + below(16)); return;
      case 3: text.insert(at, 1 + below(16), static_cast<char>(random_())); return;
      case 4: return splice(text, at);
      case 5: return integer(text, at);
      case 6: return number(text, at);
      case 7: return repeat(text, at);
      case 8: return nest(text, at);
      case 9: text.insert(at, any_of(kWords)); return;
      default: swap_lines(text, at);
    }
  }

  void flip(std::string& text, std::size_t at) {
    if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
  }
  // The front of one and the back of another.
  void splice(std::string& text, std::size_t at) {
    const std::string& other = any_seed();
    text.replace(at, text.npos, other, below(other.size() + 1), other.npos);
  }
  // Bytes that a reader takes for a length or an offset.
  void integer(std::string& text, std::size_t at) {
    constexpr std::uint64_t kValues[] = {0,
                                         1,
                                         0x7f,
                                         0xff,
                                         0x7fff,
                                         0xffff,
                                         0x7fffffff,
                                         0xffffffff,
                                         std::uint64_t{1} << 40,
                                         ~std::uint64_t{0} >> 1,
                                         std::uint64_t{1} << 63,
                                         ~std::uint64_t{0}};
    const std::uint64_t value = any_of(kValues);
    for (std::size_t i = 0, bytes = std::size_t{1} << below(4); i < bytes && at + i < text.size();
         ++i)
      text[at + i] = static_cast<char>(value >> (8 * i));
  }
  // Another number where one is written in digits.
  void number(std::string& text, std::size_t at) {
    const std::size_t begin = text.find_first_of("0123456789", at);
    if (begin == text.npos) return;
    const std::size_t end = std::min(text.find_first_not_of("0123456789.", begin), text.size());
    text.replace(begin, end - begin, any_of(kNumbers));
  }
  // A stretch once more behind itself: what stood once in an object stands twice.
  void repeat(std::string& text, std::size_t at) {
    const std::size_t quote = std::min(text.find('"', at), text.size());
    const std::size_t comma = text.find_first_of(",\n", quote);
    const std::string part =
        comma == text.npos ? text.substr(at, 1 + below(64)) : text.substr(quote, comma + 1 - quote);
    text.insert(comma == text.npos ? at : quote, part);
  }
  void nest(std::string& text, std::size_t at) {
    constexpr std::string_view kOpen[] = {"[", "{\"a\":", "(", "- "};
    std::string deep;
    const std::string_view open = any_of(kOpen);
    for (std::size_t depth = std::size_t{1} << below(15); depth > 0; --depth) deep += open;
    text.insert(at, deep);
  }
  void swap_lines(std::string& text, std::size_t at) {
    const std::size_t first = text.find('\n', at);
    if (first == text.npos) return;
    const std::size_t second = std::min(text.find('\n', first + 1), text.size());
    const std::string line = text.substr(first, second - first);
    text.erase(first, line.size());
    text.insert(std::min(text.find('\n', below(text.size())), text.size()), line);
  }

  static constexpr const char* kNumbers[] = {"0",
                                             "-1",
                                             "1",
                                             "255",
                                             "65536",
                                             "2147483647",
                                             "2147483648",
                                             "4294967296",
                                             "9223372036854775807",
                                             "9223372036854775808",
                                             "18446744073709551616",
                                             "1e308",
                                             "1e400",
                                             "-0",
                                             "0.5",
                                             "99999999999999999999999999999999999999999999",
                                             "nan"};
  static constexpr const char* kWords[] = {
      "null",         "true",   "{}", "[]",    "\"\"",     "\\u0000", "\xFF\xFE",
      "\xED\xA0\x80", "../",    "*",  "[0-9]", "\x1b[31m", "&a",      "*a",
      "<<",           "(a+)+$", ": ", ",",     "=",        "\"",      "\\"};

  const std::vector<std::string>& seeds_;
  std::mt19937_64 random_{20261122};
};

}  // namespace trireme::fuzz
