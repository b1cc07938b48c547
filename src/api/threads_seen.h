// Whether the C library says that the process has, or had, a second thread. False where it does not
// say.
#pragma once

namespace loft {

bool libc_saw_threads();

}  // namespace loft
