// A plugin that has loft for itself, and with -DFOR_PYTHON the same as a module of Python.
#ifdef FOR_PYTHON
#include <Python.h>
#endif
#include <loft/loft.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))
enum { kThreads = 4, kObjects = 1000, kRounds = 50 };

static void* slots[kObjects];

// What one thread puts into the slots another one frees.
static void* exchange(void* seed) {
  for (int i = 0; i < kObjects * kRounds; ++i) {
    const size_t size = 1 + (size_t)(i * 37 + (long)seed) % 3000;
    unsigned char* p = loft_malloc(size);
    if (p == NULL) return seed;
    memset(p, (int)size, size);
    loft_free(__atomic_exchange_n(&slots[i % kObjects], p, __ATOMIC_ACQ_REL));
  }
  return NULL;
}

static int exchange_on_threads(void) {
  pthread_t threads[kThreads];
  int wrong = 0;
  for (long i = 0; i < kThreads; ++i)
    wrong |= pthread_create(&threads[i], NULL, exchange, (void*)(i + 1));
  for (int i = 0; i < kThreads; ++i) {
    void* failed;
    wrong |= pthread_join(threads[i], &failed) | (failed != NULL);
  }
  return wrong;
}

static volatile int ended;
static void* beside(void* unused) {
  while (!ended) loft_free(loft_malloc(100));
  return unused;
}

// Children of a process in which another thread is inside of loft.
static int fork_beside_a_thread(void) {
  pthread_t thread;
  int wrong = pthread_create(&thread, NULL, beside, NULL);
  for (int i = 0; i < 20 && !wrong; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      void* p = malloc(1000);
      void* q = loft_malloc(1000);
      free(p);
      loft_free(q);
      _exit(p == NULL || q == NULL || exchange_on_threads());
    }
    int status = 1;
    wrong = child < 0 || waitpid(child, &status, 0) != child || status != 0;
  }
  ended = 1;
  pthread_join(thread, NULL);
  ended = 0;
  return wrong;
}

// 0, or which step failed.
SHOWN int plugin_work(void) {
  char* ours = loft_malloc(100);
  if (ours == NULL || loft_object_start(ours + 50) != ours) return 1;
  loft_free(ours);
  if (exchange_on_threads()) return 2;
  if (fork_beside_a_thread()) return 3;
  return 0;
}
SHOWN void* plugin_get(size_t size) { return loft_malloc(size); }
SHOWN void plugin_put(void* p) { loft_free(p); }
// Whether the process's own malloc is another.
SHOWN int plugin_is_apart(void) {
  void* p = malloc(100);
  const int apart = loft_object_start(p) == NULL;
  free(p);
  return apart;
}

#ifdef FOR_PYTHON
static PyObject* work(PyObject* self, PyObject* unused) {
  (void)self, (void)unused;
  return PyLong_FromLong(plugin_work());
}
static PyObject* is_apart(PyObject* self, PyObject* unused) {
  (void)self, (void)unused;
  return PyBool_FromLong(plugin_is_apart());
}
static PyMethodDef methods[] = {
    {"work", work, METH_NOARGS, NULL}, {"is_apart", is_apart, METH_NOARGS, NULL}, {0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "plugin", NULL, -1, methods, 0, 0, 0, 0};
PyMODINIT_FUNC PyInit_plugin(void) { return PyModule_Create(&module); }
#endif
