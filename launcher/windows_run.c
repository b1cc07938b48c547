// loft-run PROGRAM [ARGUMENT...]: starts a program of Windows with loft.dll in it, which lies
// beside loft-run.exe. The program's first thread waits until the library is loaded and has put
// loft before the program's C runtimes (src/api/windows_redirect.cc). Ends with the program's own
// code.
#include <stdio.h>
#include <stdlib.h>
#include <wchar.h>
#include <windows.h>

enum { kWrongUse = 2, kCannotStart = 127, kLongestPath = 32768 };

static wchar_t library[kLongestPath];

static int fail(const char* what) {
  fprintf(stderr, "loft-run: %s (error %lu of Windows)\n", what, GetLastError());
  return kCannotStart;
}

// What stands behind the first word of the command line, as it was written.
static wchar_t* arguments(wchar_t* line) {
  const int is_quoted = *line == L'"';
  if (is_quoted) ++line;
  while (*line != 0 && (is_quoted ? *line != L'"' : *line != L' ' && *line != L'\t')) ++line;
  if (*line == L'"') ++line;
  while (*line == L' ' || *line == L'\t') ++line;
  return line;
}

static int find_library(void) {
  const DWORD length = GetModuleFileNameW(NULL, library, kLongestPath);
  wchar_t* const name = length == 0 ? NULL : wcsrchr(library, L'\\');
  if (name == NULL || name + 10 >= library + kLongestPath) return 0;
  wcscpy(name + 1, L"loft.dll");
  return GetFileAttributesW(library) != INVALID_FILE_ATTRIBUTES;
}

// Has the process load the library in a thread of its own. Kernel32 lies at the same address in
// every process of a kind.
static const char* load_into(HANDLE process) {
  const size_t bytes = (wcslen(library) + 1) * sizeof(wchar_t);
  BOOL is_narrow = FALSE;
  if (IsWow64Process(process, &is_narrow) && is_narrow)
    return "the program is of 32 bits, and loft.dll of 64";
  void* const path = VirtualAllocEx(process, NULL, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
  if (path == NULL || !WriteProcessMemory(process, path, library, bytes, NULL))
    return "the program's memory cannot be written";
  const LPTHREAD_START_ROUTINE load = (LPTHREAD_START_ROUTINE)(void*)GetProcAddress(
      GetModuleHandleW(L"kernel32.dll"), "LoadLibraryW");
  const HANDLE thread = CreateRemoteThread(process, NULL, 0, load, path, 0, NULL);
  if (thread == NULL) return "no thread can be started in the program";
  DWORD loaded = 0;
  WaitForSingleObject(thread, INFINITE);
  GetExitCodeThread(thread, &loaded);
  CloseHandle(thread);
  VirtualFreeEx(process, path, 0, MEM_RELEASE);
  return loaded == 0 ? "the program does not load loft.dll" : NULL;
}

// An interruption is for the program, which ends, or not.
static BOOL WINAPI ignore(DWORD event) {
  return event == CTRL_C_EVENT || event == CTRL_BREAK_EVENT;
}

int main(void) {
  wchar_t* const line = arguments(GetCommandLineW());
  if (*line == 0) {
    fputs("usage: loft-run PROGRAM [ARGUMENT...]\n", stderr);
    return kWrongUse;
  }
  if (!find_library()) return fail("loft.dll is not beside loft-run.exe");
  STARTUPINFOW start = {.cb = sizeof(start)};
  PROCESS_INFORMATION child;
  if (!CreateProcessW(NULL, line, NULL, NULL, TRUE, CREATE_SUSPENDED, NULL, NULL, &start, &child))
    return fail("the program cannot be started");
  const char* const trouble = load_into(child.hProcess);
  if (trouble != NULL) {
    TerminateProcess(child.hProcess, kCannotStart);
    return fail(trouble);
  }
  SetConsoleCtrlHandler(ignore, TRUE);
  ResumeThread(child.hThread);
  WaitForSingleObject(child.hProcess, INFINITE);
  DWORD code = kCannotStart;
  GetExitCodeProcess(child.hProcess, &code);
  return (int)code;
}
