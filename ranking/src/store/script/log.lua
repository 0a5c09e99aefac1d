-- Reads a part of a partition's log, with the head of that moment. A transaction would be refused
-- out of memory, when SQL must still get the log.
-- KEYS  head, log
-- ARGV  the first log entry id, the most entries
-- returns the head, or nil, and the entries
return { redis.call('GET', KEYS[1]), redis.call('XRANGE', KEYS[2], ARGV[1], '+', 'COUNT', ARGV[2]) }
