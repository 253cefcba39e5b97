#include "trireme/data/text/tokenizer/base64.h"

#include <cstdint>

#include "trireme/base/error.h"

namespace trireme::text {
namespace {

constexpr std::string_view kDigits64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string base64(std::string_view bytes) {
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i)
      group = group << 8 | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0u);
    for (std::size_t i = 0; i < 4; ++i)
      out += at + i > bytes.size() ? '=' : kDigits64[group >> (18 - 6 * i) & 63];
  }
  return out;
}

std::string bytes_of_base64(std::string_view text, const std::string& what) {
  if (text.size() % 4 != 0)
    fail(ErrorKind::kData, "{}: base64 of {} characters; a multiple of 4 is needed", what,
         text.size());
  std::string out;
  const std::size_t digits = text.find_last_not_of('=') + 1;
  if (text.size() - digits > 2) fail(ErrorKind::kData, "{}: base64 ends with too many =", what);
  std::uint32_t group = 0;
  for (std::size_t at = 0; at < digits; ++at) {
    const std::size_t digit = kDigits64.find(text[at]);
    if (digit == kDigits64.npos) fail(ErrorKind::kData, "{}: character {} is no base64", what, at);
    group = group << 6 | static_cast<std::uint32_t>(digit);
    if (at % 4 != 0) out += static_cast<char>(group >> (6 - 2 * (at % 4)) & 0xFF);
  }
  return out;
}

}  // namespace trireme::text
