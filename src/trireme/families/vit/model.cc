#include "trireme/families/vit/model.h"

#include <utility>

#include "trireme/families/vit/model_tower.h"
#include "trireme/model/families/families.h"
#include "trireme/model/graph.h"

namespace trireme::model {

ModelSpec vit_spec(const config::Job& job, const PerRank& rank, const Training& training) {
  const config::Vision& vision = job.vision;
  const std::int64_t samples = rank.micro_batch, d = vision.hidden;
  Graph graph("vit", rank, training);
  const plan::ValueId images =
      graph.input("images", samples * 3 * vision.frames * vision.image * vision.image * 4);
  const plan::ValueId labels = graph.input("labels", samples * 8);
  const plan::ValueId x = tower_nodes(graph, vision, images, {.nodes = "", .params = ""});
  const plan::UnitId head =
      graph.unit({.name = "head",
                  .params = joined({pool_params(vision, ""),
                                    linear_params("head", vision.classes, d, vision.init_std)})});
  const bool reached = graph.reached(x) || training.trains("head");
  graph.node({.name = "head",
              .reads = {x, labels},
              .loss = true,
              .exchanges = pool_exchanges(graph, vision, reached)},
             added(pool_work(graph, vision),
                   linear_work(graph, samples, vision.classes * d, samples * (d + vision.classes))),
             {head}, {{.name = "loss", .bytes = rank.compute == DType::kF64 ? 8 : 4}});
  ModelSpec spec = std::move(graph).build();
  spec.sample_tokens = tower(vision, 1).tokens;
  spec.metrics = {"accuracy"};
  return spec;
}

FamilyModel vit_model() { return {.describe = vit_spec, .loss = loss_of_classes}; }

}  // namespace trireme::model
