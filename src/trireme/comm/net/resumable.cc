#include "trireme/comm/net/resumable.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace trireme::comm {

ResumableStream::ResumableStream(std::unique_ptr<Stream> connection)
    : connection_(std::move(connection)), kept_(kWindow) {}

std::size_t ResumableStream::write(const std::byte* data, std::size_t bytes, bool) {
  const std::size_t space = kWindow - static_cast<std::size_t>(end_ - acknowledged_);
  const std::size_t most = std::min(bytes, space);
  std::size_t taken = 0;
  flush();
  // Other streams may take what the connection does not take.
  while (taken < most && (!connection_ || unsent() == 0)) {
    const auto at = static_cast<std::size_t>(end_ % kWindow);
    const std::size_t part = std::min({most - taken, kWindow - at, kPart});
    std::memcpy(kept_.data() + at, data + taken, part);
    end_ += part;
    taken += part;
    flush();
  }
  return taken;
}

// The next piece to leave, if there is one.
bool ResumableStream::start_piece() {
  if (arrived_ - reported_ >= kPiece) {
    out_ = {.number = arrived_, .kind = kArrived};
    reported_ = arrived_;
  } else if (sent_ < end_) {
    const auto at = static_cast<std::size_t>(sent_ % kWindow);
    const std::size_t bytes =
        std::min({static_cast<std::size_t>(end_ - sent_), kWindow - at, kPiece});
    out_ = {.number = sent_, .bytes = static_cast<std::uint32_t>(bytes), .kind = kData};
    sent_ += bytes;
  } else if (ending_) {
    out_ = {.number = end_, .kind = kEnd};
    ending_ = false;
  } else {
    return false;
  }
  out_done_ = 0;
  return has_out_ = true;
}

std::size_t ResumableStream::unsent() const {
  const std::size_t piece = has_out_ ? sizeof out_ + out_.bytes - out_done_ : 0;
  return static_cast<std::size_t>(end_ - sent_) + piece;
}

std::size_t ResumableStream::backlog() const {
  return connection_ ? unsent() + connection_->backlog()
                     : static_cast<std::size_t>(end_ - acknowledged_);
}

bool ResumableStream::flush() {
  try {
    while (connection_ && (has_out_ || start_piece())) {
      while (out_done_ < sizeof out_ + out_.bytes) {
        const bool header = out_done_ < sizeof out_;
        const std::byte* const from =
            header ? reinterpret_cast<const std::byte*>(&out_) + out_done_
                   : kept_.data() + out_.number % kWindow + (out_done_ - sizeof out_);
        const std::size_t n =
            connection_->write(from, (header ? sizeof out_ : sizeof out_ + out_.bytes) - out_done_,
                               header && out_.bytes > 0);
        if (n == 0) return false;
        out_done_ += n;
      }
      has_out_ = false;
    }
  } catch (const std::runtime_error& error) {
    cut(error.what());
  }
  return true;
}

void ResumableStream::take_header() {
  if (in_.kind == kArrived) {
    if (in_.number < acknowledged_ || in_.number > sent_ || in_.bytes != 0)
      throw std::runtime_error("it acknowledged what was not sent");
    acknowledged_ = in_.number;
    in_header_ = 0;
  } else if (in_.kind == kEnd) {
    ended_ = true;
  } else if (in_.kind != kData || in_.number != arrived_ || in_.bytes > kPiece) {
    throw std::runtime_error("it sent bytes out of order");
  }
}

std::size_t ResumableStream::read(std::byte* into, std::size_t bytes) {
  try {
    while (connection_ && !ended_) {
      if (in_header_ < sizeof in_) {
        const std::size_t n = connection_->read(reinterpret_cast<std::byte*>(&in_) + in_header_,
                                                sizeof in_ - in_header_);
        if (n == 0) return 0;
        in_header_ += n;
        if (in_header_ == sizeof in_) take_header();
        continue;
      }
      if (in_done_ == in_.bytes) {
        in_header_ = in_done_ = 0;
        continue;
      }
      const std::size_t n = connection_->read(into, std::min(bytes, in_.bytes - in_done_));
      in_done_ += n;
      arrived_ += n;
      if (arrived_ - reported_ >= kPiece) flush();
      return n;
    }
  } catch (const std::runtime_error& error) {
    cut(error.what());
  }
  if (ended_) throw std::runtime_error("connection closed by the other side");
  return 0;
}

void ResumableStream::shut() {
  ending_ = true;
  flush();
  if (connection_) connection_->shut();
}

std::uint64_t ResumableStream::cut(const std::string& why) {
  if (connection_) why_ = why;
  connection_.reset();
  return arrived_;
}

void ResumableStream::resume(std::unique_ptr<Stream> connection, std::uint64_t arrived) {
  if (arrived < acknowledged_ || arrived > end_)
    throw std::runtime_error("the other side has bytes that were not sent, or lacks old ones");
  connection_ = std::move(connection);
  acknowledged_ = sent_ = arrived;
  reported_ = arrived_;  // the other side has been informed
  has_out_ = false;
  in_header_ = in_done_ = 0;
  flush();
}

}  // namespace trireme::comm
