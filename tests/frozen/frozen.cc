// frozen: what the recipes cost and compile to under many layouts, compared with the figures of tests/frozen, so that a change of the
// code's structure that changes a number is seen.
//
//   frozen                   compares everything with tests/frozen; exit 1 and the differences if something differs
//   frozen --write           writes the figures of this build there
//   frozen --texts DIR       writes the whole texts, for a comparison of two builds with diff
//   frozen --plant RECIPE    that recipe alone, with one byte more in what its first node keeps: this must be found
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/guard.h"
#include "tests/planner/synthetic_machine.h"
#include "trireme/base/error.h"
#include "trireme/base/fs.h"
#include "trireme/base/hash.h"
#include "trireme/config/fields/fields.h"
#include "trireme/config/parse.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/config/synthetic.h"
#include "trireme/model/families/describe.h"
#include "trireme/model/layout.h"
#include "trireme/plan/memory.h"
#include "trireme/plan/passes/compile.h"
#include "trireme/plan/plan.h"
#include "trireme/planner/cost/estimate.h"
#include "trireme/planner/cost/pricing.h"
#include "trireme/planner/hardware/calibrate.h"
#include "trireme/planner/hardware/cluster_file.h"
#include "trireme/planner/search/report/question.h"
#include "trireme/planner/search/screen.h"
#include "trireme/planner/search/space.h"

namespace trireme::frozen {
namespace {

namespace fs = std::filesystem;

struct LayoutCase {
  const char* name;
  int ranks;
  std::vector<const char*> sets;
};

// Each dimension of a layout alone, and one of several at once.
const std::vector<LayoutCase>& layout_cases() {
  static const std::vector<LayoutCase> cases = {
      {"one", 1, {}},
      {"bf16", 1, {"precision.compute=bf16"}},
      {"zero1", 2, {"parallel.zero=1"}},
      {"zero3", 4, {"parallel.zero=3"}},
      {"hsdp", 4, {"parallel.zero=3", "parallel.dp_replicate=2"}},
      {"tp", 2, {"parallel.tp=2"}},
      {"tp without sp", 2, {"parallel.tp=2", "parallel.sequence_parallel=false"}},
      {"cp ring", 2, {"parallel.cp=2", "parallel.context=ring"}},
      {"cp all_gather", 2, {"parallel.cp=2", "parallel.context=all_gather"}},
      {"cp ulysses", 2, {"parallel.cp=2", "parallel.context=ulysses"}},
      {"cp hierarchical", 4, {"parallel.cp=4", "parallel.context=hierarchical"}},
      {"pp 1f1b", 2, {"parallel.pp=2"}},
      {"pp zb_v", 2, {"parallel.pp=2", "parallel.schedule=zb_v"}},
      {"pp interleaved", 2, {"parallel.pp=2", "parallel.schedule=interleaved"}},
      {"mixed", 8, {"parallel.pp=2", "parallel.tp=2", "parallel.zero=1", "precision.compute=bf16"}},
      {"lora", 2, {"lora.rank=8"}},
      {"lora tp", 2, {"lora.rank=4", "lora.targets=query_value", "parallel.tp=2"}},
      {"frozen", 2, {"model.frozen=*0"}},
      {"node types", 1, {"precision.compute=bf16", "precision.nodes=*0=fp32"}},
      {"selective", 1, {"recompute.policy=selective"}},
      {"full", 1, {"recompute.policy=full"}},
      {"documents", 2, {"data.documents=true", "parallel.cp=2"}},
      {"offload",
       2,
       {"offload.optimizer=host", "offload.params=host", "parallel.zero=3", "recompute.policy=full",
        "offload.activations=host"}},
  };
  return cases;
}

// One of the things that is compared: its text, and of that what a reader wants to see.
struct Part {
  const char* name;
  std::string text;
  std::string shown;

