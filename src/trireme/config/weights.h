// A job and the weights that its model begins with: which keys it has from them, and under which they mean the same.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/fs.h"
#include "trireme/config/job.h"

namespace trireme::config {

// parse_job and load_job where keys that are left out have the values of `base`.
Job parse_job_over(const Job& base, std::string_view text, const std::string& what);
Job load_job_over(const Job& base, const Path& path);

// Defaults for a job of `family` whose model begins with weights of the resolved job `weights`: inherited keys have the
// weights' values.
Job defaults_from(const Job& weights, Family family);

// Compared keys whose values differ between the resolved jobs of weights (before) and of a run that begins with them
// (after), without the allowed ones.
std::vector<Difference> other_meaning(const Job& weights, const Job& job,
                                      const std::vector<std::string>& allowed);

// YAML of a job that begins with `weights` of a resolved job: what is inherited from them, and the source of samples.
std::string print_job_for(const Job& job, const Path& weights);

// YAML of the keys in which `job` differs from `base`: load_job_over(base, ..) of it is the job.
std::string print_over(const Job& base, const Job& job);

// Throws Error{kUsage} for a key that is not compared with that of weights.
void check_allowed(const std::vector<std::string>& keys);

// The key of the vocabulary, which is compared by its digest.
inline constexpr std::string_view kVocabularyKey = "data.tokenizer";

}  // namespace trireme::config
