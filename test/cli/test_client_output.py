"""What clients that make load wrote, as they wrote it, and what of it is read."""

from __future__ import annotations

import pytest

from loft_malloc import client_output

WRK = """\
Running 1s test @ http://127.0.0.1:7392/
  1 threads and 4 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     8.08ms    8.25ms  69.89ms   94.88%
    Req/Sec   558.40    147.32   673.00     90.00%
  Latency Distribution
     50%    6.80ms
     75%    9.10ms
     90%   12.36ms
     99%    1.50s
  563 requests in 1.02s, 102.81KB read
Requests/sec:    553.72
Transfer/sec:    101.12KB
"""

AB = """\
Time taken for tests:   0.361 seconds
Requests per second:    553.68 [#/sec] (mean)
Time per request:       7.224 [ms] (mean)

Connection Times (ms)
              min  mean[+/-sd] median   max
Total:          1    7   5.2      5      20

Percentage of the requests served within a certain time (ms)
  50%      5
  66%      7
  90%     16
  95%     17
  98%     19
  99%     20
 100%     24 (longest request)
"""

HEY = """\
Summary:
  Total:\t0.2643 secs
  Slowest:\t0.0126 secs
  Requests/sec:\t756.7437

Response time histogram:
  0.001 [1]\t|■

Latency distribution:
  10% in 0.0030 secs
  50% in 0.0049 secs
  90%% in 0.0079 secs
  99% in 0.0123 secs
"""

REDIS = """\
SET: rps=0.0 (overall: 0.0) avg_msec=-nan (overall: -nan)\r\
====== SET ======
  5000 requests completed in 0.57 seconds
  50 parallel clients

Latency by percentile distribution:
0.000% <= 0.295 milliseconds (cumulative count 1)
50.000% <= 3.631 milliseconds (cumulative count 2501)

Summary:
  throughput summary: 8756.57 requests per second
  latency summary (msec):
          avg       min       p50       p95       p99       max
        3.810     0.288     3.631     7.991     9.863    13.583

====== MSET (10 keys) ======
  5000 requests completed in 0.45 seconds

Summary:
  throughput summary: 11086.47 requests per second
  latency summary (msec):
          avg       min       p50       p95       p99       max
        3.100     0.096     2.255     8.999    10.495    11.415
"""

REDIS_CSV = """\
"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms",\
"p99_latency_ms","max_latency_ms"
"SET","15290.52","2.207","0.240","1.647","5.815","7.743","8.359"
"GET","14705.88","2.342","0.328","1.623","5.623","10.367","11.815"
"""

REDIS_QUIET = "GET: rps=0.0 (overall: 0.0)\rGET: 22222.22 requests per second, p50=0.943 msec\n\n"


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (
            WRK,
            {
                "throughput_per_s": 553.72,
                "latency_p50_s": 0.0068,
                "latency_p90_s": 0.01236,
                "latency_p99_s": 1.5,
            },
        ),
        (
            AB,
            {
                "throughput_per_s": 553.68,
                "latency_p50_s": 0.005,
                "latency_p95_s": 0.017,
                "latency_p99_s": 0.02,
            },
        ),
        (
            HEY,
            {
                "throughput_per_s": 756.7437,
                "latency_p50_s": 0.0049,
                "latency_p90_s": 0.0079,
                "latency_p99_s": 0.0123,
            },
        ),
        (
            REDIS,
            {
                "set_throughput_per_s": 8756.57,
                "set_latency_p50_s": 0.003631,
                "set_latency_p95_s": 0.007991,
                "set_latency_p99_s": 0.009863,
                "mset_10_keys_throughput_per_s": 11086.47,
                "mset_10_keys_latency_p50_s": 0.002255,
                "mset_10_keys_latency_p95_s": 0.008999,
                "mset_10_keys_latency_p99_s": 0.010495,
            },
        ),
        (
            REDIS_CSV,
            {
                "set_throughput_per_s": 15290.52,
                "set_latency_p50_s": 0.001647,
                "set_latency_p95_s": 0.005815,
                "set_latency_p99_s": 0.007743,
                "get_throughput_per_s": 14705.88,
                "get_latency_p50_s": 0.001623,
                "get_latency_p95_s": 0.005623,
                "get_latency_p99_s": 0.010367,
            },
        ),
        (REDIS_QUIET, {"get_throughput_per_s": 22222.22, "get_latency_p50_s": 0.000943}),
        ("", {}),
        ("50% of it in 3 secs\nRequests/sec: many\n", {}),
        ('"a","b"\n"1","2"\n', {}),
    ],
)
def test_what_is_read(text: str, read: dict[str, float]) -> None:
    found = client_output.read(text)
    assert {quantity.key: value for quantity, value in found.items()} == pytest.approx(read)


def test_titles_name_the_test_if_there_are_several() -> None:
    assert [quantity.title for quantity in client_output.read(REDIS_QUIET)] == [
        "GET latency p50",
        "GET throughput",
    ]
    assert "throughput" in {quantity.title for quantity in client_output.read(WRK)}
