#include "serve/connection.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace loft::serve {

namespace {

constexpr uint64_t kSecond = 1'000'000'000;

// A request is sent in one go by whoever is on the same machine.
constexpr uint64_t kRequestNs = 5 * kSecond;
// An answer may have to wait for a reader that was stopped for a moment.
constexpr uint64_t kAnswerNs = 30 * kSecond;
constexpr uint64_t kEndNs = 1 * kSecond;

}  // namespace

void Connection::begin(int peer, uint64_t now) {
  peer_ = peer;
  received_ = 0;
  state_ = State::kReading;
  deadline_ = now + kRequestNs;
}

void Connection::refuse(int peer, uint64_t now, Status status, const char* why) {
  peer_ = peer;
  answer_.say(status, why);
  send(now);
}

short Connection::awaited() const {
  if (state_ == State::kReading || state_ == State::kEnding) return POLLIN;
  // While it waits, only the peer's end is of interest, which poll always tells.
  return state_ == State::kSending ? POLLOUT : 0;
}

void Connection::on_events(ChangeOption change, uint64_t now) {
  switch (state_) {
    case State::kReading:
      return read(change, now);
    case State::kSending:
      return go_on_sending(now);
    case State::kEnding:
      return read_the_rest();
    case State::kWaiting:
      return close();
    case State::kFree:
      break;
  }
}

void Connection::on_time(uint64_t now) {
  if (state_ == State::kReading) {
    answer_.say(kTimedOut, "the request did not come in time");
    return send(now);
  }
  if (state_ != State::kWaiting) return close();
  answer_difference(earlier_, answer_);
  profile::forget(earlier_);
  send(now);
}

void Connection::close() {
  ::close(peer_);
  peer_ = -1;
  profile::forget(earlier_);
  answer_.clear();
  state_ = State::kFree;
}

void Connection::read(ChangeOption change, uint64_t now) {
  const ssize_t got = recv(peer_, bytes_ + received_, sizeof(bytes_) - received_, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got < 0 || (got == 0 && received_ == 0)) return close();
  received_ += static_cast<size_t>(got);
  Request request;
  Status status = read_request({bytes_, received_}, request);
  // A request that its peer has ended, or for which there is no room.
  if (status == kIncomplete && (got == 0 || received_ == sizeof(bytes_))) status = kBadRequest;
  if (status != kIncomplete) take(status, request, change, now);
}

void Connection::take(Status status, const Request& request, ChangeOption change, uint64_t now) {
  const uint64_t seconds = answer(status, request, change, answer_);
  return seconds == 0 ? send(now) : wait(seconds, now);
}

void Connection::wait(uint64_t seconds, uint64_t now) {
  if (!profile::remember(earlier_, kMostSites)) {
    answer_.say(kUnavailable, "there is no memory for the figures of now, or too many sites");
    return send(now);
  }
  state_ = State::kWaiting;
  deadline_ = now + seconds * kSecond;
}

void Connection::send(uint64_t now) {
  state_ = State::kSending;
  deadline_ = now + kAnswerNs;
  go_on_sending(now);
}

void Connection::go_on_sending(uint64_t now) {
  if (!answer_.send_to(peer_)) return close();
  if (!answer_.is_sent()) return;
  answer_.clear();
  shutdown(peer_, SHUT_WR);
  state_ = State::kEnding;
  deadline_ = now + kEndNs;
}

void Connection::read_the_rest() {
  const ssize_t got = recv(peer_, bytes_, sizeof(bytes_), MSG_DONTWAIT);
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) close();
}

}  // namespace loft::serve
