#include "trireme/train/callbacks/tensorboard.h"

#include <unistd.h>

#include <optional>
#include <utility>

#include "trireme/base/clock.h"
#include "trireme/base/host_name.h"
#include "trireme/formats/tfevents.h"
#include "trireme/train/watch/wall_time.h"

namespace trireme::train {
namespace {

// TensorBoard rereads files about this often.
constexpr double kFlushSeconds = 2;

class TensorBoard final : public Callback {
 public:
  void on_start(const RunInfo& info) override {
    train_loss_ = validation_loss_ = info.loss.text();
    file_.emplace(info.out,
                  formats::EventFileName{.unix_seconds = static_cast<std::int64_t>(wall_time()),
                                         .host = host_name(),
                                         .process = ::getpid()});
  }

  void on_step(const StepMetrics& m) override {
    const double now = wall_time();
    const std::pair<const char*, double> scalars[] = {{"train/grad_norm", m.grad_norm},
                                                      {"train/lr", m.lr},
                                                      {"train/tokens_per_s", m.tokens_per_s},
                                                      {"train/step_ms", m.step_ms},
                                                      {"train/rss_mb", m.rss_mb},
                                                      {"train/peak_mb", m.peak_mb},
                                                      {"train/loss_scale", m.loss_scale},
                                                      {"train/skipped", m.skipped},
                                                      {"train/comm_wait_ms", m.comm_wait_ms},
                                                      {"train/data_wait_ms", m.data_wait_ms},
                                                      {"train/offload_wait_ms", m.offload_wait_ms}};
    file_->add_scalar("train/loss", m.loss, m.step, now, std::exchange(train_loss_, {}));
    for (const auto& [tag, value] : scalars) file_->add_scalar(tag, value, m.step, now);
    if (m.mfu > 0) file_->add_scalar("train/mfu", m.mfu, m.step, now);
    for (const auto& [name, value] : m.metrics)
      file_->add_scalar("train/" + name, value, m.step, now);
    if (since_flush_.seconds() > kFlushSeconds) flush();
  }

  void on_eval(const EvalMetrics& m) override {
    const double now = wall_time();
    file_->add_scalar("validation/loss", m.loss, m.step, now, std::exchange(validation_loss_, {}));
    if (m.bits_per_byte > 0)
      file_->add_scalar("validation/bits_per_byte", m.bits_per_byte, m.step, now);
    for (const auto& [name, value] : m.metrics)
      file_->add_scalar("validation/" + name, value, m.step, now);
    flush();
  }

  void on_rewind(std::int64_t step) override {
    file_->forget_from(step + 1, wall_time());
    flush();
  }

  void before_checkpoint() override { flush(); }
  void on_end(const RunEnd&) override { flush(); }

 private:
  void flush() {
    file_->flush();
    since_flush_.restart();
  }

  std::string train_loss_, validation_loss_;  // what they are, until the file says it
  std::optional<formats::EventFileWriter> file_;
  Stopwatch since_flush_;
};

}  // namespace

std::unique_ptr<Callback> tensorboard_callback() { return std::make_unique<TensorBoard>(); }

}  // namespace trireme::train
