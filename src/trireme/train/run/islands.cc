#include "trireme/train/run/islands.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/checkpoint/checkpoint.h"
#include "trireme/checkpoint/on_rank_zero.h"
#include "trireme/comm/islands/link.h"
#include "trireme/comm/islands/state_transfer.h"
#include "trireme/config/resolve/outer_steps.h"
#include "trireme/launch/elastic/secret.h"
#include "trireme/launch/islands/state.h"
#include "trireme/plan/outer_steps.h"

namespace trireme::train {
namespace {

using islands::Island;

constexpr double kStop_s = 5, kNote_s = 10;
constexpr const char* kCopies = "islands";  // below the run directory

plan::OuterSteps outer_of(const exec::Session& session) {
  const auto& outer = session.plan().recipe.outer;
  if (!outer)
    fail(ErrorKind::kUsage,
         "--islands needs outer steps: set network.outer, such as network.outer=every:30");
  return *outer;
}

void check(const config::Job& job, const plan::OuterSteps& outer) {
  if (outer.islands != 1)
    fail(ErrorKind::kUsage,
         "network.outer={} has {} islands inside the job; with --islands the job is one island. "
         "Leave islands out",
         job.network.outer, outer.islands);
  if (outer.direction)
    fail(ErrorKind::kUsage,
         "network.outer={}: islands that are runs of their own merge means; set merge:mean",
         job.network.outer);
  if (job.precision.master != DType::kF32)
    fail(ErrorKind::kUsage, "--islands with precision.master={}; needs fp32",
         name(*job.precision.master));
  if (job.checkpoint.memory_every > 0)
    fail(ErrorKind::kUsage,
         "--islands with checkpoint.memory_every={}: an island continues checkpoints on a disk. "
         "Set checkpoint.memory_every=0",
         job.checkpoint.memory_every);
}

std::unique_ptr<islands::Source> open_source(const IslandSetup& setup, const Path& run, int rank) {
  if (setup.token.empty())
    return std::make_unique<islands::TapeSource>(setup.leader, setup.island, setup.run, setup.last,
                                                 *setup.stop);
  const auto address = os::parse_address(setup.leader);
  if (!address || address->local)
    fail(ErrorKind::kUsage, "--islands {}; needs HOST:PORT of trireme islands", setup.leader);
  return std::make_unique<comm::IslandLink>(comm::IslandLink::Config{.leader = *address,
                                                                     .token = setup.token,
                                                                     .copy = run / kCopies,
                                                                     .keeps_lines = rank == 0,
                                                                     .asked = setup.asked});
}

}  // namespace

Islands::Islands(const IslandSetup& setup, const config::Job& job, const Path& run,
                 const std::string& machine, JobSession& session, comm::World& world)
    : job_(job),
      session_(session),
      units_(session.session().units()),
      outer_jobs_(units_),
      world_(world),
      outer_(outer_of(session.session())),
      setup_(setup),
      machine_(machine),
      parts_(outer_jobs_.parts()),
      recipe_(recipe_of()),
      run_directory_(run) {
  check(job, outer_);
  session_.share_samples(setup_.island, setup_.islands);
  if (world.size() > 1) {
    std::vector<int> ranks(static_cast<std::size_t>(world.size()));
    std::iota(ranks.begin(), ranks.end(), 0);
    all_ = world.make_host_group("islands", ranks);
  }
  // Units are numbered once for each tp rank.
  std::vector<int> number(session.session().plan().program.units.size(), -1);
  int trained = 0;
  for (std::size_t unit = 0; unit < number.size(); ++unit)
    if (plan::has_outer(session.session().plan().recipe,
                        session.session().plan().program.units[unit]))
      number[unit] = trained++;
  for (const exec::OuterPart& part : parts_)
    sent_parts_.push_back(
        {.unit = units_.tp_rank() * trained + number[static_cast<std::size_t>(part.unit)],
         .begin = part.begin,
         .count = part.count,
         .sends = part.sends});
  source_ = open_source(setup_, run, world.rank());
  run_ = setup_.run;
  if (run_.empty()) {
    std::string hex;
    for (const char byte : elastic::random_bytes(8))
      hex += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    run_ = world.exchange(hex)[0];
  }
}

Islands::~Islands() = default;

islands::Recipe Islands::recipe_of() const {
  const exec::Session& session = session_.session();
  const plan::PlanSet& plan = session.plan();
  const std::string weights =
      job_.model.weights.empty() ? "none" : checkpoint::identity(job_.model.weights);
  islands::Recipe recipe{
      .text = fmt::format("lr {}, momentum {}, blend {}, tp {}, run.seed {}, weights {}", outer_.lr,
                          outer_.momentum, outer_.blend, units_.tp(), job_.run.seed, weights),
      .fragments = outer_.fragments,
      .delay = outer_.delay,
      .seed = static_cast<std::uint64_t>(job_.run.seed),
      .residual = outer_.residual.has_value(),
      .codec = outer_.codec,
      .back = outer_.back};
  const std::vector<int> fragments = plan::fragments_of_units(plan.program, outer_.fragments);
  for (int tp = 0; tp < units_.tp(); ++tp)
    for (std::size_t index = 0; index < plan.program.units.size(); ++index) {
      const plan::Unit& unit = plan.program.units[index];
      if (!plan::has_outer(plan.recipe, unit)) continue;
      const auto coded = plan::coded_merge(plan, static_cast<plan::UnitId>(index));
      recipe.units.push_back(
          {.name = units_.tp() == 1 ? unit.name : fmt::format("{} of tp {}", unit.name, tp),
           .numel = unit.numel,
           .fragment = fragments[index],
           .coded = coded.has_value(),
           .block = coded ? coded->block : 1,
           .back_block = coded ? coded->back_block : 1});
    }
  return recipe;
}

// An island continues a checkpoint under the rules by which a run does.
std::string Islands::why_not(const islands::State& state, const std::string& dataset) const {
  if (state.dataset != dataset) return "it has other data";
  try {
    config::check_resumable(config::parse_job(state.job, "the job of another island"), job_);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

Path Islands::take_state(const Path& own, const std::string& dataset) const {
  if (setup_.token.empty()) return own;  // a replay
  const std::string taken = checkpoint::on_rank_zero(world_, [&]() -> std::string {
    islands::Seek seek{.island = setup_.island};
    if (!own.empty()) {
      const formats::Manifest manifest = formats::read_manifest(own);
      seek.step = manifest.step;
      seek.position =
          parse_train_state(manifest.train_state, manifest.step, own.string()).island.position;
    }
    return comm::take_state(
               {.leader = *os::parse_address(setup_.leader),
                .token = setup_.token,
                .incoming = run_directory_ / kCopies / "incoming",
                .checkpoints = run_directory_ / "checkpoints",
                .asked = setup_.asked,
                .refuses = [&](const islands::State& state) { return why_not(state, dataset); },
                .on_note = setup_.on_note},
               seek)
        .value_or(Path())
        .string();
  });
  return taken.empty() ? own : Path(taken);
}

void Islands::show(const Path& checkpoint) {
  if (world_.rank() != 0 || checkpoint.empty() || checkpoint == shown_) return;
  shown_ = checkpoint;
  source_->show(checkpoint);
}

void Islands::begin(std::int64_t step, const Path& checkpoint) {
  const islands::IslandState earlier = session_.island_state();
  // Rank 0 knows the digest of what all ranks have loaded.
  std::string digest;
  if (!earlier.run.empty() && world_.rank() == 0)
    digest = hex64(islands::digest_of(formats::read_manifest(checkpoint)));
  if (!earlier.run.empty()) digest = world_.exchange(digest)[0];
  island_.emplace(Island::Config{.island = setup_.island,
                                 .run = run_,
                                 .fragments = outer_.fragments,
                                 .every = outer_.every,
                                 .delay = outer_.delay},
                  earlier, step);
  const islands::IslandState& state = island_->state();
  if (island_->adopts() && step > 0) {
    units_.adopt_outer();
    units_.refresh();
  }
  const std::int64_t entries =
      source_->begin({.island = setup_.island,
                      .islands = setup_.islands,
                      .run = run_,
                      .rank = world_.rank(),
                      .ranks = world_.size(),
                      .step = step,
                      .position = state.position,
                      .line = state.line,
                      .applied = earlier.applied,
                      .resumes = earlier.run,
                      .state = digest.empty() ? 0 : std::stoull(digest, nullptr, 16),
                      .recipe = recipe_,
                      .parts = sent_parts_,
                      .machine = machine_,
                      .job = config::print_yaml(job_)});
  // Every rank waits for as many, though others may have merged more by now.
  const std::int64_t first = agreed(entries);
  const Stopwatch waited;
  while (state.position < first) {
    apply_ready(islands::after_sending(step), /*at_once=*/true);
    if (state.position < first && !wait(waited))
      fail(ErrorKind::kPeerLost,
           "island {} was asked to stop before it had what other islands merged", setup_.island);
  }
  keep();
}

std::int64_t Islands::agreed(std::int64_t entries) {
  if (!all_) return entries;
  std::int64_t least = -entries;
  all_->all_reduce({&least, 1, DType::kI64}, comm::Reduce::kMax).wait();
  return -least;
}

void Islands::apply_ready(std::int64_t when, bool at_once) {
  const std::int64_t ready = agreed(source_->ready(when));
  bool changed = false;
  while (island_->state().position < ready) {
    const std::int64_t index = island_->state().position;
    const islands::Entry entry = source_->entry(index);
    const std::optional<Island::Step> how = island_->apply(entry, when, at_once);
    if (!how) break;
    island_->applied(source_->line(index));
    if (how->how == Island::How::kNothing) continue;
    apply(entry, index, *how);
    changed = true;
  }
  if (changed) units_.gather_stale();
}

void Islands::apply(const islands::Entry& entry, std::int64_t index, const Island::Step& how) {
  using enum exec::OuterMerge::Weights;
  const exec::OuterMerge merge{.weights = how.how == Island::How::kBlend   ? kBlend
                                          : how.how == Island::How::kShift ? kShift
                                                                           : kAdopt,
                               .blend = outer_.blend,
                               .sent = how.sent,
                               .lost = how.lost};
  const std::vector<std::byte> mean = source_->take_mean(index);
  std::size_t at = 0;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const islands::Unit& unit = recipe_.units[static_cast<std::size_t>(sent_parts_[i].unit)];
    if (unit.fragment != entry.fragment) continue;
    const auto bytes =
        static_cast<std::size_t>(recipe_.bytes(unit, parts_[i].count, islands::Way::kMean));
    outer_jobs_.merge(parts_[i], std::span(mean).subspan(at, bytes), merge);
    at += bytes;
  }
  TRIREME_CHECK(at == mean.size(), "entry {} has {} bytes of a mean, this rank's parts {}", index,
                mean.size(), at);
}

void Islands::send(int fragment, std::int64_t step) {
  islands::Offer offer{.fragment = fragment,
                       .round = island_->round(fragment),
                       .step = step,
                       .weight = static_cast<double>(island_->steps_since(fragment, step) *
                                                     session_.tokens_per_step()),
                       .step_s = seconds_ / static_cast<double>(std::max<std::int64_t>(1, steps_)),
                       .applied = island_->state().applied};
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const islands::Unit& unit = recipe_.units[static_cast<std::size_t>(sent_parts_[i].unit)];
    if (unit.fragment != fragment) continue;
    // Ranks that do not send keep residuals as the one that does.
    const std::vector<std::byte> codes = outer_jobs_.codes(
        parts_[i], recipe_.draws(unit, offer.round, static_cast<std::uint64_t>(setup_.island)),
        setup_.island);
    if (parts_[i].sends) bytes.insert(bytes.end(), codes.begin(), codes.end());
  }
  offer.bytes = std::ssize(bytes);
  offer.digest = hash64(std::span<const std::byte>(bytes));
  source_->offer(offer, std::move(bytes));
  island_->sent(fragment, step);
  seconds_ = 0;
  steps_ = 0;
}

void Islands::await(int fragment, std::int64_t step) {
  const Stopwatch waited;
  noted_ = false;
  while (island_->on_way(fragment) && !stopped_) {
    world_.flight().enter(watch::Phase::kCallbacks, step);
    stopped_ = !wait(waited);
    apply_ready(islands::after_sending(step), /*at_once=*/true);
  }
  if (island_->on_way(fragment) && step == job_.run.steps)
    fail(ErrorKind::kPeerLost,
         "island {} was asked to stop before its last differences were merged; resume it from its "
         "last checkpoint once the leader is back",
         setup_.island);
}

bool Islands::wait(const Stopwatch& waited) {
  source_->wait(island_->state().position);
  if (world_.rank() == 0 && waited.seconds() > kNote_s && !std::exchange(noted_, true)) {
    const std::string trouble = source_->trouble();
    setup_.on_note(fmt::format("island {} waits for the leader of islands{}{}", setup_.island,
                               trouble.empty() ? "" : ": ", trouble));
  }
  const bool stops =
      setup_.asked != nullptr && setup_.asked->load() != 0 && waited.seconds() > kStop_s;
  return agreed(stops ? 0 : 1) != 0;
}

void Islands::after_step(std::int64_t step, double seconds) {
  const bool last = step == job_.run.steps;
  seconds_ += seconds;
  ++steps_;
  island_->trained();
  apply_ready(islands::before_sending(step), last);
  const bool at_once = last || outer_.delay == 0;
  std::vector<int> turns = island_->due(step);
  if (last) {
    turns.resize(static_cast<std::size_t>(outer_.fragments));
    std::iota(turns.begin(), turns.end(), 0);
  }
  for (const int fragment : turns) {
    if (last) await(fragment, step);
    Island::Send turn = island_->turn(fragment, step);
    if (turn == Island::Send::kWait) {
      await(fragment, step);
      turn = island_->on_way(fragment) ? Island::Send::kSkip : Island::Send::kNow;
    }
    if (turn == Island::Send::kNow) send(fragment, step);
  }
  if (at_once)
    for (const int fragment : turns) {
      await(fragment, step);
      // The last differences must be merged: the island may have been late.
      while (last && island_->steps_since(fragment, step) > 0) {
        send(fragment, step);
        await(fragment, step);
      }
    }
  keep();
}

void Islands::keep() { session_.set_island_state(island_->state()); }

void Islands::end(std::int64_t step) {
  if (world_.rank() == 0) source_->leave({.step = step, .applied = island_->state().applied});
}

}  // namespace trireme::train
