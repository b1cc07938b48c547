// fork_storm FORKS: threads allocate, and free what others allocated, without a pause, while two
// threads fork. A child allocates at once, frees what its parent's threads held, and starts a
// thread of its own.
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr unsigned kWorkers = 4;
constexpr unsigned kSlots = 512;

std::atomic<char*> slots[kSlots];
std::atomic<bool> stop{false};
std::atomic<int> failures{0};
int forks_each = 0;

size_t size_of(unsigned draw) {
  return draw % 97 == 0 ? 200000 : 8 + draw % (draw % 11 == 0 ? 9000 : 500);
}

char* make(unsigned draw) {
  const size_t size = size_of(draw);
  auto* object = static_cast<char*>(malloc(size));
  if (object == nullptr) _exit(3);
  object[0] = static_cast<char>(draw);
  object[size - 1] = static_cast<char>(draw);
  memcpy(object + 1, &draw, sizeof(draw));
  return object;
}

void destroy(char* object) {
  if (object == nullptr) return;
  unsigned draw = 0;
  memcpy(&draw, object + 1, sizeof(draw));
  if (object[0] != static_cast<char>(draw) || object[size_of(draw) - 1] != object[0]) _exit(4);
  free(object);
}

// What lies in a slot belongs to whoever takes it out.
void churn(unsigned& state, unsigned rounds) {
  for (unsigned i = 0; i < rounds; i++) {
    state = state * 1103515245 + 12345;
    destroy(slots[(state >> 16) % kSlots].exchange(make(state >> 8)));
  }
}

void* work(void* seed) {
  auto state = static_cast<unsigned>(reinterpret_cast<size_t>(seed));
  while (!stop) churn(state, 100);
  return nullptr;
}

void* work_in_child(void*) {
  unsigned state = 99;
  churn(state, 500);
  return nullptr;
}

[[noreturn]] void child(int number) {
  alarm(300);  // ends a child that hangs
  auto state = static_cast<unsigned>(number);
  churn(state, 300);
  for (auto& slot : slots) destroy(slot.exchange(nullptr));
  pthread_t thread;
  if (pthread_create(&thread, nullptr, work_in_child, nullptr) != 0) _exit(5);
  churn(state, 300);
  pthread_join(thread, nullptr);
  for (auto& slot : slots) destroy(slot.exchange(nullptr));
  if (number % 16 == 0) {
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      churn(state, 300);
      _exit(0);
    }
    int status = 0;
    if (waitpid(grandchild, &status, 0) != grandchild || status != 0) _exit(6);
  }
  // One half leaves through the exit handlers, the other does not.
  if (number % 2 == 0) exit(0);
  _exit(0);
}

void* fork_on(void*) {
  unsigned state = 7;
  for (int i = 0; i < forks_each; i++) {
    churn(state, 50);
    const pid_t process = fork();
    if (process == 0) child(i);
    int status = -1;
    if (process < 0 || waitpid(process, &status, 0) != process || status != 0) {
      fprintf(stderr, "fork_storm: child %d ended with status %#x\n", i,
              static_cast<unsigned>(status));
      failures++;
    }
  }
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  forks_each = (argc > 1 ? atoi(argv[1]) : 0) / 2;
  pthread_t workers[kWorkers];
  for (size_t i = 0; i < kWorkers; i++) {
    if (pthread_create(&workers[i], nullptr, work, reinterpret_cast<void*>(i + 1)) != 0) return 2;
  }
  pthread_t second;
  if (pthread_create(&second, nullptr, fork_on, nullptr) != 0) return 2;
  fork_on(nullptr);
  pthread_join(second, nullptr);
  stop = true;
  for (const pthread_t worker : workers) pthread_join(worker, nullptr);
  for (auto& slot : slots) destroy(slot.exchange(nullptr));
  printf("%d forks, %d failures\n", forks_each * 2, failures.load());
  return failures == 0 ? 0 : 1;
}
