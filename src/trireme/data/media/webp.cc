// WebP, still and animated, through libwebp.
#include <webp/decode.h>
#include <webp/demux.h>
#include <webp/encode.h>
#include <webp/mux.h>

#include <cmath>
#include <cstring>

#include "trireme/base/error.h"
#include "trireme/data/media/video_reader.h"

namespace trireme::media {
namespace {

[[noreturn]] void refuse_webp(const std::string& what) {
  fail(ErrorKind::kData, "{}: a WebP that is corrupt or truncated", what);
}

WebPBitstreamFeatures webp_features(ByteSpan bytes, const std::string& what) {
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(octets(bytes), bytes.size(), &features) != VP8_STATUS_OK) refuse_webp(what);
  check_size(features.width, features.height, what);
  // The length that the file begins with is past its end: the rest is missing.
  std::uint32_t length = 0;
  std::memcpy(&length, octets(bytes) + 4, sizeof length);
  if (std::uint64_t{length} + 8 > bytes.size()) refuse_webp(what);
  return features;
}

// Frames are drawn over one another, so the way to one leads through those before.
class WebpReader : public VideoReader {
 public:
  WebpReader(ByteSpan bytes, const std::string& what) : what_(what), bytes_(bytes) {
    webp_features(bytes, what);
    restart();
    if (!decoder_) refuse_webp(what);
    WebPAnimInfo header;
    if (!WebPAnimDecoderGetInfo(decoder_.get(), &header)) refuse_webp(what);
    info_ = {.width = static_cast<int>(header.canvas_width),
             .height = static_cast<int>(header.canvas_height),
             .fps = frames_per_second(header.frame_count),
             .frames = header.frame_count};
  }

  VideoInfo info() const override { return info_; }

  std::vector<Image> read(std::span<const std::int64_t> numbers) override {
    std::vector<Image> images;
    restart();
    std::int64_t at = -1;
    std::uint8_t* rgba = nullptr;
    for (const std::int64_t number : numbers) {
      for (int time = 0; at < number; ++at)
        if (!WebPAnimDecoderGetNext(decoder_.get(), &rgba, &time)) refuse_webp(what_);
      images.push_back(over_black(rgba, info_.width, info_.height));
    }
    return images;
  }

 private:
  void restart() {
    const WebPData data{octets(bytes_), bytes_.size()};
    WebPAnimDecoderOptions options;
    WebPAnimDecoderOptionsInit(&options);
    options.color_mode = MODE_RGBA;
    decoder_.reset(WebPAnimDecoderNew(&data, &options));
  }

  double frames_per_second(std::uint32_t frames) const {
    const WebPDemuxer* demuxer = WebPAnimDecoderGetDemuxer(decoder_.get());
    double milliseconds = 0;
    for (std::uint32_t i = 1; i <= frames; ++i) {
      WebPIterator frame;
      if (WebPDemuxGetFrame(demuxer, static_cast<int>(i), &frame)) milliseconds += frame.duration;
      WebPDemuxReleaseIterator(&frame);
    }
    return milliseconds > 0 ? 1000.0 * frames / milliseconds : 0;
  }

  std::string what_;
  ByteSpan bytes_;
  std::unique_ptr<WebPAnimDecoder, void (*)(WebPAnimDecoder*)> decoder_{nullptr,
                                                                        WebPAnimDecoderDelete};
  VideoInfo info_;
};

// A picture as the encoder takes it.
class WebpPicture {
 public:
  explicit WebpPicture(const Image& image) {
    WebPPictureInit(&picture_);
    picture_.use_argb = 1;
    picture_.width = image.width;
    picture_.height = image.height;
    if (!WebPPictureImportRGB(&picture_, image.rgb.data(), 3 * image.width))
      fail(ErrorKind::kUsage, "a frame of {} x {} pixels as WebP", image.width, image.height);
  }
  ~WebpPicture() { WebPPictureFree(&picture_); }
  WebpPicture(const WebpPicture&) = delete;
  WebpPicture& operator=(const WebpPicture&) = delete;
  WebPPicture* get() { return &picture_; }

 private:
  WebPPicture picture_;
};

}  // namespace

bool is_webp(ByteSpan bytes) {
  return bytes.size() >= 12 && std::memcmp(bytes.data(), "RIFF", 4) == 0 &&
         std::memcmp(bytes.data() + 8, "WEBP", 4) == 0;
}

ImageSize webp_size(ByteSpan bytes, const std::string& what) {
  const WebPBitstreamFeatures features = webp_features(bytes, what);
  return {features.width, features.height};
}

Image decode_webp(ByteSpan bytes, const std::string& what) {
  const WebPBitstreamFeatures features = webp_features(bytes, what);
  if (features.has_animation) {
    constexpr std::int64_t kFirst[] = {0};
    return std::move(WebpReader(bytes, what).read(kFirst).front());
  }
  int width = 0, height = 0;
  const std::unique_ptr<std::uint8_t, void (*)(void*)> rgba(
      WebPDecodeRGBA(octets(bytes), bytes.size(), &width, &height), WebPFree);
  if (!rgba) refuse_webp(what);
  return over_black(rgba.get(), width, height);
}

std::unique_ptr<VideoReader> open_webp(ByteSpan bytes, const std::string& what) {
  return std::make_unique<WebpReader>(bytes, what);
}

std::string encode_webp(std::span<const Image> frames, double fps, bool lossless, float quality) {
  if (frames.empty() || !(fps > 0))
    fail(ErrorKind::kUsage, "{} frames at {} a second make no animated WebP", frames.size(), fps);
  WebPAnimEncoderOptions options;
  WebPAnimEncoderOptionsInit(&options);
  const std::unique_ptr<WebPAnimEncoder, void (*)(WebPAnimEncoder*)> encoder(
      WebPAnimEncoderNew(frames[0].width, frames[0].height, &options), WebPAnimEncoderDelete);
  WebPConfig config;
  WebPConfigInit(&config);
  config.lossless = lossless;
  config.quality = lossless ? 20 : quality;
  config.method = lossless ? 1 : 4;
  const auto time = [&](std::size_t i) {
    return static_cast<int>(std::lround(1000.0 * static_cast<double>(i) / fps));
  };
  WebPData data{};
  bool made = encoder != nullptr;
  for (std::size_t i = 0; made && i < frames.size(); ++i)
    made = WebPAnimEncoderAdd(encoder.get(), WebpPicture(frames[i]).get(), time(i), &config);
  made = made && WebPAnimEncoderAdd(encoder.get(), nullptr, time(frames.size()), nullptr) &&
         WebPAnimEncoderAssemble(encoder.get(), &data);
  const std::unique_ptr<WebPData, void (*)(WebPData*)> owned(&data, WebPDataClear);
  if (!made)
    fail(ErrorKind::kUsage, "frames of {} x {} pixels as WebP: {}", frames[0].width,
         frames[0].height, encoder ? WebPAnimEncoderGetError(encoder.get()) : "no encoder");
  return {reinterpret_cast<const char*>(data.bytes), data.size};
}

}  // namespace trireme::media
