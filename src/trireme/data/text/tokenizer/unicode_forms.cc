// normalize of normalizers.h.
#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "trireme/base/error.h"
#include "trireme/data/text/tokenizer/normalizers.h"
#include "trireme/data/text/tokenizer/utf8.h"

namespace trireme::text {
namespace {

int options_of(UnicodeForm form) {
  const bool composes = form == UnicodeForm::kNfc || form == UnicodeForm::kNfkc;
  const bool compatible = form == UnicodeForm::kNfkc || form == UnicodeForm::kNfkd;
  return UTF8PROC_STABLE | (composes ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
         (compatible ? UTF8PROC_COMPAT : 0);
}

struct FreeMapped {
  void operator()(utf8proc_uint8_t* bytes) const { std::free(bytes); }
};

std::string mapped(std::string_view text, int options) {
  utf8proc_uint8_t* bytes = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                             static_cast<utf8proc_ssize_t>(text.size()), &bytes,
                                             static_cast<utf8proc_option_t>(options));
  if (size < 0) fail(ErrorKind::kData, "cannot normalise the text: {}", utf8proc_errmsg(size));
  const std::unique_ptr<utf8proc_uint8_t, FreeMapped> owned(bytes);
  return {reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size)};
}

// Whether a character may combine with those before it: a mark, or a Hangul vowel or final, also after decomposition.
bool combines_backward(std::int32_t code) {
  if (code < 0x300) return false;
  utf8proc_int32_t decomposed[32];
  int last_class = 0;
  const utf8proc_ssize_t size = utf8proc_decompose_char(
      code, decomposed, std::size(decomposed),
      static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT), &last_class);
  const utf8proc_int32_t first = size > 0 ? decomposed[0] : code;
  if (utf8proc_get_property(first)->combining_class != 0) return true;
  if (first >= 0x1160 && first <= 0x11FF) return true;
  const auto category = utf8proc_category(first);
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC;
}

// Bytes of the characters with which both texts begin.
std::size_t common_characters(std::string_view a, std::string_view b) {
  std::size_t size = 0;
  while (size < a.size() && a.substr(size, character_at(a, size).size) ==
                                b.substr(std::min(size, b.size()), character_at(a, size).size))
    size += character_at(a, size).size;
  return size;
}

}  // namespace

void normalize(Aligned& text, UnicodeForm form) {
  const int options = options_of(form);
  const std::string_view from = text.text();
  const auto is_ascii = [&](std::size_t at) { return static_cast<unsigned char>(from[at]) < 0x80; };
  if (std::ranges::all_of(from, [](char c) { return static_cast<unsigned char>(c) < 0x80; }))
    return;
  need_utf8(from);
  Rewrite rewrite(text);
  if (!text.tracked()) {
    rewrite.put(mapped(from, options), {0, from.size()});
    text = rewrite.take();
    return;
  }
  for (std::size_t at = 0; at < from.size();) {
    std::size_t end = at;
    while (end < from.size() && is_ascii(end)) ++end;
    // The last of them may combine with what follows.
    if (end < from.size() && end > at) --end;
    if (end > at) {
      rewrite.copy({at, end});
      at = end;
      if (at == from.size()) break;
    }
    end = at + character_at(from, at).size;
    while (end < from.size()) {
      const Character next = character_at(from, end);
      if (!combines_backward(next.code)) break;
      end += next.size;
    }
    const std::string_view group = from.substr(at, end - at);
    const std::string changed = mapped(group, options);
    const std::size_t same = common_characters(group, changed);
    rewrite.copy({at, at + same});
    if (same < group.size()) rewrite.put(changed.substr(same), {at + same, end});
    at = end;
  }
  text = rewrite.take();
}

}  // namespace trireme::text
