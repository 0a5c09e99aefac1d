-- A step of a partition's recovery, taken only while the caller holds the right to recover it on
-- this server's run.
-- KEYS  recovery token, then the keys of the writes
-- ARGV  the caller's token, its run id, the token's lifetime in ms, then writes (see write.lua), the run id of this server (see run.lua)
-- returns DONE, LOST (the caller no longer holds the right), RESTARTED (another run) or TYPE <key>
local run_id = this_run()
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 'LOST'
end
if run_id ~= ARGV[2] then
  return 'RESTARTED'
end
local foreign = foreign_key(4)
if foreign then
  return 'TYPE ' .. foreign
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
apply_writes(4)
return 'DONE'
