-- The state of a partition at this moment, for a fold.
-- KEYS  head, log, then the keys to read
-- ARGV  for each key after the log: HMGET or ZMSCORE, a count, that many fields or members
-- returns run id, head, length of the log, then for each further key an array, or nil if the key
-- does not exist
local answer = {
  string.match(redis.call('INFO', 'server'), 'run_id:(%x+)'),
  redis.call('GET', KEYS[1]),
  redis.call('XLEN', KEYS[2]),
}
local i = 1
for k = 3, #KEYS do
  local count = tonumber(ARGV[i + 1])
  -- Most reads are of missing keys: a thousand nils cost as much as a thousand values.
  answer[k + 1] = redis.call('EXISTS', KEYS[k]) == 1 and redis.call(ARGV[i], KEYS[k], unpack(ARGV, i + 2, i + 1 + count))
  i = i + 2 + count
end
return answer
