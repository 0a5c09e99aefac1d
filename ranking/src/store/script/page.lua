-- Reads the entries of one shard next to a place, and counts those before it, at one moment: a
-- member that moves between two reads would shift the others.
-- KEYS  standings
-- ARGV  key, member, FORWARD (from the place on) or BACKWARD (before it), most entries
-- returns the count, then members and keys in order
local place, count = count_before(KEYS[1], ARGV[1], ARGV[2]), tonumber(ARGV[4])
local first, last = place, place + count - 1
if ARGV[3] == 'BACKWARD' then
  first, last = math.max(place - count, 0), place - 1
end
if first > last then
  return { place, {} }
end
return { place, redis.call('ZRANGE', KEYS[1], first, last, 'WITHSCORES') }
