-- Reads the keys and ranks of members in one shard, at one moment.
-- KEYS  standings
-- ARGV  members
-- returns for each member its key and rank, or nil if it has no entry
local keys, answers = redis.call('ZMSCORE', KEYS[1], unpack(ARGV)), {}
for i, member in ipairs(ARGV) do
  answers[i] = keys[i] and { keys[i], redis.call('ZRANK', KEYS[1], member) }
end
return answers
