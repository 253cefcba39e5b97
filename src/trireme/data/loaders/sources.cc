#include "trireme/base/error.h"
#include "trireme/config/synthetic.h"
#include "trireme/data/loaders/families.h"
#include "trireme/data/loaders/samples/clip_source.h"
#include "trireme/data/loaders/samples/file_sources.h"
#include "trireme/data/loaders/samples/synthetic_images.h"
#include "trireme/data/loaders/source.h"
#include "trireme/data/loaders/tokens/chat_source.h"
#include "trireme/data/loaders/tokens/preference_source.h"
#include "trireme/data/loaders/tokens/synthetic_tokens.h"
#include "trireme/data/loaders/tokens/text_source.h"
#include "trireme/families/arrcoc/samples_quadrants.h"

namespace trireme::loaders {

Sources open_sources(const config::Job& job, const Path& dataset, Evaluated evaluated) {
  if (config::synthetic_source(job.data.source) != nullptr && evaluated == Evaluated::kTraining)
    fail(ErrorKind::kUsage,
         "samples of data.source={} are generated during training and have no training split; "
         "evaluate the held-out samples",
         config::synthetic_source(job.data.source)->name);
  switch (job.data.source) {
    case config::DataSource::kText: return open_text(job, dataset, evaluated);
    case config::DataSource::kChat: return open_chat(job, dataset, evaluated);
    case config::DataSource::kPreferences: return open_preferences(job, dataset, evaluated);
    case config::DataSource::kSquares: return family_samples(job).squares(job);
    case config::DataSource::kArm: return open_arm(job);
    case config::DataSource::kQuadrants: return open_quadrants(job);
    case config::DataSource::kStripes: return open_stripes(job);
    case config::DataSource::kWords:
    case config::DataSource::kAffine: return open_synthetic_tokens(job);
    case config::DataSource::kScenes: return family_samples(job).scenes(job);
    case config::DataSource::kImages: return open_files(job, image_reader(job), evaluated);
    case config::DataSource::kPairs:
      return open_files(job, family_samples(job).pairs(job), evaluated);
    case config::DataSource::kClips: return open_clips(job, evaluated);
    case config::DataSource::kTrajectories:
      return open_files(job, trajectory_reader(job), evaluated);
    default: break;
  }
  TRIREME_CHECK(false, "data.source {}", static_cast<int>(job.data.source));
}

}  // namespace trireme::loaders
