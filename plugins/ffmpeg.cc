// Video files through FFmpeg: the plug-in behind trireme/data/media/video.h.
extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/imgutils.h>
#include <libavutil/log.h>
#include <libswscale/swscale.h>
}

#include <algorithm>
#include <cstring>
#include <memory>

#include "trireme/base/error.h"
#include "trireme/data/media/video_reader.h"

namespace trireme::media {
namespace {

template <auto release>
struct Release {
  template <typename T>
  void operator()(T* value) const {
    release(&value);
  }
};
template <auto release>
struct ReleaseItself {
  template <typename T>
  void operator()(T* value) const {
    release(value);
  }
};

using Packet = std::unique_ptr<AVPacket, Release<av_packet_free>>;
using Frame = std::unique_ptr<AVFrame, Release<av_frame_free>>;
using Codec = std::unique_ptr<AVCodecContext, Release<avcodec_free_context>>;
using Scaler = std::unique_ptr<SwsContext, ReleaseItself<sws_freeContext>>;

// Scaling as the same bits on every machine.
constexpr int kScaling = SWS_BILINEAR | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT | SWS_BITEXACT;

std::string reason(int error) {
  char text[AV_ERROR_MAX_STRING_SIZE] = {};
  av_strerror(error, text, sizeof text);
  return text;
}

// A negative result is an error.
int must(int result, ErrorKind kind, const std::string& what, const char* doing) {
  if (result < 0) fail(kind, "{}: {}: {}", what, doing, reason(result));
  return result;
}

// Bytes in memory as a file of FFmpeg's.
class MemoryInput {
 public:
  explicit MemoryInput(ByteSpan bytes) : bytes_(bytes) {
    constexpr int kBuffer = 1 << 16;
    auto* buffer = static_cast<unsigned char*>(av_malloc(kBuffer));
    context_ = avio_alloc_context(buffer, kBuffer, 0, this, read, nullptr, seek);
  }
  ~MemoryInput() {
    av_freep(&context_->buffer);
    avio_context_free(&context_);
  }
  MemoryInput(const MemoryInput&) = delete;
  MemoryInput& operator=(const MemoryInput&) = delete;
  AVIOContext* get() { return context_; }

 private:
  static int read(void* self, std::uint8_t* to, int size) {
    auto& input = *static_cast<MemoryInput*>(self);
    const std::size_t left = input.bytes_.size() - input.at_;
    const std::size_t count = std::min(left, static_cast<std::size_t>(size));
    if (count == 0) return AVERROR_EOF;
    std::memcpy(to, input.bytes_.data() + input.at_, count);
    input.at_ += count;
    return static_cast<int>(count);
  }
  static std::int64_t seek(void* self, std::int64_t offset, int whence) {
    auto& input = *static_cast<MemoryInput*>(self);
    const auto size = static_cast<std::int64_t>(input.bytes_.size());
    if (whence == AVSEEK_SIZE) return size;
    if (whence == SEEK_CUR) offset += static_cast<std::int64_t>(input.at_);
    if (whence == SEEK_END) offset += size;
    if (offset < 0 || offset > size) return AVERROR(EINVAL);
    input.at_ = static_cast<std::size_t>(offset);
    return offset;
  }

  ByteSpan bytes_;
  std::size_t at_ = 0;
  AVIOContext* context_ = nullptr;
};

// Frames are numbered in the order of presentation, as the packets' times say, which are read first.
class FfmpegReader : public VideoReader {
 public:
  FfmpegReader(ByteSpan bytes, const std::string& what) : what_(what), input_(bytes) {
    AVFormatContext* format = avformat_alloc_context();
    format->pb = input_.get();
    format->flags |= AVFMT_FLAG_BITEXACT;
    must(avformat_open_input(&format, nullptr, nullptr, nullptr), "it is no video that is known");
    format_.reset(format);
    must(avformat_find_stream_info(format, nullptr), "its streams cannot be read");
    const AVCodec* decoder = nullptr;
    stream_ = av_find_best_stream(format, AVMEDIA_TYPE_VIDEO, -1, -1, &decoder, 0);
    if (stream_ < 0 || decoder == nullptr) fail(ErrorKind::kData, "{}: no video in it", what_);
    for (unsigned i = 0; i < format->nb_streams; ++i)
      if (static_cast<int>(i) != stream_) format->streams[i]->discard = AVDISCARD_ALL;
    open_decoder(decoder);
    read_times();
    const AVRational rate = av_guess_frame_rate(format, stream(), nullptr);
    info_ = {.width = codec_->width,
             .height = codec_->height,
             .fps = rate.den > 0 ? av_q2d(rate) : 0,
             .frames = static_cast<std::int64_t>(times_.size())};
  }

  VideoInfo info() const override { return info_; }

  std::vector<Image> read(std::span<const std::int64_t> numbers) override {
    if (numbers.empty()) return {};
    std::vector<Image> images = decode(numbers, true);
    // Pictures may refer to others before the one that a jump leads to.
    if (images.size() < numbers.size()) images = decode(numbers, false);
    if (images.size() < numbers.size())
      fail(ErrorKind::kData, "{}: corrupt or truncated: frame {} of {} cannot be decoded", what_,
           numbers[images.size()], info_.frames);
    return images;
  }

