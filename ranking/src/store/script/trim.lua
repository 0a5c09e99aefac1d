-- Drops commits that SQL has from the log, and notes how far SQL has them.
-- KEYS  head, log, settled
-- ARGV  the cursor's run id, the first log entry id to keep, the cursor's seq
-- returns the number of dropped commits; 0 if the head is not of that run
local head = redis.call('GET', KEYS[1])
local run_id = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
if run_id ~= ARGV[1] or not head or string.match(head, '%S+$') ~= run_id then
  return 0
end
local dropped = redis.call('XTRIM', KEYS[2], 'MINID', ARGV[2])
-- Out of memory, Redis may refuse it: the log matters more.
redis.pcall('SET', KEYS[3], ARGV[3])
return dropped
