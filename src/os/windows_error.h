// Restores the calling thread's GetLastError at the end of a scope: programs read it after calls
// that free memory, as they read errno elsewhere.
#pragma once

#include <windows.h>

namespace loft::os {

class KeepLastError {
 public:
  KeepLastError() : saved_(GetLastError()) {}
  ~KeepLastError() { SetLastError(saved_); }
  KeepLastError(const KeepLastError&) = delete;
  KeepLastError& operator=(const KeepLastError&) = delete;

 private:
  DWORD saved_;
};

}  // namespace loft::os
