// The settings for all processes of a system: a file of lines NAME=VALUE. They come first, so that
// the program, its environment and its calls may differ; of a process with more rights than its
// user, the environment has no say, and the file has, except for paths.
#pragma once

// Where the file is. A build may say another place; an empty one is never read, for programs that
// start under filters of system calls that forbid it (docs/internals/compatibility.md).
#if !defined(LOFT_SETTINGS_FILE)
#define LOFT_SETTINGS_FILE "/etc/loft.conf"
#endif

namespace loft {

// Sets what the file says, if that user owns it and nobody else may write to it. What is not
// accepted is reported, each in one line with its place, and the next line follows.
void set_options_from_file(const char* path, unsigned owner = 0);

}  // namespace loft