  std::string line() const {
    return fmt::format("  {:<8}{}  {}\n", name, hex64(hash64(text)), shown);
  }
};

struct Pair {
  std::string layout;
  std::vector<Part> parts;  // empty: refused
};

// Other CPUs may round the last digits otherwise.
std::string digits(double value) { return fmt::format("{:.12g}", value); }

config::DatasetFacts facts_of(const config::Job& job) {
  if (const config::SyntheticSource* source = config::synthetic_source(job.data.source))
    return source->facts;
  return {.vocab = job.model.vocab > 0 ? job.model.vocab : 1024, .classes = 10};
}

// The recipe's job without its own layout.
config::Job bare(config::Job job) {
  job.parallel = {};
  job.precision.compute_auto = false;  // which is the CPU's
  job.recompute = {};
  job.offload = {};
  if (!config::files_of(job.data.source).empty() && job.data.path.empty()) job.data.path = "files";
  return job;
}

// The job in this layout, resolved, with `micro_batches` of a rank's.
config::Job in_layout(config::Job job, const LayoutCase& layout, int micro_batches) {
  for (const char* set : layout.sets) config::apply_set(job, set);
  const int sharing = job.parallel.pp * job.parallel.cp * job.parallel.tp;
  job.run.global_batch = job.run.micro_batch * micro_batches * (layout.ranks / sharing);
  return config::resolve(job, layout.ranks, facts_of(job));
}

Part memory_part(const plan::PlanSet& plan) {
  std::string text;
  std::int64_t most = 0;
  for (std::size_t list = 0; list < plan.lists.size(); ++list) {
    const auto rank = std::ranges::find(plan.list_of_rank, static_cast<int>(list));
    if (rank == plan.list_of_rank.end()) continue;
    const plan::MemoryAccount account =
        plan::memory_account(plan, static_cast<int>(rank - plan.list_of_rank.begin()));
    most = std::max(most, account.peak_total);
    text += fmt::format("list {}\n{}\n", list, fmt::join(account.persistent, " "));
    for (const plan::MemoryPoint& point : account.at_line)
      text += fmt::format("{}\n", fmt::join(point, " "));
  }
  return {"memory", std::move(text), fmt::format("peak {}", most)};
}

struct NamedPractice {
  const char* name;
  planner::Practice practice;
  const planner::Cluster* cluster;
};

// GPUs that run each operation alone, those with compiled kernels and fp8, and this runtime on GPUs and on a CPU.
std::vector<NamedPractice> practices(const planner::Cluster& gpus) {
  static const planner::Cluster cores = [] {
    planner::Cluster machine = planner::synthetic_calibration().machine;
    machine.gpus_per_host = 8;
    return machine;
  }();
  const planner::Practice eager{.attention = planner::AttentionKernel::kUnfused,
                                .fusion = planner::Fusion::kEager,
                                .adds_weight_gradients = false};
  const planner::Practice compiled{
      .fusion = planner::Fusion::kCompiled, .fp8 = true, .keeps_operators = true};
  return {{"eager", eager, &gpus},
          {"compiled", compiled, &gpus},
          {"today", planner::practice_of(planner::RuntimeAs::kToday), &gpus},
          {"cpu", planner::own_practice(), &cores}};
}

Part kernel_part(const config::Job& job, const model::ModelSpec& model,
                 const planner::Cluster& gpus) {
  Part part{"kernels", "", ""};
  for (const auto& [name, practice, cluster] : practices(gpus)) {
    const planner::Pricing pricing(job, model, practice, *cluster);
    double sum = 0;
    for (const plan::Node& node : model.program.nodes)
      for (const plan::Verb verb :
           {plan::Verb::kForward, plan::Verb::kBackwardInput, plan::Verb::kBackwardWeight}) {
        const double seconds = pricing.node(node, verb);
        sum += seconds;
        part.text +=
            fmt::format("{} {} {} {}\n", name, node.name, plan::name(verb), digits(seconds));
      }
    part.shown += fmt::format("{}{} {:.6g} s", part.shown.empty() ? "" : ", ", name, sum);
  }
  return part;
}

Part price_part(const config::Job& job, const planner::Cluster& gpus) {
  Part part{"price", "", ""};
  for (const auto& [name, practice, cluster] : practices(gpus)) {
    const double seconds = planner::Candidate(job, practice).step_seconds(*cluster);
    part.text += fmt::format("{} {}\n", name, digits(seconds));
    part.shown += fmt::format("{}{:.6g}", part.shown.empty() ? "" : ", ", seconds);
  }
  part.shown += " s a step";
  return part;
}

// No parts for a job that cannot have this layout.
Pair pair_of(const config::Job& recipe, const LayoutCase& layout, int micro_batches,
             const planner::Cluster& gpus, std::int64_t planted) {
  Pair pair{layout.name, {}};
  try {
    const config::Job job = in_layout(recipe, layout, micro_batches);
    model::ModelSpec model = model::describe(job);
    model.program.nodes.front().saved_bytes += planted;
    const plan::PlanSet plan = plan::compile(model.program, model::mesh_of(job),
                                             model::recipe_of(job), model::grid_of(job, model));
    std::string text = print(plan);
    const auto lines = std::ranges::count(text, '\n');
    pair.parts.push_back(
        {"job", print_yaml(job), fmt::format("{} parameters", model.parameters())});
    pair.parts.push_back({"plan", std::move(text), fmt::format("{} lines", lines)});
    pair.parts.push_back(memory_part(plan));
    if (job.precision.compute == DType::kF64)
      return pair;  // which no GPU of the clusters is priced for
    pair.parts.push_back(kernel_part(job, model, gpus));
    pair.parts.push_back(price_part(job, gpus));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage) throw;
    pair.parts.clear();
  }
  return pair;
}

// Closed forms of every layout of eight GPUs.
Pair search_pair(const config::Job& recipe, const planner::Cluster& gpus) {
  Pair pair{"search", {}};
  try {
    const planner::Question question =
        planner::completed({.job = recipe, .cluster = gpus, .gpus = 8, .data = facts_of(recipe)});
    const planner::Screen screen(question);
    Part part{"sieve", "", ""};
    std::int64_t layouts = 0;
    double least = INFINITY;
    planner::for_layouts(question, screen, planner::Away::kNothing,
                         [&](const planner::Layout& layout, const planner::Family& family) {
                           const planner::Costs costs =
                               screen.price(layout, *family.parts, *family.traffic);
                           ++layouts;
                           least = std::min(least, costs.seconds);
                           part.text += fmt::format("{}: {} {} {} {}\n", planner::text(layout),
                                                    digits(costs.seconds), digits(costs.bytes),
                                                    digits(costs.host), digits(costs.offload));
                         });
    part.shown = fmt::format("{} layouts, the fastest {:.6g} s", layouts, least);
    pair.parts.push_back(std::move(part));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage && error.kind() != ErrorKind::kOutOfMemory) throw;
  }
  return pair;
}

