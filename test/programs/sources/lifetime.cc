// Allocates and frees at every point of a process's and a thread's life, and across them. Prints
// what it passed.
#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace {

void say(const char* what) {
  if (write(1, what, strlen(what)) < 0 || write(1, "\n", 1) < 0) _exit(2);
}

// Objects of one phase are freed in a later one, by whoever comes there.
std::vector<char*>* handed_on = nullptr;

char* filled(size_t size) {
  auto* object = static_cast<char*>(malloc(size));
  if (object == nullptr) _exit(3);
  memset(object, static_cast<int>(size & 127), size);
  return object;
}

void check_and_free(char* object, size_t size) {
  for (size_t i = 0; i < size; i++) {
    if (object[i] != static_cast<char>(size & 127)) _exit(4);
  }
  free(object);
}

void exercise(const char* where) {
  constexpr size_t kSizes[] = {1, 24, 64, 500, 4096, 30000, 400000};
  char* objects[std::size(kSizes)];
  for (int round = 0; round < 20; round++) {
    for (size_t i = 0; i < std::size(kSizes); i++) objects[i] = filled(kSizes[i]);
    for (size_t i = 0; i < std::size(kSizes); i++) check_and_free(objects[i], kSizes[i]);
  }
  if (where != nullptr) say(where);
}

char* from_constructor = nullptr;

__attribute__((constructor(101))) void first_constructor() {
  from_constructor = filled(777);
  exercise("constructor with the first priority");
}

__attribute__((destructor(101))) void last_destructor() {
  check_and_free(from_constructor, 777);
  exercise("destructor with the last priority");
}

struct Static {
  std::map<int, std::string> words;

  Static() {
    for (int i = 0; i < 500; i++) words[i] = std::string(static_cast<size_t>(i), 'x');
    handed_on = new std::vector<char*>;
    exercise("static constructor");
  }
  ~Static() {
    words.clear();
    for (char* object : *handed_on) check_and_free(object, 123);
    delete handed_on;
    exercise("static destructor");
  }
};
Static object_with_static_lifetime;

void at_exit() { exercise("atexit handler"); }
void at_quick_exit() { exercise("at_quick_exit handler"); }

struct ThreadLocal {
  std::unique_ptr<std::string> text = std::make_unique<std::string>(1000, 't');

  void touch() { text->append("!"); }
  ~ThreadLocal() {
    handed_on->push_back(filled(123));
    text.reset();
    exercise("thread_local destructor");
  }
};
thread_local ThreadLocal thread_local_object;

// Key destructors run again while they set their key again: the later rounds come after every other
// library's own.
pthread_key_t key;
void key_destructor(void* value) {
  auto* rounds = static_cast<int*>(value);
  exercise("key destructor");
  if (--*rounds > 0) {
    pthread_setspecific(key, rounds);
    return;
  }
  free(rounds);
  handed_on->push_back(filled(123));
}

void* thread(void* ready_made) {
  check_and_free(static_cast<char*>(ready_made), 321);
  thread_local_object.touch();
  auto* rounds = static_cast<int*>(malloc(sizeof(int)));
  *rounds = PTHREAD_DESTRUCTOR_ITERATIONS;
  pthread_setspecific(key, rounds);
  handed_on->push_back(filled(123));
  exercise("thread");
  return filled(4321);
}

// A thread whose first and only call frees what another thread made.
void* only_free(void* object) {
  free(object);
  return nullptr;
}

void* still_running(void* started) {
  pthread_barrier_wait(static_cast<pthread_barrier_t*>(started));
  for (;;) exercise(nullptr);
}

pthread_t main_thread;
void* outlives_main(void* from_main) {
  pthread_join(main_thread, nullptr);
  check_and_free(static_cast<char*>(from_main), 999);
  exercise("after the main thread's end");
  exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string way = argc > 1 ? argv[1] : "";
  exercise("main");
  atexit(at_exit);
  at_quick_exit(at_quick_exit);
  pthread_key_create(&key, key_destructor);
  thread_local_object.touch();

  pthread_t other;
  for (int i = 0; i < 3; i++) {
    void* result = nullptr;
    if (pthread_create(&other, nullptr, thread, filled(321)) != 0) return 2;
    pthread_join(other, &result);
    check_and_free(static_cast<char*>(result), 4321);
    if (pthread_create(&other, nullptr, only_free, filled(55)) != 0) return 2;
    pthread_join(other, nullptr);
  }
  say("threads joined");

  if (way == "return") return 0;
  if (way == "quick_exit") quick_exit(0);
  if (way == "running") {
    static pthread_barrier_t started;  // the other thread may be in it still when main returns
    pthread_barrier_init(&started, nullptr, 2);
    if (pthread_create(&other, nullptr, still_running, &started) != 0) return 2;
    pthread_barrier_wait(&started);
    return 0;
  }
  if (way == "outlived") {
    main_thread = pthread_self();
    if (pthread_create(&other, nullptr, outlives_main, filled(999)) != 0) return 2;
    pthread_exit(nullptr);
  }
  return 2;
}
