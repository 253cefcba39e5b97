#include "trireme/plan/compile/fold.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <span>

namespace trireme::plan {
namespace {

constexpr char kHole = '#';  // replaces a number

// A word with its numbers taken out; a hole may hold a range.
struct Shape {
  std::string text;
  std::vector<long> first;
  std::vector<long> last;
};

Shape shape_of(const std::string& word) {
  Shape shape;
  for (std::size_t i = 0; i < word.size();) {
    std::size_t end = i;
    while (end < word.size() && end - i < 9 && std::isdigit(static_cast<unsigned char>(word[end])))
      ++end;
    if (end == i) {
      shape.text += word[i++];
      continue;
    }
    const long number = std::stol(word.substr(i, end - i));
    // Zero-padded numbers would not print as they were read.
    if (std::to_string(number).size() != end - i) {
      shape.text += word.substr(i, end - i);
    } else {
      shape.text += kHole;
      shape.first.push_back(number);
      shape.last.push_back(number);
    }
    i = end;
  }
  return shape;
}

std::string render(const Shape& shape) {
  std::string text;
  std::size_t hole = 0;
  for (char c : shape.text) {
    if (c != kHole) {
      text += c;
      continue;
    }
    text += std::to_string(shape.first[hole]);
    if (shape.last[hole] != shape.first[hole]) text += fmt::format("..{}", shape.last[hole]);
    ++hole;
  }
  return text;
}

// Step of every number between two words of one shape; nullopt if they are of different shapes, or a
// number leaps, or a range moves.
std::optional<std::vector<long>> steps(const Shape& a, const Shape& b) {
  if (a.text != b.text) return std::nullopt;
  std::vector<long> result;
  for (std::size_t i = 0; i < a.first.size(); ++i) {
    const long step = b.first[i] - a.first[i];
    const bool range = a.first[i] != a.last[i];
    if (b.last[i] - a.last[i] != step || std::abs(step) > 1 || (range && step != 0))
      return std::nullopt;
    result.push_back(step);
  }
  return result;
}

// How often the `length` words at `begin` repeat, counting themselves.
std::size_t repetitions(std::span<const Shape> words, std::size_t begin, std::size_t length) {
  std::size_t count = 1;
  std::vector<std::vector<long>> pace;
  while (begin + (count + 1) * length <= words.size()) {
    for (std::size_t i = 0; i < length; ++i) {
      const std::size_t at = begin + (count - 1) * length + i;
      const auto step = steps(words[at], words[at + length]);
      if (!step || (count > 1 && *step != pace[i])) return count;
      if (count == 1) pace.push_back(*step);
    }
    ++count;
  }
  return count;
}

Shape group(std::span<const Shape> words, std::size_t begin, std::size_t length,
            std::size_t count) {
  Shape result{.text = std::to_string(count) + "x[", .first = {}, .last = {}};
  for (std::size_t i = 0; i < length; ++i) {
    const Shape& from = words[begin + i];
    const Shape& to = words[begin + (count - 1) * length + i];
    result.text += (i == 0 ? "" : " ") + from.text;
    result.first.insert(result.first.end(), from.first.begin(), from.first.end());
    for (std::size_t hole = 0; hole < from.first.size(); ++hole)
      result.last.push_back(from.first[hole] == to.first[hole] ? from.last[hole] : to.last[hole]);
  }
  result.text += ']';
  return result;
}

// One pass with groups of exactly `length` words; true if anything folded.
bool fold_once(std::vector<Shape>& words, std::size_t length) {
  std::vector<Shape> result;
  bool folded = false;
  for (std::size_t i = 0; i < words.size();) {
    const std::size_t count = repetitions(words, i, length);
    if (count == 1) {
      result.push_back(words[i++]);
      continue;
    }
    result.push_back(group(words, i, length, count));
    i += count * length;
    folded = true;
  }
  words = std::move(result);
  return folded;
}

}  // namespace

std::vector<std::string> fold(const std::vector<std::string>& words) {
  constexpr std::size_t kLongest = 400;
  std::vector<Shape> shapes;
  for (const std::string& word : words) shapes.push_back(shape_of(word));
  // Short groups first: inner loops before outer ones.
  for (std::size_t length = 1; length <= std::min(kLongest, shapes.size() / 2);)
    length = fold_once(shapes, length) ? 1 : length + 1;
  std::vector<std::string> result;
  for (const Shape& shape : shapes) result.push_back(render(shape));
  return result;
}

}  // namespace trireme::plan
