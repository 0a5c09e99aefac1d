-- Reads the entries of one shard around each of some places, and counts those before it.
-- KEYS  standings
-- ARGV  most entries before a place, most entries from it on, key, member, key, member, … in order
-- returns for each place the count, then members and keys in order
local above, on = tonumber(ARGV[1]), tonumber(ARGV[2])
local answers = {}
for i, place in ipairs(counts_before(KEYS[1], 3)) do
  local first, last = math.max(place - above, 0), place + on - 1
  local entries = {}
  if first <= last then
    entries = redis.call('ZRANGE', KEYS[1], first, last, 'WITHSCORES')
  end
  answers[i] = { place, entries }
end
return answers