 private:
  struct CloseFormat {
    void operator()(AVFormatContext* format) const { avformat_close_input(&format); }
  };

  int must(int result, const char* doing) const {
    return media::must(result, ErrorKind::kData, what_, doing);
  }
  AVStream* stream() const { return format_->streams[stream_]; }

  void open_decoder(const AVCodec* decoder) {
    codec_.reset(avcodec_alloc_context3(decoder));
    must(avcodec_parameters_to_context(codec_.get(), stream()->codecpar), "its codec's header");
    codec_->thread_count = 1;  // callers have threads of their own
    codec_->flags |= AV_CODEC_FLAG_BITEXACT;
    codec_->err_recognition |= AV_EF_CRCCHECK | AV_EF_EXPLODE;
    codec_->pkt_timebase = stream()->time_base;
    must(avcodec_open2(codec_.get(), decoder, nullptr), "its codec cannot be opened");
  }

  static std::int64_t time_of(std::int64_t pts, std::int64_t dts) {
    return pts != AV_NOPTS_VALUE ? pts : dts;
  }

  void read_times() {
    constexpr std::size_t kMost = 1 << 24;
    const Packet packet(av_packet_alloc());
    while (av_read_frame(format_.get(), packet.get()) >= 0) {
      const bool ours =
          packet->stream_index == stream_ && (packet->flags & AV_PKT_FLAG_DISCARD) == 0;
      const std::int64_t time = time_of(packet->pts, packet->dts);
      if (ours && time != AV_NOPTS_VALUE && times_.size() < kMost) {
        times_.push_back(time);
        if (packet->flags & AV_PKT_FLAG_KEY) keys_.push_back(time);
      }
      av_packet_unref(packet.get());
    }
    std::sort(times_.begin(), times_.end());
    std::sort(keys_.begin(), keys_.end());
  }

  // To the last key frame at or before that time.
  bool jump(std::int64_t time) {
    avcodec_flush_buffers(codec_.get());
    return av_seek_frame(format_.get(), stream_, time, AVSEEK_FLAG_BACKWARD) >= 0;
  }

  // Whether a key frame lies after `from` and at or before `to`.
  bool key_between(std::int64_t from, std::int64_t to) const {
    const auto key = std::upper_bound(keys_.begin(), keys_.end(), from);
    return key != keys_.end() && *key <= to;
  }

  // As many as can be found, in order. Without jumps it reads all that lies before.
  std::vector<Image> decode(std::span<const std::int64_t> numbers, bool jumping) {
    std::vector<Image> images;
    const auto time = [&](std::size_t i) { return times_[static_cast<std::size_t>(numbers[i])]; };
    if (!jump(jumping ? time(0) : times_.front())) return images;
    const Frame frame(av_frame_alloc());
    while (images.size() < numbers.size() && next(frame.get())) {
      const std::int64_t at = frame->best_effort_timestamp;
      if (at == time(images.size())) {
        images.push_back(to_rgb(*frame));
        const bool more = images.size() < numbers.size();
        if (more && jumping && key_between(at, time(images.size())) && !jump(time(images.size())))
          break;
      } else if (at > time(images.size())) {
        break;
      }
    }
    return images;
  }

  bool next(AVFrame* frame) {
    const Packet packet(av_packet_alloc());
    while (true) {
      const int got = avcodec_receive_frame(codec_.get(), frame);
      if (got >= 0) return true;
      if (got != AVERROR(EAGAIN)) return false;
      int sent = av_read_frame(format_.get(), packet.get());
      if (sent < 0) {
        sent = avcodec_send_packet(codec_.get(), nullptr);
      } else {
        sent =
            packet->stream_index == stream_ ? avcodec_send_packet(codec_.get(), packet.get()) : 0;
        av_packet_unref(packet.get());
      }
      if (sent < 0) return false;
    }
  }

  Image to_rgb(const AVFrame& frame) {
    if (frame.width != info_.width || frame.height != info_.height)
      fail(ErrorKind::kData, "{}: frames change size from {} x {} to {} x {}", what_, info_.width,
           info_.height, frame.width, frame.height);
    scaler_.reset(sws_getCachedContext(
        scaler_.release(), frame.width, frame.height, static_cast<AVPixelFormat>(frame.format),
        frame.width, frame.height, AV_PIX_FMT_RGB24, kScaling, nullptr, nullptr, nullptr));
    if (!scaler_) fail(ErrorKind::kData, "{}: pixels of a format that is not known", what_);
    Image image(frame.width, frame.height);
    std::uint8_t* rows[4] = {image.rgb.data()};
    const int strides[4] = {3 * frame.width};
    sws_scale(scaler_.get(), frame.data, frame.linesize, 0, frame.height, rows, strides);
    return image;
  }

