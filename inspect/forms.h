// The forms that a profile is written in.
#pragma once

#include "files/inspect_table.h"
#include "inspect/locations.h"
#include "inspect/sink.h"

namespace loft::inspect {

// pprof's (profile.proto).
void write_pprof(Sink& sink, const Source& source, const Locations& locations);

// A line for each site with memory in use: its frames from the outermost on, with semicolons
// between them, and the bytes. A frame is a file and an offset in it.
void write_collapsed(Sink& sink, const Source& source, const Locations& locations);

}  // namespace loft::inspect
