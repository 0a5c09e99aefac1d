-- Reads the entries around members of the only shard, at one moment.
-- KEYS  standings
-- ARGV  most entries before a member, most entries from it on, members
-- returns for each member the position of the first entry, then members and keys in order, or nil
--         if it has no entry
local above, on = tonumber(ARGV[1]), tonumber(ARGV[2])
local answers = {}
for i = 3, #ARGV do
  local rank = redis.call('ZRANK', KEYS[1], ARGV[i])
  local first = rank and math.max(rank - above, 0)
  answers[i - 2] = rank
    and { first, redis.call('ZRANGE', KEYS[1], first, rank + on - 1, 'WITHSCORES') }
end
return answers
