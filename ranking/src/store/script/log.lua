-- Reads a part of a partition's log, with the head of that moment. A transaction would be refused
-- out of memory, when SQL must still get the log.
-- KEYS  head, log, settled
-- ARGV  the first log entry id, the most entries
-- returns the head, or nil, the entries, and the seq up to which SQL had the commits, or nil
local settled = redis.pcall('GET', KEYS[3])
if type(settled) ~= 'string' then
  settled = false
end
return { redis.call('GET', KEYS[1]), redis.call('XRANGE', KEYS[2], ARGV[1], '+', 'COUNT', ARGV[2]), settled }
