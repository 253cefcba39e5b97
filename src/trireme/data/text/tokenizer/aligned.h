// A text that normalizers change, and where each of its bytes came from.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::text {

// Bytes [begin, end) of a text.
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;

  bool operator==(const Range&) const = default;
};

inline std::string_view slice(std::string_view text, Range range) {
  return text.substr(range.begin, range.end - range.begin);
}

// Text whose bytes know their range in the original text. Until the first change it is a view into the original, which
// must outlive it.
class Aligned {
 public:
  // `offset`: where `text` begins in the original. Untracked texts lose their ranges with the first change.
  Aligned(std::string_view text, std::size_t offset, bool tracked)
      : view_(text), offset_(offset), tracked_(tracked) {}

  bool tracked() const { return tracked_; }
  std::string_view text() const { return changed_ ? std::string_view(own_) : view_; }
  // The original's range of a range of this text.
  Range source(Range range) const;
  // A part as a text of its own, which must not outlive this one.
  Aligned part(Range range) const;

 private:
  friend class Rewrite;

  std::string_view view_;
  std::size_t offset_ = 0;
  bool tracked_ = false;
  bool changed_ = false;
  std::string own_;
  std::vector<Range> sources_;  // of each byte; empty: bytes lie as in the original, from offset_
};

// Writes the successor of a text, from its beginning to its end.
class Rewrite {
 public:
  explicit Rewrite(const Aligned& from) : from_(from), to_({}, from.offset_, from.tracked_) {}

  std::string_view text() const { return to_.own_; }
  std::size_t size() const { return to_.own_.size(); }
  // Takes the last bytes back.
  void cut_to(std::size_t size);
  // Bytes that stay as they are.
  void copy(Range range);
  // Bytes in place of others. All of them come from `range`.
  void put(std::string_view bytes, Range range);
  Aligned take();

 private:
  const Aligned& from_;
  Aligned to_;
};

}  // namespace trireme::text
