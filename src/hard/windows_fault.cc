// The guarded modes tell of accesses that fault: a handler that the system asks before the
// program's own.
#include <windows.h>

#include "base/options.h"
#include "hard/fault.h"
#include "hard/samples.h"

namespace loft::hard {

namespace {

LONG WINAPI on_fault(EXCEPTION_POINTERS* what) {
  const EXCEPTION_RECORD& record = *what->ExceptionRecord;
  if (record.ExceptionCode != EXCEPTION_ACCESS_VIOLATION || record.NumberParameters < 2) {
    return EXCEPTION_CONTINUE_SEARCH;
  }
  constexpr ULONG_PTR kReads = 0;
  constexpr ULONG_PTR kWrites = 1;
  const ULONG_PTR how = record.ExceptionInformation[0];
  const bool calls = how != kReads && how != kWrites;
  const auto access = how == kReads    ? Access::kRead
                      : how == kWrites ? Access::kWrite
                                       : Access::kUnknown;
  const bool goes_on = get(options.guard_fault) == kGuardContinue && !calls;
  const Told told = tell_of_fault(record.ExceptionInformation[1], access, goes_on);
  return told == Told::kAndOpened ? EXCEPTION_CONTINUE_EXECUTION : EXCEPTION_CONTINUE_SEARCH;
}

}  // namespace

void catch_faults() { AddVectoredExceptionHandler(1, on_fault); }

}  // namespace loft::hard
