#include "trireme/data/loaders/tokens/chat_source.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/data/loaders/tokens/packed_source.h"

namespace trireme::loaders {
namespace {

// Without ranges of long conversations that lost all answers. Throws Error{kData} if none is left.
PackedRows conversation_rows(const config::Job& job, const PackedSplit& split) {
  const std::int64_t seq_len = job.model.seq_len;
  PackedRows rows =
      chat::packed_documents(split.tokens, seq_len, config::parse_chat(job.data.chat).longer);
  if (rows.empty()) return rows;
  for (std::vector<PackedPiece>& row : rows)
    std::erase_if(row,
                  [&](const PackedPiece& piece) { return marked_tokens(split.loss, piece) == 0; });
  std::erase_if(rows, [](const std::vector<PackedPiece>& row) { return row.empty(); });
  if (rows.empty())
    fail(ErrorKind::kData,
         "model.seq_len={}: all answers lie beyond it, so nothing has loss; raise model.seq_len",
         seq_len);
  return rows;
}

class ChatSource final : public PackedSource {
 public:
  ChatSource(const config::Job& job, const PackedSplit& split, std::optional<std::uint64_t> seed)
      : PackedSource(job, split, conversation_rows(job, split), seed) {}

  double weight(std::int64_t first, std::int64_t count) const override {
    std::int64_t sum = 0;
    for (std::int64_t place = first; place < first + count; ++place)
      for (const PackedPiece& piece : pieces(place)) sum += marked_tokens(loss(), piece);
    return static_cast<double>(sum);
  }
};

}  // namespace

Sources open_chat(const config::Job& job, const Path& dataset, Evaluated evaluated) {
  const auto [train, held_out] = open_packed(dataset, evaluated, "chat");
  return {
      .train = std::make_unique<ChatSource>(job, train, static_cast<std::uint64_t>(job.data.seed)),
      .held_out = std::make_unique<ChatSource>(job, held_out, std::nullopt),
      .digest = train.dataset->digest,
      .vocabulary = train.dataset->tokenizer.digest()};
}

}  // namespace trireme::loaders
