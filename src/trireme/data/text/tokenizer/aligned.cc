#include "trireme/data/text/tokenizer/aligned.h"

#include <utility>

namespace trireme::text {

Range Aligned::source(Range range) const {
  if (sources_.empty()) return {offset_ + range.begin, offset_ + range.end};
  const std::size_t begin = sources_[range.begin].begin;
  return {begin, range.end > range.begin ? sources_[range.end - 1].end : begin};
}

Aligned Aligned::part(Range range) const {
  Aligned made(slice(text(), range), offset_ + range.begin, tracked_);
  if (!sources_.empty())
    made.sources_.assign(sources_.begin() + static_cast<std::ptrdiff_t>(range.begin),
                         sources_.begin() + static_cast<std::ptrdiff_t>(range.end));
  return made;
}

void Rewrite::copy(Range range) {
  to_.own_ += slice(from_.text(), range);
  if (!to_.tracked_) return;
  for (std::size_t at = range.begin; at < range.end; ++at)
    to_.sources_.push_back(from_.source({at, at + 1}));
}

void Rewrite::put(std::string_view bytes, Range range) {
  to_.own_ += bytes;
  if (to_.tracked_) to_.sources_.insert(to_.sources_.end(), bytes.size(), from_.source(range));
}

void Rewrite::cut_to(std::size_t size) {
  to_.own_.resize(size);
  if (to_.tracked_) to_.sources_.resize(size);
}

Aligned Rewrite::take() {
  to_.changed_ = true;
  return std::move(to_);
}

}  // namespace trireme::text
