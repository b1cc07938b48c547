// Files that loft writes, in one pass, without allocation. All functions keep errno.
#pragma once

#include <signal.h>

#include <cstddef>
#include <cstdint>

namespace loft::files {

// Puts `prefix` before the name of the file in a path, and replaces %p in both by the number of the
// process, and %% by one %. False if the result is longer than `size` allows.
bool expand_path(const char* path, const char* prefix, char* result, size_t size);

// A name in the folder of `path` that no other file has: drawn by lot. False if it does not fit.
bool name_temporary(const char* path, char* result, size_t size);

// Adds a word to the name of a file, before an ending that tells its form, with a dot between:
// heap.pb.gz becomes heap.WORD.pb.gz. False, with the path as it was, if that does not fit.
bool add_word(char* path, size_t size, const char* word);

// The longest path of a file, with its NUL.
inline constexpr size_t kLongestPath = 4096;

// A file that is written whole. Until it is closed it has a name of its own, in the same folder: so
// nobody reads a part of it, a file that had the name is as it was if writing fails, and no link
// there leads to another file. Too long for a stack: it lies in borrowed memory.
class OutputFile {
 public:
  // Makes a file that becomes `path`, which stays meanwhile. Mode 0600: addresses are nobody else's
  // business. What has the name must be a regular file, or nothing: neither a device nor a queue is
  // replaced. 0, or an error of the system; EEXIST: it is no regular file.
  int open(const char* path);
  int file() const { return file_; }

  // Gives it its name, in place of the file that had it; or removes it after an `error` of whoever
  // wrote. Returns that, or an error of the system.
  int close(int error);

 private:
  const char* path_ = nullptr;
  int file_ = -1;
  char temporary_[kLongestPath];
};

// Opens a file to whose end a report is added, or makes it, mode 0600. It is one of the process's
// user or of root, and has no other name: an owner of the folder cannot have put a link to somebody
// else's there. Returns the descriptor, or -1 and why.
int open_to_append(const char* path, const char** why);
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
  sigset_t before_;  // the thread's mask
  sigset_t ours_;    // of these signals, those that are kept off here alone
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
