#include "trireme/launch/elastic/store.h"

#include <charconv>
#include <utility>

namespace trireme::elastic {
namespace {

using Kind = StoreRequest::Kind;

// 0 for what is no number, as for a key that is missing.
std::int64_t number_in(const std::string& value) {
  std::int64_t number = 0;
  std::from_chars(value.data(), value.data() + value.size(), number);
  return number;
}

}  // namespace

bool Store::waits(const StoreRequest& request) const {
  return (request.kind == Kind::kGet || request.kind == Kind::kWait) &&
         !values_.contains(request.key);
}

Store::Replies Store::ask(Client client, const StoreRequest& request) {
  if (generation_ == 0 || request.generation != generation_)
    return {{client, {.id = request.id, .served = false}}};
  if (waits(request)) {
    waiting_.emplace_back(client, request);
    return {};
  }
  Replies replies = {{client, answer(request)}};
  std::erase_if(waiting_, [&](const auto& waiting) {
    if (waits(waiting.second)) return false;
    replies.emplace_back(waiting.first, answer(waiting.second));
    return true;
  });
  return replies;
}

StoreReply Store::answer(const StoreRequest& request) {
  StoreReply reply{.id = request.id};
  const auto found = values_.find(request.key);
  const bool there = found != values_.end();
  switch (request.kind) {
    case Kind::kSet: values_[request.key] = request.value; break;
    case Kind::kGet: reply.value = found->second; break;
    case Kind::kAdd:
      // After the largest number it continues from the smallest, like c10d's own stores.
      reply.number = static_cast<std::int64_t>(
          static_cast<std::uint64_t>(there ? number_in(found->second) : 0) +
          static_cast<std::uint64_t>(request.amount));
      values_[request.key] = std::to_string(reply.number);
      break;
    case Kind::kCompareSet:
      if (there ? found->second == request.expected : request.expected.empty())
        reply.value = values_[request.key] = request.value;
      else
        reply.value = there ? found->second : request.expected;
      break;
    case Kind::kDelete: reply.number = static_cast<std::int64_t>(values_.erase(request.key)); break;
    case Kind::kCheck: reply.number = there; break;
    case Kind::kWait: break;
    case Kind::kCount: reply.number = static_cast<std::int64_t>(values_.size()); break;
  }
  return reply;
}

Store::Replies Store::serve(std::uint64_t generation) {
  Replies refused;
  for (const auto& [client, request] : std::exchange(waiting_, {}))
    refused.push_back({client, {.id = request.id, .served = false}});
  generation_ = generation;
  values_.clear();
  return refused;
}

void Store::forget(Client client) {
  std::erase_if(waiting_, [&](const auto& waiting) { return waiting.first == client; });
}

}  // namespace trireme::elastic
