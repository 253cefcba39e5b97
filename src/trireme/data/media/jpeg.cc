// JPEG through TurboJPEG.
#include <turbojpeg.h>

#include <memory>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/data/media/codecs.h"

namespace trireme::media {
namespace {

using Handle = std::unique_ptr<void, int (*)(tjhandle)>;

struct JpegHeader {
  Handle decoder;
  int width = 0, height = 0;
  bool cmyk = false;
};

// The last thing said may be about bytes that do not matter; pixels are all there then.
bool harmless(std::string_view warning) {
  for (const char* word : {"extraneous bytes", "Adobe", "JFIF"})
    if (warning.find(word) != warning.npos) return true;
  return false;
}

void check(int result, const Handle& handle, const std::string& what) {
  if (result == 0) return;
  const char* why = tjGetErrorStr2(handle.get());
  if (tjGetErrorCode(handle.get()) == TJERR_WARNING && harmless(why)) return;
  fail(ErrorKind::kData, "{}: a JPEG that is corrupt or truncated: {}", what, why);
}

JpegHeader read_jpeg_header(ByteSpan bytes, const std::string& what) {
  JpegHeader header{.decoder{tjInitDecompress(), tjDestroy}};
  TRIREME_CHECK(header.decoder != nullptr, "TurboJPEG gives no decoder");
  int subsampling = 0, colours = 0;
  check(tjDecompressHeader3(header.decoder.get(), octets(bytes), bytes.size(), &header.width,
                            &header.height, &subsampling, &colours),
        header.decoder, what);
  header.cmyk = colours == TJCS_CMYK || colours == TJCS_YCCK;
  check_size(header.width, header.height, what);
  return header;
}

// Of four inks as files have them in practice: inverted, as Adobe writes them.
Image from_inks(const std::vector<std::uint8_t>& cmyk, int width, int height) {
  return over_black(cmyk.data(), width, height);
}

}  // namespace

ImageSize jpeg_size(ByteSpan bytes, const std::string& what) {
  const JpegHeader header = read_jpeg_header(bytes, what);
  return {header.width, header.height};
}

Image decode_jpeg(ByteSpan bytes, const std::string& what) {
  // A few bytes can ask for thousands of scans over all pixels.
  constexpr int kFlags = TJFLAG_ACCURATEDCT | TJFLAG_LIMITSCANS;
  const JpegHeader header = read_jpeg_header(bytes, what);
  const int channels = header.cmyk ? 4 : 3;
  Image image;
  std::vector<std::uint8_t> inks;
  if (header.cmyk)
    inks.resize(std::size_t{4} * static_cast<std::size_t>(header.width) *
                static_cast<std::size_t>(header.height));
  else
    image = Image(header.width, header.height);
  check(tjDecompress2(header.decoder.get(), octets(bytes), bytes.size(),
                      header.cmyk ? inks.data() : image.rgb.data(), header.width,
                      header.width * channels, header.height, header.cmyk ? TJPF_CMYK : TJPF_RGB,
                      kFlags),
        header.decoder, what);
  return header.cmyk ? from_inks(inks, header.width, header.height) : image;
}

std::string encode_jpeg(const Image& image, int quality) {
  if (quality < 1 || quality > 100)
    fail(ErrorKind::kUsage, "a JPEG quality of {}; it is 1 to 100", quality);
  const Handle encoder(tjInitCompress(), tjDestroy);
  unsigned char* made = nullptr;
  unsigned long size = 0;
  const int result =
      tjCompress2(encoder.get(), image.rgb.data(), image.width, 3 * image.width, image.height,
                  TJPF_RGB, &made, &size, TJSAMP_444, quality, TJFLAG_ACCURATEDCT);
  const std::unique_ptr<unsigned char, void (*)(unsigned char*)> owned(made, tjFree);
  if (result != 0)
    fail(ErrorKind::kUsage, "a picture of {} x {} pixels as JPEG: {}", image.width, image.height,
         tjGetErrorStr2(encoder.get()));
  return {reinterpret_cast<const char*>(made), size};
}

}  // namespace trireme::media
