#include "trireme/launch/elastic/link.h"

#include <utility>
#include <vector>

#include "trireme/base/error.h"

namespace trireme::elastic {

Link::Link(os::Net& net, os::Address leader, const std::string& token,
           std::function<void(Message)> on_message)
    : net_(net), leader_(std::move(leader)), sessions_(token), on_message_(std::move(on_message)) {}

void Link::tick(double now) {
  constexpr double kRetry_s = 0.5;  // seconds between attempts
  constexpr double kHandshake = 5;
  const bool open = session_ && session_->open();
  if (session_ && !open && now - dialled_at_ > kHandshake) drop("it does not answer");
  if (session_ || now - dialled_at_ < kRetry_s) return;
  dialled_at_ = now;
  session_.emplace(sessions_.connect(Caller::kAgent));
  connection_ = net_.dial(leader_);
  net_.send(connection_, session_->greeting());
}

void Link::drop(const std::string& why) {
  net_.close(connection_);
  session_.reset();
  trouble_ = print(leader_) + ": " + why;
}

void Link::handle(const os::NetEvent& event) {
  using Kind = os::NetEvent::Kind;
  if (!session_ || event.connection != connection_) return;
  if (event.kind == Kind::kClosed)
    drop(!event.bytes.empty() ? event.bytes
         : session_->open()   ? "it closed the connection"
                              : "it closed the connection before the token was shown. Start both "
                                "with the same token file and version");
  if (event.kind != Kind::kBytes) return;
  std::vector<Message> messages;
  try {
    net_.send(connection_, session_->receive(event.bytes, [&](std::string frame) {
      messages.push_back(decode(frame));
    }));
    if (session_->open()) trouble_.clear();
  } catch (const Error& error) {
    drop(error.what());
  }
  for (Message& message : messages) on_message_(std::move(message));
}

void Link::send(const Message& message) {
  if (session_ && session_->open()) net_.send(connection_, session_->seal(encode(message)));
}

}  // namespace trireme::elastic