  std::string what_;
  MemoryInput input_;
  std::unique_ptr<AVFormatContext, CloseFormat> format_;
  Codec codec_;
  Scaler scaler_;
  int stream_ = -1;
  std::vector<std::int64_t> times_, keys_;
  VideoInfo info_;
};

// One MPEG-4 stream into one file, with nothing in it that says who wrote it or when.
class FfmpegWriter {
 public:
  FfmpegWriter(const std::string& path, int width, int height, double fps) : what_(path) {
    AVFormatContext* format = nullptr;
    avformat_alloc_output_context2(&format, nullptr, nullptr, path.c_str());
    if (format == nullptr)
      fail(ErrorKind::kUsage, "{}: no container has this ending; .mp4 is one", path);
    format_.reset(format);
    format->flags |= AVFMT_FLAG_BITEXACT;
    open_encoder(width, height, fps);
    stream_ = avformat_new_stream(format, nullptr);
    stream_->time_base = codec_->time_base;
    stream_->avg_frame_rate = codec_->framerate;
    must(avcodec_parameters_from_context(stream_->codecpar, codec_.get()), "its codec's header");
    must(avio_open(&format->pb, path.c_str(), AVIO_FLAG_WRITE), "cannot be written");
    must(avformat_write_header(format, nullptr), "cannot be written");
    scaler_.reset(sws_getContext(width, height, AV_PIX_FMT_RGB24, width, height, AV_PIX_FMT_YUV420P,
                                 kScaling, nullptr, nullptr, nullptr));
    frame_.reset(av_frame_alloc());
    frame_->format = AV_PIX_FMT_YUV420P;
    frame_->width = width;
    frame_->height = height;
    must(av_frame_get_buffer(frame_.get(), 0), "a frame");
  }

  void add(const Image& image) {
    must(av_frame_make_writable(frame_.get()), "a frame");
    const std::uint8_t* rows[4] = {image.rgb.data()};
    const int strides[4] = {3 * image.width};
    sws_scale(scaler_.get(), rows, strides, 0, image.height, frame_->data, frame_->linesize);
    frame_->pts = count_++;
    encode(frame_.get());
  }

  void finish() {
    encode(nullptr);
    must(av_write_trailer(format_.get()), "cannot be written");
    must(avio_closep(&format_->pb), "cannot be written");
  }

 private:
  struct FreeFormat {
    void operator()(AVFormatContext* format) const {
      if (format->pb != nullptr) avio_closep(&format->pb);
      avformat_free_context(format);
    }
  };

  int must(int result, const char* doing) const {
    return media::must(result, ErrorKind::kData, what_, doing);
  }

  void open_encoder(int width, int height, double fps) {
    constexpr int kQuality = 3;  // of 1, the best, to 31
    const AVCodec* encoder = avcodec_find_encoder(AV_CODEC_ID_MPEG4);
    if (encoder == nullptr)
      fail(ErrorKind::kUsage, "{}: this FFmpeg was built without its MPEG-4 encoder", what_);
    codec_.reset(avcodec_alloc_context3(encoder));
    codec_->width = width;
    codec_->height = height;
    codec_->pix_fmt = AV_PIX_FMT_YUV420P;
    codec_->framerate = av_d2q(fps, 1001);
    codec_->time_base = av_inv_q(codec_->framerate);
    codec_->gop_size = 12;
    codec_->thread_count = 1;
    codec_->flags |= AV_CODEC_FLAG_BITEXACT | AV_CODEC_FLAG_QSCALE;
    codec_->global_quality = FF_QP2LAMBDA * kQuality;
    if (format_->oformat->flags & AVFMT_GLOBALHEADER) codec_->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
    must(avcodec_open2(codec_.get(), encoder, nullptr), "its codec cannot be opened");
  }

  void encode(const AVFrame* frame) {
    must(avcodec_send_frame(codec_.get(), frame), "a frame cannot be encoded");
    const Packet packet(av_packet_alloc());
    while (avcodec_receive_packet(codec_.get(), packet.get()) >= 0) {
      packet->stream_index = stream_->index;
      packet->duration = 1;
      av_packet_rescale_ts(packet.get(), codec_->time_base, stream_->time_base);
      must(av_interleaved_write_frame(format_.get(), packet.get()), "cannot be written");
    }
  }

  std::string what_;
  std::unique_ptr<AVFormatContext, FreeFormat> format_;
  AVStream* stream_ = nullptr;
  Codec codec_;
  Scaler scaler_;
  Frame frame_;
  std::int64_t count_ = 0;
};

std::unique_ptr<VideoReader> open_file(ByteSpan bytes, const std::string& what) {
  return std::make_unique<FfmpegReader>(bytes, what);
}

void encode_file(const std::string& path, std::span<const Image> frames, double fps) {
  FfmpegWriter writer(path, frames[0].width, frames[0].height, fps);
  for (const Image& frame : frames) writer.add(frame);
  writer.finish();
}

}  // namespace
}  // namespace trireme::media

extern "C" __attribute__((visibility("default"))) const trireme::media::FfmpegPlugin*
trireme_ffmpeg() {
  av_log_set_level(AV_LOG_QUIET);  // errors are ours to tell
  static const trireme::media::FfmpegPlugin plugin{trireme::media::open_file,
                                                   trireme::media::encode_file};
  return &plugin;
}
