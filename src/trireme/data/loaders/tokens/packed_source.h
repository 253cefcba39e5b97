// Conversations of a data set packed into rows.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "trireme/data/chat/pack.h"
#include "trireme/data/loaders/sample_order.h"
#include "trireme/data/loaders/source.h"
#include "trireme/data/text/dataset.h"

namespace trireme::loaders {

using chat::PackedPiece;
using PackedRows = std::vector<std::vector<PackedPiece>>;
using OpenedDataset = std::shared_ptr<const text::Dataset>;

// One split of a data set of conversations.
struct PackedSplit {
  OpenedDataset dataset;
  const text::TokenFile& tokens;
  const text::TokenFile& loss;  // marks of the tokens
};
// Training, and what is evaluated. Throws Error{kData} for a data set without marked answers, which needs `source`.
std::pair<PackedSplit, PackedSplit> open_packed(const Path& dataset, Evaluated evaluated,
                                                std::string_view source);

// The places of a range of a document, and its last target.
std::vector<std::int64_t> read_piece(const text::TokenFile& file, const PackedPiece& piece);
// Marked tokens among the targets of such a range.
std::int64_t marked_tokens(const text::TokenFile& loss, const PackedPiece& piece);

class PackedSource : public Source {
 public:
  // Rows in the order of consumption that `seed` draws, without it in their own order.
  PackedSource(const config::Job& job, PackedSplit split, PackedRows rows,
               std::optional<std::uint64_t> seed);

  std::int64_t samples() const override { return std::ssize(rows_); }
  // {tokens, targets, positions}: marked tokens are targets.
  std::vector<at::Tensor> batch(std::int64_t first, std::int64_t count) const override;

 protected:
  // Ranges in the row at a place of the order; none after the last held-out row.
  const std::vector<PackedPiece>& pieces(std::int64_t place) const;
  const text::TokenFile& tokens() const { return split_.tokens; }
  const text::TokenFile& loss() const { return split_.loss; }
  std::int64_t seq_len() const { return seq_len_; }

 private:
  void fill(std::vector<at::Tensor>& batch, std::int64_t row,
            const std::vector<PackedPiece>& parts) const;
  void check(const std::vector<std::int64_t>& ids) const;

  PackedSplit split_;
  std::int64_t seq_len_, vocab_;
  PackedRows rows_;
  std::optional<SampleOrder> order_;
};

}  // namespace trireme::loaders
