// A probe begins with the teacher of a V-JEPA 2 run, under any layout, and with a head of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/formats/scratch.h"
#include "tests/harness/vjepa_jobs.h"
#include "trireme/checkpoint/checkpoint.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/model/layout.h"
#include "trireme/train/job_session.h"

namespace trireme::train::vjepa_weights_test {
namespace {

using config::Family;

void with_session(const config::Job& job, int world,
                  const std::function<void(exec::Session&, comm::World&)>& body) {
  const config::Job resolved = config::resolve(job, world, {.classes = 8});
  comm::run_local_ranks(world, 60, [&](comm::World& rank) {
    JobSession session(resolved, rank);
    body(session.session(), rank);
  });
}

const std::vector<model::UnitSpec>& specs(exec::Session& session) {
  return session.model().spec.units;
}

// The whole unit of this name, on one rank.
at::Tensor unit(exec::Session& session, const std::string& name) {
  for (const exec::StateSlice& slice : session.units().local_slices())
    if (slice.kind == "param" && specs(session)[slice.unit].name == name)
      return session.units().read(slice);
  return {};
}

TEST(VjepaWeights, AProbeBeginsWithTheTeacherAndAHeadOfItsOwn) {
  const formats::Scratch scratch;
  at::Tensor teacher;
  with_session(harness::vjepa_job(Family::kJepa, {"run.seed=5"}), 1,
               [&](exec::Session& session, comm::World&) {
                 teacher = unit(session, "teacher.block.1").clone();
               });
  with_session(harness::vjepa_job(Family::kJepa, {"run.seed=5", "parallel.tp=2"}), 2,
               [&](exec::Session& session, comm::World& world) {
                 checkpoint::save(scratch.path(), {.step = 1}, session.units(), specs(session),
                                  world);
               });
  with_session(harness::vjepa_job(Family::kProbe), 1, [&](exec::Session& session, comm::World&) {
    const at::Tensor head = unit(session, "head").clone();
    EXPECT_THAT(formats::refusal([&] {
                  checkpoint::load_weights(scratch.path() / "step-1", session.units(),
                                           specs(session));
                }),
                testing::HasSubstr("lacks pooler.blocks.0.norm1.weight"));
    checkpoint::load_weights(scratch.path() / "step-1", session.units(), specs(session),
                             checkpoint::NewUnits::kAsDrawn);
    EXPECT_TRUE(at::equal(unit(session, "tower.block.1"), teacher));
    EXPECT_TRUE(at::equal(unit(session, "head"), head));
  });
}

// Router, pooling and encoder of the teacher, from ranks of another layout.
TEST(VjepaWeights, AFrozenTowerOfChunksIsTheTeacherOfHvjepa) {
  const formats::Scratch scratch;
  std::vector<at::Tensor> teacher;
  with_session(harness::vjepa_job(Family::kHvjepa, {"run.seed=5"}), 1,
               [&](exec::Session& session, comm::World&) {
                 for (const char* name : {"teacher.embed", "teacher.chunk.block.0", "teacher.chunk",
                                          "teacher.block.1", "teacher.norm"})
                   teacher.push_back(unit(session, name).clone());
               });
  with_session(harness::vjepa_job(Family::kHvjepa, {"run.seed=5", "parallel.tp=2"}), 2,
               [&](exec::Session& session, comm::World& world) {
                 checkpoint::save(scratch.path(), {.step = 1}, session.units(), specs(session),
                                  world);
               });
  for (const Family family : {Family::kProbe, Family::kJepaAc, Family::kVlm})
    with_session(harness::chunked_job(family), 1, [&](exec::Session& session, comm::World&) {
      checkpoint::load_weights(scratch.path() / "step-1", session.units(), specs(session),
                               checkpoint::NewUnits::kAsDrawn);
      std::size_t i = 0;
      for (const char* name :
           {"tower.embed", "tower.chunk.block.0", "tower.chunk", "tower.block.1", "tower.norm"})
        EXPECT_TRUE(at::equal(unit(session, name), teacher[i++])) << name;
    });
}

// Of the tower everything must be there.
TEST(VjepaWeights, ATowerThatIsNotThereIsRefused) {
  const formats::Scratch scratch;
  with_session(
      harness::vjepa_job(Family::kProbe), 1, [&](exec::Session& session, comm::World& world) {
        checkpoint::save(scratch.path(), {.step = 1}, session.units(), specs(session), world);
      });
  with_session(harness::vjepa_job(Family::kProbe, {"vision.layers=3"}), 1,
               [&](exec::Session& session, comm::World&) {
                 EXPECT_THAT(formats::refusal([&] {
                               checkpoint::load_weights(scratch.path() / "step-1", session.units(),
                                                        specs(session),
                                                        checkpoint::NewUnits::kAsDrawn);
                             }),
                             testing::HasSubstr("lacks target_encoder.blocks.2.norm1.weight"));
               });
}

}  // namespace
}  // namespace trireme::train::vjepa_weights_test
