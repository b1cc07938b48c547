// fork_streams threads|alone: a fork beside a thread that reads a line and one that flushes all
// streams, stopped at the very moment in which each waits for the next one if fork takes its locks
// in the wrong order; or of a process with one thread. Parent and child use streams afterwards, the
// child from a second thread, too.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kLine = 4 << 20, kPiece = 4096 };

static FILE* read_stream;
static FILE* written_stream;
static size_t bytes_read;
static atomic_int reader_inside, list_locked;
static atomic_int forker;
static atomic_int first_flush = 1;

static void until(atomic_int* set) {
  while (!*set) usleep(1000);
}

// Until the thread that forks sleeps on a lock. It writes its number last before it calls fork.
static void until_fork_waits(void) {
  until(&forker);
  char path[64], text[256];
  snprintf(path, sizeof path, "/proc/self/task/%d/syscall", forker);
  for (int in_a_row = 0; in_a_row < 20;) {
    usleep(1000);  // time: looks again, until it has slept for some looks
    const int file = open(path, O_RDONLY);
    const ssize_t n = read(file, text, sizeof text - 1);
    close(file);
    text[n > 0 ? n : 0] = '\0';
    in_a_row = atoi(text) == SYS_futex ? in_a_row + 1 : 0;
  }
}

// Called with the lock of its stream held. The line grows from here on.
static ssize_t give(void* cookie, char* to, size_t size) {
  (void)cookie;
  if (bytes_read == 0) {
    reader_inside = 1;
    until_fork_waits();
  }
  if (bytes_read >= kLine) return 0;
  const size_t n = size < kPiece ? size : kPiece;
  memset(to, 'x', n);
  bytes_read += n;
  return (ssize_t)n;
}

// Called with the lock of the list held, if all streams are being flushed.
static ssize_t take(void* cookie, const char* from, size_t size) {
  (void)cookie, (void)from;
  if (first_flush) {
    first_flush = 0;
    list_locked = 1;
  }
  return (ssize_t)size;
}

static void* read_line(void* unused) {
  char* line = NULL;
  size_t room = 0;
  if (getline(&line, &room, read_stream) != kLine) exit(3);
  free(line);
  return unused;
}

static void* flush_all(void* unused) {
  fflush(NULL);
  return unused;
}

static void in_second_thread(void* (*run)(void*)) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, run, NULL) != 0) exit(4);
  pthread_join(thread, NULL);
}

static void use_streams(const char* who) {
  fflush(NULL);
  fclose(fopen("/dev/null", "w"));
  in_second_thread(flush_all);
  fflush(NULL);
  in_second_thread(flush_all);
  printf("%s goes on\n", who);
  fflush(stdout);
}

int main(int argc, char** argv) {
  const int threads = argc > 1 && strcmp(argv[1], "threads") == 0;
  pthread_t reader, flusher;
  if (threads) {
    read_stream = fopencookie(NULL, "r", (cookie_io_functions_t){.read = give});
    // Flushing begins with the stream that was opened last.
    written_stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = take});
    fputs("text", written_stream);
    pthread_create(&reader, NULL, read_line, NULL);
    until(&reader_inside);
    pthread_create(&flusher, NULL, flush_all, NULL);
    until(&list_locked);
  }
  forker = (int)syscall(SYS_gettid);
  const pid_t child = fork();
  if (child == 0) {
    use_streams("child");
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  if (threads) {
    pthread_join(reader, NULL);
    pthread_join(flusher, NULL);
  }
  use_streams("parent");
  return status;
}
