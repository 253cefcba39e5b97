// Herald: carries the cause of an abort between processes through c10d's key-value store, and finds processes that no
// longer run.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

namespace trireme::comm {

// The store's client blocks for as long as its host hangs. Therefore only a thread of its own uses it, and all waits
// for that thread have a bound.
class Herald {
 public:
  // `on_cause` is called once, from any thread, when the world is aborted by anybody.
  Herald(c10::intrusive_ptr<c10d::Store> store, int rank, int size, std::function<void()> on_cause);
  // Delivers what publish() left and adds one to kLeftKey, for at most two seconds.
  ~Herald();
  static constexpr const char* kLeftKey = "left";

  // The first cause known here; looked for in the store a few times a second.
  std::optional<std::string> cause() const;
  // Makes it this rank's cause at once and the world's soon, unless there is one already.
  void publish(const std::string& cause);
  // Gives other ranks up to `seconds` to publish what happened.
  void await_cause(double seconds) const;
  // Asks the herald of every rank to answer and waits until all have, a cause is known or `seconds` are
  // over. The ranks that did not answer: a stopped process, unlike one that merely waits. Empty if the
  // store itself does not answer.
  std::optional<std::vector<int>> roll_call(double seconds);

 private:
  struct Shared {
    c10::intrusive_ptr<c10d::Store> store;
    int rank = 0;
    int size = 0;
    std::function<void()> on_cause;
    mutable std::mutex mutex;
    mutable std::condition_variable changed;
    std::optional<std::string> cause;
    std::optional<std::vector<int>> silent;  // of a roll call that this rank asked for
    bool calling = false;
    bool present = false;  // answered a roll call
    bool unpublished = false;
    bool stopping = false;
    bool stopped = false;

    void run();
    void poll(std::unique_lock<std::mutex>& lock);
    void answer_roll_call(bool call);
    // False if there is a cause already.
    bool set_cause(const std::string& text, bool publish);
  };
  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace trireme::comm
