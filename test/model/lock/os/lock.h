// Stands for src/os/lock.h where locks are not what is explored: taken and released in one step.
#pragma once

#include "engine.h"
#include "os/os.h"

namespace loft::os {

class Lock {
 public:
  void lock() { model::lock(&place_); }
  bool try_lock() { return model::try_lock(&place_); }
  void unlock() { model::unlock(&place_); }
  void reset() {}
  void after_fork(bool child) { child ? reset() : unlock(); }
  bool has_sleepers() const { return false; }
  bool is_held() const { return false; }
  unsigned long acquisitions() const { return 0; }
  unsigned long waits() const { return 0; }

 private:
  char place_ = 0;  // its address names the lock
};

class Guard {
 public:
  explicit Guard(Lock& lock) : lock_(lock) { lock_.lock(); }
  ~Guard() { lock_.unlock(); }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  Lock& lock_;
};

}  // namespace loft::os
