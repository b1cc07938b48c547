// What loft-trace does with its arguments:
//
//   info FILE                         all processes, as JSON
//   calls FILE PROCESS                the calls of one, a line for each
//   plan FILE PROCESS SAMPLES OUT     a plan for loft-replay; about the process, as JSON
//
// FILE holds nothing but chunks: `loft` has uncompressed it. What is wrong with it ends in fail(),
// which is the program's: test/fuzz/trace_fuzz.cc goes on after it.
#ifndef LOFT_TRACE_READER_H_
#define LOFT_TRACE_READER_H_

namespace trace {

// The program's exit status.
int read_trace(int argc, char** argv);

}  // namespace trace

#endif  // LOFT_TRACE_READER_H_
