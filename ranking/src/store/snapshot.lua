-- What a partition holds at this moment, for a fold.
-- KEYS  head, log, the present seen bucket, the one before, then standings
-- ARGV  number of event ids, event ids, then for each standings: number of members, members
-- returns run id, head, length of the log, then (where there are event ids) two arrays of seen values, then an array of scores a standings
local answer = {
  string.match(redis.call('INFO', 'server'), 'run_id:(%x+)'),
  redis.call('GET', KEYS[1]),
  redis.call('XLEN', KEYS[2]),
}
local count = tonumber(ARGV[1])
if count > 0 then
  answer[4] = redis.call('HMGET', KEYS[3], unpack(ARGV, 2, 1 + count))
  answer[5] = redis.call('HMGET', KEYS[4], unpack(ARGV, 2, 1 + count))
else
  answer[4], answer[5] = {}, {}
end
local i = 2 + count
for k = 5, #KEYS do
  local members = tonumber(ARGV[i])
  answer[#answer + 1] = redis.call('ZMSCORE', KEYS[k], unpack(ARGV, i + 1, i + members))
  i = i + 1 + members
end
return answer
