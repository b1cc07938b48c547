// Files that loft writes, without allocation. All functions keep errno.
#pragma once

#include <cstddef>
#include <cstdint>

namespace loft::files {

// Replaces %p in a path by the number of the process, and %% by one %. False if the result is
// longer than `size` allows.
bool expand_path(const char* path, char* result, size_t size);

// The longest path of a file, with its NUL.
inline constexpr size_t kLongestPath = 4096;

// Opens a file to whose end a report is added, or makes it, mode 0600. It is one of the process's
// user or of root, and has no other name: an owner of the folder cannot have put a link to somebody
// else's there. Returns the descriptor, or -1 and why.
int open_to_append(const char* path, const char** why);
// In one write, so that what several processes append does not mix. False if it was not written.
bool write_at_once(int file, const char* text, size_t bytes);
void close_output(int file);

// Nanoseconds since 1970.
uint64_t wall_clock_ns();

// The file of the program that runs. False if the system does not say, or it does not fit.
bool path_of_program(char* to, size_t bytes);

// The number of this process.
unsigned process_number();

// Readable and writable memory for the time of a call, zeroed; nullptr without memory.
void* borrow(size_t bytes);
void give_back(void* memory, size_t bytes);

}  // namespace loft::files
