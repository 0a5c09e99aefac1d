-- Drops commits that SQL has from the log, and notes how far SQL has them.
-- KEYS  head, log, sizes, settled
-- ARGV  the cursor's run id, the first log entry id to keep, the cursor's seq, the run id of this server (see run.lua)
-- returns the number of dropped commits; 0 if the head is not of that run
local head = redis.call('GET', KEYS[1])
local run_id = this_run()
if run_id ~= ARGV[1] or not head or string.match(head, '%S+$') ~= run_id then
  return 0
end
local dropped = redis.call('XTRIM', KEYS[2], 'MINID', ARGV[2])
if redis.call('XLEN', KEYS[2]) == 0 then
  redis.call('UNLINK', KEYS[3])
elseif dropped > 0 and redis.call('TYPE', KEYS[3]).ok == 'list' then
  redis.call('LTRIM', KEYS[3], dropped, -1)
end
-- A persister that was slow may come after a later one. Out of memory, Redis may refuse the note:
-- the log matters more.
local settled = redis.pcall('GET', KEYS[4])
if type(settled) ~= 'string' or (tonumber(settled) or 0) < tonumber(ARGV[3]) then
  redis.pcall('SET', KEYS[4], ARGV[3])
end
return dropped