// "name" or "name.phase" of every job of recipes/.
std::map<std::string, config::Job> recipes() {
  std::map<std::string, config::Job> jobs;
  for (const auto& entry : fs::directory_iterator(Path(TRIREME_SOURCE_DIR) / "recipes")) {
    if (entry.path().extension() != ".yaml") continue;
    for (config::Phase& phase : config::load_phases(entry.path())) {
      const std::string name = entry.path().stem().string();
      jobs.emplace(phase.name.empty() ? name : name + "." + phase.name, std::move(phase.job));
    }
  }
  return jobs;
}

std::vector<Pair> pairs_of(const config::Job& recipe, const planner::Cluster& gpus,
                           std::int64_t planted) {
  const config::Job job = bare(recipe);
  std::vector<Pair> pairs;
  for (const LayoutCase& layout : layout_cases()) {
    pairs.push_back(pair_of(job, layout, 4, gpus, planted));
    // Losses that compare samples of a batch see one micro-batch of each rank.
    if (pairs.back().parts.empty()) pairs.back() = pair_of(job, layout, 1, gpus, planted);
  }
  pairs.push_back(search_pair(job, gpus));
  return pairs;
}

std::string page(const std::vector<Pair>& pairs) {
  std::string text;
  for (const Pair& pair : pairs) {
    text += pair.layout + (pair.parts.empty() ? ": refused\n" : "\n");
    for (const Part& part : pair.parts) text += part.line();
  }
  return text;
}

