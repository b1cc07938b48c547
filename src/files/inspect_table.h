// What libloft-inspect.so (inspect/) and loft have of each other. The library exports one table,
// under the name `loft_inspect`; what it asks of loft is handed to it as another one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace loft {
class Text;
namespace profile {
struct Site;
enum class Moment : uint8_t;
}  // namespace profile
}  // namespace loft

namespace loft::inspect {

// What the linker calls a place in the code that runs: in a file, so far behind its address 0.
struct CodeName {
  const char* file;  // as the loader knows it; "" for the program itself
  uintptr_t address;
  size_t build_id_bytes;  // 0 for none
  uint8_t build_id[64];   // a longer one is cut
};

// What a profile is written from.
struct Source {
  const profile::Site* newest;
  uint64_t mean_bytes;
  uint64_t in_use;  // weighted bytes
  profile::Moment moment;
  void (*report)(const Text& line);
  bool (*expand_path)(const char* path, char* result, size_t size);
};

// Why it is written: the program calls for it, by any path, which it is told how that came out. Or
// to the path of the option profile_file: the process ends, a signal arrives, or memory is refused.
enum class Occasion : uint8_t { kCall, kEnd, kSignal, kRefused };

struct AddressRange {
  uintptr_t begin;
  uintptr_t end;
};

// Where a search for leaks looks, and what it finds.
struct Objects {
  AddressRange all;     // they lie there
  AddressRange own[3];  // loft's own memory, and theirs: none of the rest of the program's
  unsigned alignment_log;
  // The object that an address lies in; empty: none.
  AddressRange (*around)(uintptr_t address);
  // Counts the sampled objects of which `is_lost` says so.
  void (*count_lost)(bool (*is_lost)(void* context, const void* p), void* context);
};

// What a search has read, and how much private memory it passed over because nothing was ever
// written there.
struct LookedAt {
  size_t read;
  size_t passed_over;
};

// What can be asked of a process.
enum class Told : uint8_t { kMetrics, kStats, kMap, kProfile, kPeak, kPurge };

// What a server asks of loft. Only the thread that serves calls these.
struct Served {
  // Somebody listens now.
  void (*begins)();
  // Whether to go on. To be asked often: whoever waits for the end of the server cannot wake it.
  bool (*goes_on)();
  // Writes into a file; kMap: from that address on. 0, or an error of the system; ENODATA: there is
  // no profile.
  int (*write)(Told what, int file, uint64_t from);
  // Returns what loft_option_set does; EACCES: the option is a path.
  int (*set_option)(std::string_view name, std::string_view value);
};

struct Table {
  uint64_t version;

  // Before the next two, once, with no lock of loft's held. `own`: in the code that a stack leaves
  // out where it begins; nullptr: none. nullptr, or why stacks cannot be followed here.
  const char* (*begin)(const void* own);
  size_t (*capture)(uintptr_t* frames, size_t most);
  bool (*name_code)(uintptr_t pc, CodeName* name);

  // These take no lock, allocate nothing and keep errno. Return 0 or an error of the system.
  //
  // In the format of pprof.
  int (*write_profile)(const Source& source, int file);
  // In the form that the path's ending says, and in the file that the occasion does.
  int (*save_profile)(const Source& source, Occasion occasion, const char* path);
  // Samples are taken, and nobody has forked since: notes the process, and keeps some address space
  // for a profile of the occasion kRefused.
  void (*expect_profile)(bool in_a_file);

  // Counts what nothing points to. False without memory for the search, or if the system does not
  // tell what is mapped or does not let its memory be copied. No lock may be held.
  bool (*search_leaks)(const Objects& objects, LookedAt* looked_at);

  // Makes a socket at `path`, answers on it until it is told to end, and removes it: nullptr. Or
  // why there can be none, a text that stays until the next call. One thread at a time, which has a
  // table of files for itself and no lock of loft's. `path` is not changed before the next call.
  const char* (*serve)(const Served& loft, const char* path);
  // The process ends: removes the socket's file. Any thread.
  void (*leave)();
};

// Raised with each change of the tables or of what their functions mean.
inline constexpr uint64_t kTableVersion = 4;

}  // namespace loft::inspect
