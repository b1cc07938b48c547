// A connection: one request and its answer, each with a time by which it has to be through. Nothing
// here waits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "profile/snapshot.h"
#include "serve/answer.h"
#include "serve/request.h"
#include "serve/routes.h"

namespace loft::serve {

class Connection {
 public:
  bool is_free() const { return state_ == State::kFree; }

  // Takes the descriptor of a peer, which does not block, and waits for its request; or answers at
  // once that there is none to be made.
  void begin(int peer, uint64_t now);
  void refuse(int peer, uint64_t now, Status status, const char* why);

  int peer() const { return peer_; }
  short awaited() const;                           // events, for poll
  uint64_t deadline() const { return deadline_; }  // when on_time is due

  void on_events(ChangeOption change, uint64_t now);
  void on_time(uint64_t now);
  void close();

 private:
  // kWaiting: for the end of the time that a difference is of. kEnding: the answer is sent, and
  // what the peer may still send is read: if it were not, the peer could lose the answer.
  enum class State : uint8_t { kFree, kReading, kWaiting, kSending, kEnding };

  void read(ChangeOption change, uint64_t now);
  void take(Status status, const Request& request, ChangeOption change, uint64_t now);
  void wait(uint64_t seconds, uint64_t now);
  void send(uint64_t now);
  void go_on_sending(uint64_t now);
  void read_the_rest();

  State state_ = State::kFree;
  int peer_ = -1;
  uint64_t deadline_ = 0;
  profile::Earlier earlier_;
  Answer answer_;
  size_t received_ = 0;
  char bytes_[kLongestHead + kLongestBody];
};

}  // namespace loft::serve