void write_texts(const Path& directory, const std::vector<Pair>& pairs) {
  for (const Pair& pair : pairs)
    for (const Part& part : pair.parts) {
      std::string file = pair.layout + "." + part.name;
      std::ranges::replace(file, ' ', '_');
      fs::create_directories(directory);
      write_file_synced(directory / file, part.text);
    }
}

// The lines of `now` that `before` has otherwise, each beside what it was.
std::string difference(const std::string& before, const std::string& now) {
  const auto lines = [](const std::string& text) {
    std::map<std::string, std::string> found;  // by layout and part
    std::string layout;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = text.find('\n', begin);
      const std::string line = text.substr(begin, end - begin);
      begin = end == std::string::npos ? text.size() : end + 1;
      if (!line.starts_with("  ")) {
        layout = line.substr(0, line.find(':'));
        found[layout] = line;
      } else {
        found[layout + "/" + line.substr(2, line.find(' ', 2) - 2)] = line.substr(10);
      }
    }
    return found;
  };
  const auto old_lines = lines(before), new_lines = lines(now);
  std::string text;
  for (const auto& [key, line] : new_lines) {
    const auto old = old_lines.find(key);
    if (old == old_lines.end() || old->second != line)
      text += fmt::format("  {}: {}, was {}\n", key, line,
                          old == old_lines.end() ? "not there" : old->second);
  }
  for (const auto& [key, line] : old_lines)
    if (!new_lines.contains(key)) text += fmt::format("  {}: gone, was {}\n", key, line);
  return text;
}

struct Options {
  bool write = false;
  std::optional<Path> texts;
  std::string planted;  // a recipe
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--write")
      options.write = true;
    else if (word == "--texts" && i + 1 < argc)
      options.texts = argv[++i];
    else if (word == "--plant" && i + 1 < argc)
      options.planted = argv[++i];
    else
      fail(ErrorKind::kUsage, "{}: needs --write, --texts DIR, --plant RECIPE or nothing", word);
  }
  return options;
}

int run(const Options& options) {
  const Path directory = Path(TRIREME_SOURCE_DIR) / "tests/frozen";
  const planner::Cluster gpus = planner::find_cluster("dgx-h100");
  std::size_t compared = 0, refused = 0, differing = 0;
  for (const auto& [name, job] : recipes()) {
    if (!options.planted.empty() && name != options.planted) continue;
    const std::vector<Pair> pairs = pairs_of(job, gpus, name == options.planted ? 1 : 0);
    for (const Pair& pair : pairs) ++(pair.parts.empty() ? refused : compared);
    if (options.texts) write_texts(*options.texts / name, pairs);
    const Path file = directory / (name + ".txt");
    const std::string now = page(pairs);
    if (options.write) {
      write_file_synced(file, now);
    } else if (const std::string before = fs::exists(file) ? read_file(file) : ""; before != now) {
      ++differing;
      fmt::print("{}\n{}", name, difference(before, now));
    }
  }
  fmt::print("{} pairs of recipe and layout, {} that are refused; {} of the recipes differ\n",
             compared, refused, differing);
  if (differing > 0)
    fmt::print(
        "If that is meant: frozen --write. To see what differs: frozen --texts DIR, with the build "
        "before and with this one\n");
  return differing > 0 ? 1 : 0;
}

}  // namespace
}  // namespace trireme::frozen

int main(int argc, char** argv) {
  return trireme::app::guarded(
      [&] { return trireme::frozen::run(trireme::frozen::parse(argc, argv)); });
}
