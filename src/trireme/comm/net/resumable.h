// ResumableStream: a stream that outlives its connection. Bytes travel in numbered chunks, and are kept until the other side
// has acknowledged them; over a new connection they are sent again from the first that did not arrive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trireme/comm/net/stream.h"

namespace trireme::comm {

class ResumableStream final : public Stream {
 public:
  static constexpr std::size_t kPiece = std::size_t{256} << 10;
  static constexpr std::size_t kPart = std::size_t{64} << 10;   // bytes that are taken at a time
  static constexpr std::size_t kWindow = std::size_t{4} << 20;  // bytes that are kept

  explicit ResumableStream(std::unique_ptr<Stream> connection);

  int descriptor() const override { return connection_ ? connection_->descriptor() : -1; }
  // Takes what the window has space for. Throws once the stream has ended for good.
  std::size_t write(const std::byte* data, std::size_t bytes, bool more = false) override;
  // Throws where the other side has ended the stream.
  std::size_t read(std::byte* into, std::size_t bytes) override;
  bool has_pending() const override { return connection_ && connection_->has_pending(); }
  bool waits_for_space(bool writing) const override {
    return connection_ && connection_->waits_for_space(writing);
  }
  bool accepts() const override { return connection_ && end_ - acknowledged_ < kWindow; }
  std::size_t backlog() const override;
  bool flush() override;
  void shut() override;

  // Whether its connection is gone, and why.
  bool is_cut() const { return connection_ == nullptr; }
  const std::string& why() const { return why_; }
  // Gives up the connection; returns the number of bytes that have arrived.
  std::uint64_t cut(const std::string& why);
  // Continues over a new connection, of whose other side so many bytes have arrived. Throws std::runtime_error where that
  // cannot be.
  void resume(std::unique_ptr<Stream> connection, std::uint64_t arrived);

 private:
  struct PieceHeader {
    std::uint64_t number = 0;  // of the first byte; of an acknowledgement: bytes that have arrived
    std::uint32_t bytes = 0;
    std::uint32_t kind = 0;
  };
  static_assert(sizeof(PieceHeader) == 16);
  enum Kind : std::uint32_t { kData, kArrived, kEnd };

  bool start_piece();
  void take_header();
  std::size_t unsent() const;

  std::unique_ptr<Stream> connection_;
  std::string why_;
  std::vector<std::byte> kept_;  // a ring, by number of the byte
  std::uint64_t acknowledged_ = 0, sent_ = 0, end_ = 0;
  PieceHeader out_;
  std::size_t out_done_ = 0;  // of header and bytes
  bool has_out_ = false;
  std::uint64_t arrived_ = 0, reported_ = 0;
  PieceHeader in_;
  std::size_t in_header_ = 0, in_done_ = 0;
  bool ending_ = false, ended_ = false;
};

}  // namespace trireme::comm
