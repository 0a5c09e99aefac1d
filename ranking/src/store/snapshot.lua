-- What a partition holds at this moment, for a fold.
-- KEYS  head, log, buckets of seen event ids, then standings
-- ARGV  number of buckets, number of event ids, event ids, then for each standings: number of members, members
-- returns run id, head, length of the log, then (where there are event ids) an array of values a bucket, then an array of scores a standings
local answer = {
  string.match(redis.call('INFO', 'server'), 'run_id:(%x+)'),
  redis.call('GET', KEYS[1]),
  redis.call('XLEN', KEYS[2]),
}
local buckets, ids = tonumber(ARGV[1]), tonumber(ARGV[2])
if ids > 0 then
  for k = 3, 2 + buckets do
    answer[#answer + 1] = redis.call('HMGET', KEYS[k], unpack(ARGV, 3, 2 + ids))
  end
end
local i = 3 + ids
for k = 3 + buckets, #KEYS do
  local members = tonumber(ARGV[i])
  answer[#answer + 1] = redis.call('ZMSCORE', KEYS[k], unpack(ARGV, i + 1, i + members))
  i = i + 1 + members
end
return answer
