// Regions of an image with tokens by what they are worth: what sizes, data and layout must have.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/config/rules/rule.h"

namespace trireme::config {

// Tokens: a question for each region, then an answer for each pattern.
inline constexpr std::int64_t kQuadrants = 4;
inline constexpr std::int64_t kQuadrantPatterns = 4;
inline constexpr std::int64_t kQuadrantVocab = kQuadrants + kQuadrantPatterns;

std::vector<Rule> arrcoc_rules();

// Tokens for question and answer in a row of a resolved job, after the most that an image has.
std::int64_t text_tokens(const Job& job);
// Whether questions are about regions, which are known; else they are a user's own.
inline bool asks_regions(const Job& job) { return job.data.source == DataSource::kQuadrants; }
// Whether scorers add to the loss while training.
inline bool charges(const Arrcoc& arrcoc) {
  return arrcoc.budget_weight > 0 || arrcoc.entropy_weight > 0;
}

// Which of the texture's 13 channels arrcoc.channels names.
std::array<bool, 13> texture_channels(const Arrcoc& arrcoc);

// Scorers that arrcoc.scorers names.
struct Scored {
  bool information = false;
  bool salience = false;
  bool coupling = false;
  std::int64_t count() const { return information + salience + coupling; }
};
Scored scored(const Arrcoc& arrcoc);

}  // namespace trireme::config
