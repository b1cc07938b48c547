// The socket, where the system cannot give a thread files of its own (os::leave_files): there is
// none, and who asks for it is told.
#include "serve/server.h"

#include "base/options.h"
#include "base/text.h"
#include "os/fault.h"

namespace loft::serve {

void enable(ChangeOption) { follow(); }

void follow() {
  if (path_of(options.socket) == nullptr) return;
  os::report(Text() << "socket is ignored: loft answers on a socket under Linux alone");
}

void leave_place() {}

}  // namespace loft::serve
