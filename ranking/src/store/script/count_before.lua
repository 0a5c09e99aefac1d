-- Counts the entries of one shard that come before each of some places.
-- KEYS  standings
-- ARGV  key, member, key, member, …
-- returns a count for each place
local counts = {}
for i = 1, #ARGV, 2 do
  counts[#counts + 1] = count_before(KEYS[1], ARGV[i], ARGV[i + 1])
end
return counts
