// Vision towers, alone and before others.
#include "trireme/base/error.h"
#include "trireme/config/families.h"
#include "trireme/config/resolve/resolve_towers.h"
#include "trireme/config/rules/shared_rules.h"
#include "trireme/config/rules/templates.h"
#include "trireme/config/synthetic.h"

namespace trireme::config {
namespace {

bool reads_files(const Job& job) { return !files_of(job.data.source).empty(); }
bool has_grid(const Job& job) {
  return job.vision.position_grid > 0 || job.vision.positions == Positions::kLearnedRotary;
}

void resolve_classes(Job& job, const Given& given) {
  if (job.vision.classes == 0) job.vision.classes = given.data.classes;
}
void check_classes(const Job& job, const Given& given) {
  const std::int64_t classes = job.vision.classes, data = given.data.classes;
  if (classes < data)
    fail(ErrorKind::kUsage,
         "vision.classes={} is less than the {} classes of the data; set vision.classes={} (or 0)",
         classes, data, data);
}

}  // namespace

Rule reads(std::string_view sources, std::string_view what) {
  return {"source", needs("model.family", {sources}, what, "another family")};
}

std::vector<Rule> sample_rules() {
  return {
      {"files-path",
       refused("data.source with data.path=", "it reads files",
               "set data.path to their directory, list or shards (docs/data.md)"),
       reads_files},
      {"made-path",
       refused("data.path", "the samples of {data.source} are generated during training"),
       [](const Job& job) { return !reads_files(job); }},
      {"bytes", refused("data.tokenizer", "captions and questions use bytes as tokens"),
       [](const Job& job) { return !info(job).tokenizes_questions; }},
      {"documents", refused("data.documents", "samples are not cut from documents")},
      {"logits",
       refused("recompute.logits", "{model.family} has no output layer over a vocabulary"),
       [](const Job& job) { return !info(job).decoder; }},
  };
}

std::vector<Rule> tower_rules() {
  constexpr std::string_view kTable = "vision.positions=learned";
  return joined({
      sample_rules(),
      {{"image", multiple_of("vision.image", "vision.patch")},
       {"frames", multiple_of("vision.frames", "vision.tubelet")},
       {"tower-heads", multiple_of("vision.hidden", "vision.heads")},
       {"turned-plane",
        turned_heads("vision.hidden", "vision.heads",
                     {.axes = " over row and column", .step = 4, .least = 4}, kTable),
        [](const Job& job) { return job.vision.positions == Positions::kLearnedRotary; }},
       {"turned-clip", turned_heads("vision.hidden", "vision.heads", kTurnsClips, kTable),
        [](const Job& job) { return !has_position_table(job.vision); }},
       {"grid-table", refused("vision.position_grid with vision.positions=rotary|rotary_compat",
                              "rotary positions have no table",
                              "leave it out, or set vision.positions=learned or learned_rotary")},
       {"grid-time",
        equal_to("vision.frames", "vision.tubelet",
                 "{vision.position_grid} with {vision.positions} has positions of rows and "
                 "columns, none of time",
                 "vision.positions=learned and vision.position_grid=0"),
        has_grid},
       {"grid-class", refused("vision.position_grid with vision.pooling=class",
                              "a class token has no place in a grid that is resampled",
                              "set vision.position_grid=0 or vision.pooling=mean")},
       {.id = "tower-ffn",
        .fill =
            [](Job& job, const Given&) {
              if (job.vision.ffn == 0) job.vision.ffn = 4 * job.vision.hidden;
            }}},
  });
}

Rule rotary_tower() {
  return {"rotary-tower",
          refused("vision.positions=learned|learned_rotary", "{model.family} has rotary ones",
                  "set vision.positions=rotary (or rotary_compat)")};
}

std::vector<Rule> class_rules() {
  return {{"classes",
           refused("vision.classes=0",
                   "it means the number of class names, and the data have none (classes are only "
                   "numbers, or files are missing)",
                   "set vision.classes"),
           nullptr, resolve_classes},
          {.id = "data-classes", .fits = check_classes}};
}

}  // namespace trireme::config
