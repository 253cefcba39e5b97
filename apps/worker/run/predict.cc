// trireme-worker predict: classes, captions or embeddings of pictures and clips.
#include <ATen/ops/stack.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

#include "alone.h"
#include "apps/worker/subcommands.h"
#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/checkpoint/convert/weights.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/config/families.h"
#include "trireme/data/loaders/asked.h"
#include "trireme/exec/session.h"
#include "trireme/families/clip/blocks_predict.h"
#include "trireme/model/blocks/build.h"
#include "trireme/model/layout.h"
#include "trireme/optim/make_optimizer.h"

namespace trireme::app {
namespace {

// What is asked, as the front has checked it.
struct PredictRequest {
  std::vector<std::string> files, captions, classes;
  bool embed = false;
  std::size_t top = 5;
};

PredictRequest read_request(const Path& path) {
  const Json json = parse_json(read_file(path), path.string());
  return {.files = json.at("files").get<std::vector<std::string>>(),
          .captions = json.at("captions").get<std::vector<std::string>>(),
          .classes = json.at("classes").get<std::vector<std::string>>(),
          .embed = json.at("embed").get<bool>(),
          .top = json.at("top").get<std::size_t>()};
}

std::vector<double> numbers_of(const at::Tensor& row) {
  const at::Tensor wide = row.to(at::kDouble).contiguous();
  return {wide.data_ptr<double>(), wide.data_ptr<double>() + wide.numel()};
}

// A line "  0.873  name" for each of the `top` largest; all of them in JSON, by falling value.
Json print_ranked(const std::vector<double>& chances, const std::vector<std::string>& names,
                  std::size_t top) {
  std::vector<std::size_t> order(chances.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater{}, [&](std::size_t i) { return chances[i]; });
  Json list = Json::array();
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const std::string& name = names[order[rank]];
    const double chance = chances[order[rank]];
    if (rank < top) fmt::print("  {:.4f}  {}\n", chance, name);
    list.push_back({{"name", name}, {"index", order[rank]}, {"probability", chance}});
  }
  return list;
}

// The model of a checkpoint, asked for one sample at a time.
class Predictor {
 public:
  Predictor(const exec::Model& model, const config::Job& job, PredictRequest request)
      : model_(model), job_(job), request_(std::move(request)) {}

  Json operator()() {
    const bool chooses = config::info(job_).predicts == config::Predicts::kCaptions;
    if (chooses && !request_.captions.empty()) read_captions();
    Json all = Json::array();
    for (const std::string& file : request_.files) {
      fmt::print("{}\n", file);
      Json one = request_.embed ? embed(file) : chooses ? match(file) : classify(file);
      one["file"] = file;
      all.push_back(std::move(one));
      std::fflush(stdout);
    }
    return all;
  }

 private:
  void read_captions() {
    std::vector<at::Tensor> features;
    for (const std::string& caption : request_.captions)
      features.push_back(
          blocks::caption_features(model_, loaders::asked_inputs_of_caption(job_, caption))[0]);
    captions_ = at::stack(features);
  }

  Json classify(const std::string& file) const {
    const at::Tensor logits = blocks::class_logits(model_, loaders::asked_inputs(job_, file));
    const std::vector<double> chances = numbers_of(logits[0].softmax(0));
    std::vector<std::string> names = request_.classes;
    for (std::size_t number = names.size(); number < chances.size(); ++number)
      names.push_back(fmt::format("class {}", number));
    return {{"classes", print_ranked(chances, names, request_.top)}};
  }

  Json match(const std::string& file) const {
    const at::Tensor picture = blocks::picture_features(model_, loaders::asked_inputs(job_, file));
    const std::vector<double> chances =
        numbers_of(blocks::caption_chances(model_, picture, captions_)[0]);
    return {{"captions", print_ranked(chances, request_.captions, request_.top)}};
  }

  Json embed(const std::string& file) const {
    const std::vector<double> vector =
        numbers_of(blocks::embedding(model_, loaders::asked_inputs(job_, file)));
    double squares = 0;
    for (const double x : vector) squares += x * x;
    const std::vector<double> first(
        vector.begin(), vector.begin() + std::min<std::ptrdiff_t>(4, std::ssize(vector)));
    fmt::print("  {} numbers of norm {:.4g}: {:.4g}, ..\n", vector.size(), std::sqrt(squares),
               fmt::join(first, ", "));
    return {{"embedding", vector}};
  }

  const exec::Model& model_;
  const config::Job& job_;
  PredictRequest request_;
  at::Tensor captions_;
};

}  // namespace

int predict(const Arguments& arguments) {
  const Path path = arguments.text("job"), checkpoint = arguments.text("checkpoint");
  const config::Job job = config::parse_job(read_file(path), path.string());
  comm::LocalWorld local(1, job.parallel.comm_timeout_s);
  const std::unique_ptr<comm::World> world = local.rank(0);
  const std::unique_ptr<exec::Optimizer> optimizer = optim::make_optimizer(job);
  exec::Session session(blocks::build(job),
                        {.mesh = model::mesh_of(job), .recipe = model::recipe_of(job)}, *world,
                        *optimizer);
  load_parameters(checkpoint, convert::manifest_of_weights(checkpoint), job.model.weights, session);
  const Json all = Predictor(session.model(), job, read_request(arguments.text("request")))();
  if (arguments.has("json"))
    replace_file(arguments.text("json"),
                 Json{{"checkpoint", checkpoint.string()}, {"files", all}}.dump(1) + "\n");
  return 0;
}

}  // namespace trireme::app
