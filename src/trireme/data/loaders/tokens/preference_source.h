// Compared answers packed into rows.
#pragma once

#include <memory>
#include <span>

#include "trireme/config/sections/preference.h"
#include "trireme/data/loaders/tokens/packed_source.h"
#include "trireme/data/loaders/tokens/reference.h"

namespace trireme::loaders {

// Numbers of a split by token and, with rewards, by document. Empty: 0 for all.
struct AnswerNumbers {
  std::span<const double> reference{}, old{};  // log-probabilities
  std::vector<double> advantages{}, rewards{};
};

// {tokens, targets, positions, answers, reference} of source preferences, [samples, tokens], and three more of a policy
// loss; model/answers.h has them. Both conversations of a comparison lie in one row. Weights are what the sum of the
// losses is divided by: the number of comparisons, or comparisons::policy_weight().
class PreferenceSource final : public PackedSource {
 public:
  // `kept` holds the files of the numbers.
  PreferenceSource(const config::Job& job, const PackedSplit& split,
                   std::optional<std::uint64_t> seed, AnswerNumbers numbers,
                   std::vector<std::shared_ptr<const void>> kept);

  std::vector<at::Tensor> batch(std::int64_t first, std::int64_t count) const override;
  double weight(std::int64_t first, std::int64_t count) const override;

  // The number in its split of each marked token, where it is a target in the first epoch; -1 elsewhere. int64 [count,
  // tokens].
  at::Tensor places(std::int64_t first, std::int64_t count) const;
  // Of the split.
  std::int64_t tokens_of_split() const { return tokens().tokens(); }

 private:
  // Calls body(index in the row, range of a document, its comparison within the row) for the row at a place.
  template <typename Body>
  void for_pieces(std::int64_t place, const Body& body) const;
  // Fills a row of the inputs that a policy loss has in addition, from a place on.
  void fill_rewards(std::vector<at::Tensor>& inputs, std::int64_t from,
                    const PackedPiece& piece) const;
  double weight_of_rows(std::int64_t first, std::int64_t count) const;

  config::Preference preference_;
  std::int64_t micro_batch_;
  AnswerNumbers numbers_;
  std::vector<std::shared_ptr<const void>> kept_;
};

// Whether the loss reads log-probabilities of the initial weights: rollouts may bring all that a policy loss needs.
// `dataset` is a directory.
bool needs_reference(const config::Job& job, const Path& dataset);

// Without preference.reference its numbers are 0: for runs that compute them, and for trials. Throws as
// chat::packed_comparisons, and Error{kData} for another data set or reference.
Sources open_preferences(const config::Job& job, const Path& dataset, Evaluated evaluated);

}  // namespace trireme::loaders
