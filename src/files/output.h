// A file that loft writes, in one pass, without allocation. All functions keep errno.
#pragma once

#include <cstddef>
#include <cstdint>

namespace loft::files {

// Puts `prefix` before the name of the file in a path, and replaces %p in both by the number of the
// process, and %% by one %. False if the result is longer than `size` allows.
bool expand_path(const char* path, const char* prefix, char* result, size_t size);

// Adds a word to the name of a file, before an ending that tells its form, with a dot between:
// heap.pb.gz becomes heap.WORD.pb.gz. False, with the path as it was, if that does not fit.
bool add_word(char* path, size_t size, const char* word);

// Opens a file for writing, and empties it or makes it, mode 0600: addresses are nobody else's
// business. A queue that nobody reads is refused. Returns the descriptor, or -1 with *error set.
int open_output(const char* path, int* error);
// As open_output, for what is added at the end of a file; a symbolic link is refused, too.
int open_to_append(const char* path, int* error);
// In one write, so that what several processes append does not mix. False if it was not written.
bool write_at_once(int file, const char* text, size_t bytes);
void close_output(int file);

// In its scope, a file that may not grow and a queue that nobody reads any more are errors of the
// calling thread's writes, and no signals.
class WithoutSignals {
 public:
  WithoutSignals();
  ~WithoutSignals();
  WithoutSignals(const WithoutSignals&) = delete;
  WithoutSignals& operator=(const WithoutSignals&) = delete;

 private:
  // The thread's mask, and of these signals those that are kept off here alone: sets of signals.
  static constexpr size_t kSetBytes = 128;
  [[maybe_unused]] alignas(uint64_t) unsigned char before_[kSetBytes];
  [[maybe_unused]] alignas(uint64_t) unsigned char ours_[kSetBytes];
};

// Nanoseconds since 1970.
uint64_t wall_clock_ns();

// Copies memory of this process that may not be there any more: [from, from + bytes), or as much
// of its beginning as is mapped and readable. Returns how much; 0 also where the system refuses.
size_t copy_if_there(void* to, uintptr_t from, size_t bytes);

// The file of the program that runs. False if the system does not say, or it does not fit.
bool path_of_program(char* to, size_t bytes);

// The number of this process.
unsigned process_number();

// Readable and writable memory for the time of a call, zeroed; nullptr without memory.
void* borrow(size_t bytes);
void give_back(void* memory, size_t bytes);

}  // namespace loft::files
