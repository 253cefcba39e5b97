#include "trireme/data/text/text_file.h"

#include <array>

#include "trireme/base/error.h"

namespace trireme::text {
namespace {

using namespace std::string_view_literals;

struct Beginning {
  std::string_view bytes;
  const char* kind;
};

// UTF-32 comes before UTF-16, whose mark it begins with.
constexpr std::array kBeginnings = {Beginning{"\xFF\xFE\0\0"sv, "UTF-32 text"},
                                    Beginning{"\xFF\xFE"sv, "UTF-16 text"},
                                    Beginning{"\xFE\xFF"sv, "UTF-16 text"},
                                    Beginning{"\x89PNG\r\n"sv, "a PNG picture"},
                                    Beginning{"\xFF\xD8\xFF"sv, "a JPEG picture"},
                                    Beginning{"GIF8"sv, "a GIF picture"},
                                    Beginning{"%PDF-"sv, "a PDF document"},
                                    Beginning{"PK\x03\x04"sv, "a ZIP archive"},
                                    Beginning{"\x1F\x8B"sv, "a gzip archive"},
                                    Beginning{"\x28\xB5\x2F\xFD"sv, "a zstd archive"},
                                    Beginning{"\x7F"
                                              "ELF"sv,
                                              "a program"}};

[[noreturn]] void refuse_bytes(const std::string& what, const std::string& kind) {
  fail(ErrorKind::kData,
       "{}: {}, not text in UTF-8; convert it or leave it out (--extension chooses files by their "
       "ending), or take bytes as they are with trireme data prepare --binary",
       what, kind);
}

}  // namespace

void check_is_text(std::string_view bytes, const std::string& what) {
  for (const Beginning& known : kBeginnings)
    if (bytes.starts_with(known.bytes)) refuse_bytes(what, known.kind);
  if (const std::size_t zero = bytes.find('\0'); zero != bytes.npos)
    refuse_bytes(what, fmt::format("has a byte 0 at {}, as UTF-16 or binary data has", zero));
}

}  // namespace trireme::text
