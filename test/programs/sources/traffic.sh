#!/bin/bash
# redis-server on a socket of its own in the current folder: traffic, a fixed data set, a dump written
# while traffic goes on, and a second server that reads it back.
set -euo pipefail

server=0
start() {
  redis-server --port 0 --unixsocket "$PWD/redis.sock" --save "" --appendonly no \
    --enable-debug-command local --dir "$PWD" "$@" >>server.log 2>&1 &
  server=$!
  while kill -0 "$server" 2>/dev/null; do
    if [ "$(redis-cli -s redis.sock ping 2>/dev/null)" = PONG ]; then return; fi
    sleep 0.02
  done
  echo "the server ended"
  cat server.log
  exit 1
}
stop() {
  redis-cli -s redis.sock shutdown nosave
  wait "$server" && echo "server left with $?"
}
cli() { redis-cli -s redis.sock "$@"; }
# The names of the commands that ran to the end; their rates differ from run to run.
bench() { redis-benchmark -s redis.sock -c 20 --csv "$@" | cut -d, -f1; }

start
bench -n 10000 -r 300 -t set,get,incr,lpush,rpush,lpop,rpop,sadd,hset,zadd,lrange_100,mset
# Thirty draws and more for each of 300 numbers: none is left out, and lists were emptied again.
cli dbsize
cli info memory | grep -Ec '^used_memory:[1-9][0-9]{5,}'
cli info stats | grep -Ec '^total_commands_processed:[1-9][0-9]{5,}'
cli flushall

cli eval "
  for i = 1, 60000 do redis.call('set', 'text:' .. i, string.rep('v', i % 200)) end
  for i = 1, 60000 do redis.call('hset', 'hash:' .. i % 100, 'field' .. i, i * i) end
  for i = 1, 60000 do redis.call('zadd', 'set:' .. i % 10, i % 977, 'member' .. i) end
  for i = 1, 60000 do redis.call('rpush', 'list:' .. i % 50, string.rep('x', i % 90)) end
  for i = 1, 40000, 3 do redis.call('del', 'text:' .. i) end
  for i = 2, 60000, 5 do redis.call('append', 'text:' .. i, string.rep('w', i % 500)) end
  return redis.call('dbsize')" 0
before=$(cli debug digest)
echo "$before"
cli bgsave
bench -n 10000 -t get,ping_inline
while [ "$(cli info persistence | tr -d '\r' | sed -n 's/^rdb_bgsave_in_progress://p')" != 0 ]; do
  sleep 0.02
done
cli info persistence | tr -d '\r' | grep '^rdb_last_bgsave_status:'
stop

start
after=$(cli debug digest)
[ "$before" = "$after" ] && echo "the dump holds the same data"
stop
