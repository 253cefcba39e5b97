// Compared answers packed into rows.
#pragma once

#include <memory>
#include <span>

#include "trireme/config/sections/preference.h"
#include "trireme/data/loaders/tokens/packed_source.h"
#include "trireme/data/loaders/tokens/reference.h"

namespace trireme::loaders {

// {tokens, targets, positions, answers, reference} of source preferences, [samples, tokens]; model/answers.h
// has the last two. Both conversations of a comparison lie in one row. Weights count comparisons.
class PreferenceSource final : public PackedSource {
 public:
  // `numbers`: log-probabilities of the reference of each token of the split; empty: 0 for all.
  PreferenceSource(const config::Job& job, const PackedSplit& split,
                   std::optional<std::uint64_t> seed, std::shared_ptr<const Reference> reference,
                   std::span<const double> numbers);

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

  config::PreferenceLoss loss_;
  std::shared_ptr<const Reference> reference_;
  std::span<const double> numbers_;
};

// Without preference.reference its numbers are 0: for runs that compute them, and for trials. Throws as
// chat::packed_comparisons, and Error{kData} for another data set or reference.
Sources open_preferences(const config::Job& job, const Path& dataset, Evaluated evaluated);

}  // namespace trireme::loaders
