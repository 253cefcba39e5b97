// A checkpoint's model on one rank, to ask what it writes.
#pragma once

#include <memory>
#include <string>

#include "trireme/comm/local/local_world.h"
#include "trireme/config/job.h"
#include "trireme/exec/session.h"
#include "trireme/formats/manifest.h"

namespace trireme::app {

// Fills parameters from a checkpoint of any layout, or from a directory of Hugging Face's files. Optimizer states stay
// as they are, because converted weights have none. A checkpoint of trained parameters alone takes the rest from
// `base`. Throws Error{kData} where they cannot be read.
void load_parameters(const Path& checkpoint, const formats::Manifest& manifest, const Path& base,
                     exec::Session& session);

// Its job is the checkpoint's on one rank, one sample at a time, without the memory savings of training, which may be
// impossible so. Throws Error{kData} where the parameters cannot be read.
class LoadedModel {
 public:
  // `context` replaces model.seq_len; 0: as it is. A model of Ends::kAnswers ends as one of data.source=preferences: its
  // head writes the losses of tokens.
  enum class Ends { kAsTrained, kAnswers };
  explicit LoadedModel(const Path& checkpoint, std::int64_t context = 0,
                       Ends ends = Ends::kAsTrained);

  const config::Job& job() const { return job_; }
  const exec::Model& model() const { return session_->model(); }

 private:
  LoadedModel(const Path& checkpoint, const formats::Manifest& manifest, std::int64_t context,
              Ends ends);

  config::Job job_;
  comm::LocalWorld local_;
  std::unique_ptr<comm::World> world_;
  std::unique_ptr<exec::Optimizer> optimizer_;
  std::unique_ptr<exec::Session> session_;
};

}  // namespace trireme::app
