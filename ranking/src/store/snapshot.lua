-- What a partition holds at this moment, for a fold.
-- KEYS  head, log, board marks, buckets of seen event ids, then standings
-- ARGV  number of marks, their fields (boards, then seals), number of buckets, number of event ids, event ids, then for each standings: number of members, members
-- returns run id, head, length of the log, the marks, then (where there are event ids) an array of values a bucket, then an array of scores a standings
local answer = {
  string.match(redis.call('INFO', 'server'), 'run_id:(%x+)'),
  redis.call('GET', KEYS[1]),
  redis.call('XLEN', KEYS[2]),
}
local boards = tonumber(ARGV[1])
answer[#answer + 1] = redis.call('HMGET', KEYS[3], unpack(ARGV, 2, 1 + boards))
local buckets, ids = tonumber(ARGV[2 + boards]), tonumber(ARGV[3 + boards])
local i = 4 + boards
if ids > 0 then
  for k = 4, 3 + buckets do
    answer[#answer + 1] = redis.call('HMGET', KEYS[k], unpack(ARGV, i, i + ids - 1))
  end
end
i = i + ids
for k = 4 + buckets, #KEYS do
  local members = tonumber(ARGV[i])
  answer[#answer + 1] = redis.call('ZMSCORE', KEYS[k], unpack(ARGV, i + 1, i + members))
  i = i + 1 + members
end
return answer
