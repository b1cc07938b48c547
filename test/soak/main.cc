// The soak: rounds, each a process of its own with its own owner and options, until time is up.
//
//   loft_soak [SECONDS [SEED]]    an hour by default
//   loft_soak --round SEED        one round, such as one that failed
//
// A failure prints the seed of its round, which repeats it (threads interleave as they please).
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <iterator>
#include <random>

#include "loft/loft.h"
#include "soak/round.h"
#include "storm/support.h"

namespace {

constexpr unsigned kHour = 3600;
// A round takes a second or two, and some ten under a sanitizer.
constexpr unsigned kRoundLimitS = 300;
constexpr int kBarWidth = 30;

struct Setting {
  const char* name;
  const char* values[5];  // an empty one: not set
};

constexpr Setting kSettings[] = {
    {"owner", {"thread", "cpu", "shared", "thread", "cpu"}},
    {"background", {"", "", "off", "on", "on"}},
    {"thp", {"", "", "", "never", "prefer"}},
    {"decay_ms", {"", "", "0", "1", "20"}},
    {"cache_bytes", {"", "", "", "0", "64K"}},
    {"dirty_bytes", {"", "", "", "0", "1M"}},
    {"soft_limit", {"", "", "", "", "16M"}},
    {"cgroup", {"", "", "", "watch", "hard"}},
};

const char* value_of(const Setting& setting, uint64_t& random) {
  return setting.values[(storm::advance(random) >> 33) % std::size(setting.values)];
}

// Of a round, as variables. Which ones there are follows from the seed alone.
template <class Visit>
void for_each_variable(uint64_t seed, Visit visit) {
  uint64_t random = ~seed;
  for (const Setting& setting : kSettings) {
    const char* value = value_of(setting, random);
    if (*value != 0) visit(setting.name, value);
  }
}

void variable_of(const char* option, char (&name)[64]) {
  snprintf(name, sizeof(name), "LOFT_%s", option);
  for (char* c = name; *c != 0; ++c) {
    if ('a' <= *c && *c <= 'z') *c = static_cast<char>(*c - 'a' + 'A');
  }
}

// In the round's own process. An option that has another name by now would otherwise be a setting
// that does nothing.
int inside(uint64_t seed) {
  unsigned faults = 0;
  for_each_variable(seed, [&](const char* name, const char*) {
    char value[64];
    if (loft_option_get(name, value, sizeof(value)) != 0) {
      fprintf(stderr, "soak: there is no option %s\n", name);
      ++faults;
    }
  });
  alarm(kRoundLimitS);
  return faults + soak::run_round(seed) == 0 ? 0 : 1;
}

// 0, or how the round's process ended.
int run_round(uint64_t seed) {
  const pid_t child = fork();
  if (child == 0) {
    for_each_variable(seed, [](const char* option, const char* value) {
      char name[64];
      variable_of(option, name);
      setenv(name, value, 1);
    });
    char text[32];
    snprintf(text, sizeof(text), "%#llx", static_cast<unsigned long long>(seed));
    execl("/proc/self/exe", "loft_soak", "--inside", text, nullptr);
    _exit(127);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return -1;
  if (status == 0) return 0;
  fprintf(stderr, "\nsoak: a round has failed: %s %d\nsoak: repeat it: loft_soak --round %#llx\n",
          WIFSIGNALED(status) ? "signal" : "exit code",
          WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
          static_cast<unsigned long long>(seed));
  for_each_variable(seed, [](const char* option, const char* value) {
    char name[64];
    variable_of(option, name);
    fprintf(stderr, "soak: with %s=%s\n", name, value);
  });
  return status;
}

unsigned now() {
  timespec time = {};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<unsigned>(time.tv_sec);
}

// On a terminal only: in a log it would be noise.
void draw_bar(unsigned past, unsigned seconds, unsigned rounds) {
  if (isatty(STDERR_FILENO) == 0) return;
  const int full = static_cast<int>(uint64_t{past} * kBarWidth / seconds);
  fprintf(stderr, "\r[%.*s%*s] %u:%02u of %u:%02u, %u rounds", full,
          "##############################", kBarWidth - full, "", past / 60, past % 60,
          seconds / 60, seconds % 60, rounds);
}

int soak_for(unsigned seconds, uint64_t seed) {
  printf("soak: %u s, seed %#llx\n", seconds, static_cast<unsigned long long>(seed));
  fflush(stdout);
  const unsigned started = now();
  unsigned rounds = 0;
  for (unsigned past = 0; past < seconds; past = now() - started) {
    draw_bar(past, seconds, rounds);
    if (run_round(storm::advance(seed)) != 0) return 1;
    ++rounds;
  }
  draw_bar(seconds, seconds, rounds);
  printf("\nsoak: %u rounds, nothing lost and nothing left\n", rounds);
  return 0;
}

}  // namespace

int main(int count, char** words) {
  if (count == 3 && strcmp(words[1], "--inside") == 0)
    return inside(strtoull(words[2], nullptr, 0));
  if (count == 3 && strcmp(words[1], "--round") == 0) {
    return run_round(strtoull(words[2], nullptr, 0)) == 0 ? 0 : 1;
  }
  const auto seconds = count > 1 ? static_cast<unsigned>(strtoul(words[1], nullptr, 10)) : kHour;
  std::random_device entropy;
  const uint64_t drawn = uint64_t{entropy()} << 32 | entropy();
  return soak_for(seconds > 0 ? seconds : 1, count > 2 ? strtoull(words[2], nullptr, 0) : drawn);
}
