// A profile is written. See files/inspect_table.h.
#pragma once

#include "files/inspect_table.h"

namespace loft::inspect {

int write_profile(const Source& source, int file);
int save_profile(const Source& source, Occasion occasion, const char* path);
void expect_profile(bool in_a_file);

}  // namespace loft::inspect
