// The threads of the fuzzer of calls. One works at a time and passes the turn, so that an input
// means the same in every run; a thread lives from its first turn until it is told to end.
#pragma once

#include <functional>
#include <memory>
#include <semaphore>
#include <thread>

namespace fuzz {

class Hands {
 public:
  static constexpr unsigned kThreads = 4;  // the first one is the caller itself

  Hands() = default;
  ~Hands() { end_all(); }
  Hands(const Hands&) = delete;
  Hands& operator=(const Hands&) = delete;

  void run(unsigned thread, const std::function<void()>& work) {
    if (thread == 0 || alone_) return work();
    if (hands_[thread] == nullptr) hands_[thread] = std::make_unique<Hand>();
    hands_[thread]->run(work);
  }
  void end(unsigned thread) {
    if (!alone_) hands_[thread].reset();
  }
  void end_all() {
    for (unsigned thread = 1; thread < kThreads; ++thread) end(thread);
  }

  // In the child of a fork: the thread that called it is all there is.
  void stay_alone() { alone_ = true; }

 private:
  class Hand {
   public:
    Hand() : thread_([this] { serve(); }) {}
    ~Hand() {
      run(nullptr);
      thread_.join();
    }
    Hand(const Hand&) = delete;
    Hand& operator=(const Hand&) = delete;

    void run(const std::function<void()>& work) {
      work_ = &work;
      begun_.release();
      done_.acquire();
    }

   private:
    void serve() {
      for (bool more = true; more; done_.release()) {
        begun_.acquire();
        more = *work_ != nullptr;
        if (more) (*work_)();
      }
    }

    const std::function<void()>* work_ = nullptr;
    std::binary_semaphore begun_{0};
    std::binary_semaphore done_{0};
    std::thread thread_;
  };

  std::unique_ptr<Hand> hands_[kThreads];
  bool alone_ = false;
};

}  // namespace fuzz
